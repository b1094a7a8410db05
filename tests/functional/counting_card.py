"""A card on a small program that counts, for the tests of the commands for authors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.functional.session_process import document

PROGRAM = """\
#include <unistd.h>

static int total, calls;

static int add(int n)
{
    total += n;
    calls++;
    return total; /* added */
}

int main(int argc, char **argv)
{
    (void)argv;
    add(1);
    add(2);
    add(4);
    if (argc > 1)
        pause();
    return total; /* the end */
}
"""


class CountingCard:
    """Its step ``t1/b1/p1/s1`` has the snapshots ``second``, where ``total`` is 3, and ``end``, where it is 7."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.source = folder / "card_source.json"
        self.code = folder / "src" / "main.c"
        self.code.parent.mkdir(parents=True)
        self.code.write_text(PROGRAM)
        self.document = _document()
        self.write()

    @property
    def step(self) -> dict[str, Any]:
        step: dict[str, Any] = self.document["tasks"][0]["blocks"][0]["phases"][0]["steps"][0]
        return step

    @property
    def second(self) -> dict[str, Any]:
        snapshot: dict[str, Any] = self.step["snapshots"][0]
        return snapshot

    def write(self) -> None:
        self.source.write_text(json.dumps(self.document, indent=3))

    def edit_code(self, old: str, new: str) -> None:
        text = self.code.read_text()
        assert text.count(old) == 1
        self.code.write_text(text.replace(old, new))


def _document() -> dict[str, Any]:
    def stop(text: str, **members: Any) -> dict[str, Any]:
        (line,) = (number for number, each in enumerate(PROGRAM.splitlines(), 1) if text in each)
        return {"file": "main.c", "line": line, "text": text, **members}

    second = {"id": "second", "title": "Second", "stop": stop("/* added */", hits=2), "expect": {"total": 3, "n": 2}}
    end = {"id": "end", "title": "End", "stop": stop("/* the end */"), "expect": {"total": "7"}}
    step = {"id": "s1", "title": "Step", "snapshots": [second, end]}
    phase = {"id": "p1", "title": "Phase", "steps": [step]}
    block = {"id": "b1", "title": "Block", "phases": [phase]}
    target = {
        "name": "counting",
        "build": ["gcc", "-g", "-O0", "-o", "counting", "main.c"],
        "program": "counting",
        "sources": ["main.c"],
    }
    return document("counting", target, {}, {}) | {
        "uuid": "aaaaaaaa-0000-4000-8000-000000000026",
        "title": "Counting",
        "tasks": [{"id": "t1", "title": "Task", "blocks": [block]}],
    }
