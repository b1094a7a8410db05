"""Replays and revisits in a local session and in a container, in turn: ``python -m tests.bench.runtimes``."""

from __future__ import annotations

import random
import statistics

from tests.bench.figures import Figure, percentile, table
from tests.bench.fork_replay import replay
from tests.bench.replay import arena
from tests.functional.runtimes import LOCAL, PODMAN
from tests.functional.serving import Stage

ROUNDS = 5
SNAPSHOTS = 20
REVISITS = 60
METHODS = {"rerun": "first replay of a snapshot (rerun)", "fork": "revisit (fork)"}


def measure() -> list[Figure]:
    pairs: dict[str, list[tuple[float, float]]] = {method: [] for method in METHODS}
    for number in range(ROUNDS):
        with arena(LOCAL) as local, arena(PODMAN) as podman:
            _round(local, podman, random.Random(number), pairs)
    return [figure for method in METHODS for figure in _figures(METHODS[method], pairs[method])]


def _round(local: Stage, podman: Stage, chosen: random.Random, pairs: dict[str, list[tuple[float, float]]]) -> None:
    """Replay each of some snapshots for the first time, then revisit them, each in both sessions."""
    few = chosen.sample(list(local.service.services.card_loader.current().catalog.snapshots), SNAPSHOTS)
    for stage in (local, podman):
        replay(stage, few[0], "rerun")  # the first one of a session takes longer
    pairs["rerun"] += [(replay(local, key, "rerun"), replay(podman, key, "rerun")) for key in few[1:]]
    again = chosen.choices(few, k=REVISITS)
    pairs["fork"] += [(replay(local, key, "fork"), replay(podman, key, "fork")) for key in again]


def _figures(name: str, pairs: list[tuple[float, float]]) -> list[Figure]:
    ratio = statistics.median(podman / local for local, podman in pairs)
    local, podman = zip(*pairs, strict=True)
    return [
        *(
            Figure(
                f"{name}, {runtime}", f"p50 {percentile(seconds, 0.5):.0f} ms, p99 {percentile(seconds, 0.99):.0f} ms"
            )
            for runtime, seconds in ((LOCAL, local), (PODMAN, podman))
        ),
        Figure(f"{name}: podman / local, median of pairs", f"{ratio:.2f}", "≤ 1.2"),
    ]


if __name__ == "__main__":
    print(table(measure()))
