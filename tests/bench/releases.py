"""Replays and revisits on this Debian release beside another one, in turn.

The argument is a command that runs ``python -m tests.bench.releases once`` in the other release, for example::

    .venv/bin/python -m tests.bench.releases \\
        "chroot DIR sh -c 'cd /root/repo && .venv/bin/python -m tests.bench.releases once'"
"""

from __future__ import annotations

import json
import platform
import random
import statistics
import subprocess
import sys
from typing import Any

from tests.bench.figures import Figure, median_ms, table
from tests.bench.fork_replay import replay
from tests.bench.replay import arena

ROUNDS = 9
SNAPSHOTS = 20
REVISITS = 60
HERE = f"{sys.executable} -m tests.bench.releases once"


def once() -> dict[str, Any]:
    """``{release, rerun, fork}``: the seconds of replays that run the program, and of revisits that do not."""
    chosen = random.Random(1)
    with arena() as stage:
        few = chosen.sample(list(stage.service.services.card_loader.current().catalog.snapshots), SNAPSHOTS)
        rerun = [replay(stage, key, "rerun") for key in few]
        fork = [replay(stage, chosen.choice(few), "fork") for _ in range(REVISITS)]
    return {"release": platform.freedesktop_os_release()["PRETTY_NAME"], "rerun": rerun, "fork": fork}


def compare(other: str) -> str:
    """The table of both releases; each round runs one after the other."""
    rounds = [(_run(HERE), _run(other)) for _ in range(ROUNDS)]
    figures = []
    for method, name in (("rerun", "first replay of a snapshot (rerun)"), ("fork", "revisit (fork)")):
        ratio = statistics.median(
            statistics.median(there[method]) / statistics.median(here[method]) for here, there in rounds
        )
        for at in (0, 1):
            seconds = [each for both in rounds for each in both[at][method]]
            figures.append(Figure(f"{name}, {rounds[0][at]['release']}", f"p50 {median_ms(seconds):.0f} ms"))
        figures.append(Figure(f"{name}: there / here, median of {ROUNDS} rounds", f"{ratio:.2f}", "≤ 1.3"))
    return table(figures)


def _run(command: str) -> dict[str, Any]:
    done = subprocess.run(command, shell=True, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


if __name__ == "__main__":
    print(json.dumps(once()) if sys.argv[1] == "once" else compare(sys.argv[1]))
