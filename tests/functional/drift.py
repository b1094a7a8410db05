"""Ways in which a card and its program drift apart: what ``bin/cardapp check`` reports for each, and what repairs
it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.functional.foreign_programs import Repository

KEY = "t/b/p/s"
"""The step of a subject's card. Its snapshots are ``line``, ``function`` and ``condition``."""


@dataclass(frozen=True)
class Subject:
    """A program with a card, and the edits that make the card drift. An edit is (file, old text, new text).

    The card has an excerpt and three stops in ``file``: a line, a function, and a line or function with a condition.
    """

    repository: Repository
    file: str
    stop_line: tuple[str, str]
    """The text of the line stop, and the same code written differently."""
    body: tuple[str, str]
    """A piece of the excerpt's lines outside all stops, and the same code written differently."""
    value: tuple[str, str, str]
    """Changes a value that the snapshot ``line`` expects."""
    another_hit: tuple[str, str, str]
    """Makes the program reach the line stop once more before the hit that the card means."""
    function: tuple[str, str]
    """The name of the function that the card stops at, and another name."""
    condition_variable: tuple[str, str]
    """A variable of the condition, and another name. The variable is in ``file`` only."""
    broken: tuple[str, str, str]
    """Breaks the build."""
    no_debug: tuple[str, str, str]
    """Builds the program without -g."""
    early_end: tuple[str, str, str]
    """Ends the program before it reaches a stop."""


@dataclass(frozen=True)
class Way:
    """One kind of drift: the edit, the fault's code and a part of its message, and the options that repair it.

    Without ``fixed_by`` somebody must edit the card or the program. The test undoes the edit that caused the drift.
    """

    name: str
    drift: Callable[[Subject], None]
    code: str
    says: str
    fixed_by: tuple[str, ...] = ()


def _edit(name: str) -> Callable[[Subject], None]:
    def drift(subject: Subject) -> None:
        file, old, new = getattr(subject, name)
        subject.repository.edit(file, old, new)

    return drift


def _edit_in_file(name: str) -> Callable[[Subject], None]:
    def drift(subject: Subject) -> None:
        subject.repository.edit(subject.file, *getattr(subject, name))

    return drift


def _rename(name: str) -> Callable[[Subject], None]:
    def drift(subject: Subject) -> None:
        old, new = getattr(subject, name)
        for file in subject.repository.folder.rglob("*.[ch]*"):
            text = file.read_bytes()
            if old.encode() in text:
                file.write_bytes(text.replace(old.encode(), new.encode()))

    return drift


def _insert_lines(subject: Subject) -> None:
    file = subject.repository.folder / subject.file
    file.write_bytes(b"/* inserted */\n" * 10 + file.read_bytes())


def _remove_file(subject: Subject) -> None:
    (subject.repository.folder / subject.file).unlink()


WAYS = (
    Way("ten lines were inserted above", _insert_lines, "code_changed", "moved from", ("--fix",)),
    Way("the line of a stop was rewritten", _edit_in_file("stop_line"), "source_drift", "no line of the file contains"),
    Way("an excerpt was rewritten", _edit_in_file("body"), "code_changed", "changed: look at them"),
    Way("a value changed", _edit("value"), "snapshot_drift", "but the card expects"),
    Way("a call was added", _edit("another_hit"), "snapshot_drift", "but the card expects", ("--fix", "--replay")),
    Way("a function was renamed", _rename("function"), "stop_not_reached", "has no code at"),
    Way("a variable was renamed", _rename("condition_variable"), "bad_condition", "cannot be evaluated"),
    Way("the build is broken", _edit("broken"), "build_failed", "error"),
    Way("the program has no debug information", _edit("no_debug"), "stop_not_reached", "without -g"),
    Way("the program ends early", _edit("early_end"), "target_exited", "exited with code"),
    Way("the file was removed", _remove_file, "source_missing", "there is no such file"),
)


def check(card: Path, *options: str) -> tuple[int, dict[str, Any]]:
    """The exit code of ``check`` and its result for the card."""
    command = [sys.executable, "-P", "-m", "cardapp", "check", "--format", "json", *options, str(card)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, env=os.environ)
    assert done.stdout, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)["cards"][0]
    return done.returncode, found


def assert_green(card: Path) -> None:
    code, found = check(card, "--replay")
    assert (code, found["faults"]) == (0, []), found["faults"]
    assert {each["state"] for each in found["snapshots"]} == {"ready"}, found["snapshots"]


def try_way(subject: Subject, way: Way) -> None:
    """Make the card drift, compare the output of ``check``, and repair the card. Afterwards the repository is
    unchanged."""
    repository = subject.repository
    try:
        way.drift(subject)
        code, found = check(repository.card, "--replay")
        said = [(fault["code"], fault["detail"]) for fault in found["faults"]]
        assert code == 1, (way.name, found)
        assert any(kind == way.code and way.says in detail for kind, detail in said), (way.name, said)
        if way.fixed_by:
            check(repository.card, *way.fixed_by)
            assert_green(repository.card)
    finally:
        repository.restore()
