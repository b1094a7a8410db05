"""``cardapp check --replay`` of ten stops beside ``gdb -batch`` of the same stops: ``python -m tests.bench.check``.

Both use the arena card. The build is measured apart and subtracted, because gdb is given a built program.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cardapp.card.catalog import Catalog
from cardapp.card.source import LoadedCard, load_card
from cardapp.settings import ROOT
from tests.bench.figures import Figure, table
from tests.bench.replay import gdb_batch

STOPS = 10
ROUNDS = 5


def measure() -> list[Figure]:
    """Each round has a build, a check, and ten runs of gdb. The ratios are medians of the rounds."""
    with tempfile.TemporaryDirectory(prefix="bench-", dir="/tmp") as folder:
        shutil.copytree(ROOT / "etc" / "cards" / "arena", Path(folder) / "arena")
        loaded = load_card(Path(folder) / "arena")
        snapshots = Catalog(loaded.card).snapshots
        chosen = list(snapshots)[:: len(snapshots) // STOPS][:STOPS]
        target, rounds = loaded.card.target, []
        for _ in range(ROUNDS):
            build = _built(loaded)
            wall, replays = _checked(loaded.path, chosen, Path(folder) / "state")
            program = loaded.target_directory / target.program
            gdb = sum(gdb_batch(program, target.run.args, snapshots[key]) for key in chosen)
            rounds.append((wall - build, replays, gdb))
    walls, replays_, gdbs = zip(*rounds, strict=True)
    shares = [statistics.median(a / b for a, b in zip(each, gdbs, strict=True)) for each in (walls, replays_)]
    return [
        Figure("`gdb -batch`, once for each of ten stops", f"{statistics.median(gdbs):.2f} s"),
        Figure("`check --replay` of the ten stops, the whole command without the build", _seconds(walls)),
        Figure("the same / `gdb -batch`", f"{shares[0]:.2f}", "≤ 0.5"),
        Figure("its ten replays alone", _seconds(replays_)),
        Figure("the same / `gdb -batch`", f"{shares[1]:.2f}", "≤ 0.5"),
    ]


def _seconds(rounds: Sequence[float]) -> str:
    return f"{statistics.median(rounds):.2f} s"


def _built(loaded: LoadedCard) -> float:
    """Seconds of a build from the start."""
    program = loaded.target_directory / loaded.card.target.program
    shutil.rmtree(program.parent, ignore_errors=True)
    began = time.perf_counter()
    subprocess.run(loaded.card.target.build, cwd=loaded.target_directory, capture_output=True, check=True)
    return time.perf_counter() - began


def _checked(card: Path, keys: list[str], state: Path) -> tuple[float, float]:
    """Seconds of the command, and of all its replays."""
    command = [sys.executable, "-P", "-m", "cardapp", "check", "--replay", "--format", "json", str(card)]
    began = time.perf_counter()
    ended = subprocess.run(
        [*command, *(part for key in keys for part in ("--only", key))],
        env=os.environ | {"CARD_STATE_DIR": str(state)},
        capture_output=True,
        text=True,
        check=True,
    )
    wall = time.perf_counter() - began
    found: list[dict[str, Any]] = json.loads(ended.stdout)["cards"][0]["snapshots"]
    assert [each["state"] for each in found] == ["ready"] * STOPS, ended.stdout
    return wall, sum(each["duration_ms"] for each in found) / 1000


if __name__ == "__main__":
    print(table(measure()))
