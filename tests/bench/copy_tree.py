"""The start of a session on a card in a tree of 20 000 files: ``python -m tests.bench.copy_tree``.

The first start is measured beside ``cp -a`` of the tree, the later ones beside those of the same card alone.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from tests.bench.figures import Figure, table
from tests.cardapp.card.conftest import small_source
from tests.functional.session_process import SessionTool

FILES, FILES_PER_FOLDER = 20_000, 25
ROUNDS = 3
_PROGRAM = "int main(void)\n{\n    int n = 0;\n    return n;\n}\n"


def measure() -> list[Figure]:
    """Each round has ``cp -a``, a first and a later start in the tree, and a later start of the card alone."""
    rounds = []
    with tempfile.TemporaryDirectory(prefix="card-", dir="/tmp") as folder:
        alone, tree = Path(folder) / "alone", Path(folder) / "tree"
        for repository in (alone, tree):
            _make_repository(repository, FILES if repository == tree else 0)
        for number in range(ROUNDS):
            tool = SessionTool(Path(folder) / f"state{number}")
            _started(tool, alone)
            copied = _seconds("cp", "-a", str(tree), str(Path(folder) / f"copy{number}"))
            rounds.append((copied, _started(tool, tree), _started(tool, tree), _started(tool, alone)))
    medians = [statistics.median(each) for each in zip(*rounds, strict=True)]
    first = statistics.median(start / copied for copied, start, _, _ in rounds)
    later = statistics.median(again - small for _, _, again, small in rounds)
    return [
        Figure("`cp -a` of 20 000 files", f"{medians[0]:.2f} s"),
        Figure("first start of a session that copies them", f"{medians[1]:.2f} s"),
        Figure("the same / `cp -a`, median of rounds", f"{first:.2f}", "≤ 2"),
        Figure("later start", f"{medians[2]:.2f} s"),
        Figure("later start of the card alone", f"{medians[3]:.2f} s"),
        Figure("the difference, median of rounds", f"{later:.2f} s", "≤ 0.5 s"),
    ]


def _make_repository(folder: Path, files: int) -> None:
    """A git repository with a card in a folder of its own. Its history is elsewhere, so ``cp -a`` copies only files."""
    (folder / "card").mkdir(parents=True)
    document = small_source()
    target = {"root": "..", "directory": "..", "sources": ["main.c"], "program": "main", "build": ["make", "main"]}
    document["id"] = folder.name
    document["target"] |= target
    snapshot = {"id": "m", "title": "main", "stop": {"function": "main"}, "expect": {"n": "0"}}
    steps = [{"id": "s", "title": "A step", "snapshots": [snapshot]}]
    document["tasks"][0]["blocks"][0]["phases"] = [{"id": "p", "title": "A phase", "steps": steps}]
    del document["tasks"][0]["blocks"][1:], document["tasks"][1:]
    (folder / "card" / "card_source.json").write_text(json.dumps(document))
    (folder / "main.c").write_text(_PROGRAM)
    sizes = random.Random(1)
    for number in range(files):
        at = folder / f"m{number // 500}" / f"d{number // FILES_PER_FOLDER}"
        if number % FILES_PER_FOLDER == 0:
            at.mkdir(parents=True, exist_ok=True)
        (at / f"f{number}.c").write_text(f"int f{number};\n" * sizes.randint(20, 400))
    _seconds("git", "init", "-q", f"--separate-git-dir={folder}.git", str(folder))
    _seconds("git", "-C", str(folder), "add", "-A")


def _started(tool: SessionTool, repository: Path) -> float:
    """Seconds of a start, after which the session is stopped."""
    began = time.perf_counter()
    tool.must("start", "--name", repository.name, str(repository / "card"))
    took = time.perf_counter() - began
    tool.must("stop", repository.name)
    return took


def _seconds(*command: str) -> float:
    os.sync()  # so that writes of the previous step are not measured
    began = time.perf_counter()
    subprocess.run(command, check=True)
    return time.perf_counter() - began


if __name__ == "__main__":
    print(table(measure()))
