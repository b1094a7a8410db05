"""Writes a new card: on a small program that is written with it, or on a function of an existing program."""

from __future__ import annotations

import json
import os
import re
import shutil
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cardapp.authoring.card_report import Replays, check_card
from cardapp.authoring.located_program import Located
from cardapp.authoring.recording import changed_text, record, selected
from cardapp.card import proof
from cardapp.card.model import NOT_RECORDED, Expectation
from cardapp.card.source import SOURCE_NAME, load_card
from cardapp.errors import CardAppError, MissingRequirement, UsageError

STARTERS = Path(__file__).with_name("starters")
LAYOUT = "karta-classic"
_MAX_VALUE = 100
"""The maximum number of characters of a value that a new card expects. A longer text is of little use on a sheet."""
Document = dict[str, Any]


@dataclass(frozen=True)
class Starter:
    """A small program in ``starters``: its file, its compiler, and the line where its card stops."""

    file: str
    compiler: str
    stop: str = "return sum;"
    function: str = "sum_to"


LANGUAGES = {
    "c": Starter("main.c", "cc"),
    "c++": Starter("main.cpp", "c++"),
    "rust": Starter("main.rs", "rustc"),
}


def check_folder(folder: Path) -> None:
    """Refuse a folder that a new card would change.

    :raises UsageError: it exists and is not empty.
    """
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is not a folder")
    if folder.is_dir() and any(folder.iterdir()):
        raise UsageError(f"{folder} is not empty: name a new folder")


def write_starter(folder: Path, language: str, profile: str | None) -> None:
    """Write a card with a small program into ``folder``, record its values, and prove it.

    :raises MissingRequirement: make or the compiler is missing.
    :raises CardAppError: the card cannot be proved; nothing is left in ``folder``.
    """
    starter = LANGUAGES[language]
    for program in ("make", starter.compiler):
        if shutil.which(program) is None:
            raise MissingRequirement(f"{program} is missing: the program of a card for {language} is built with it")
    lines = (STARTERS / language / starter.file).read_text("utf-8").split("\n")
    line = next(number for number, text in enumerate(lines, 1) if starter.stop in text)
    document = _document(
        folder,
        f"A card in {language.capitalize()}",
        {
            "name": "program",
            "directory": "src",
            "build": ["make", "-s"],
            "program": "build/program",
            "sources": [starter.file],
        },
        _step(
            "The sum is ready",
            f"`{starter.function}` adds the numbers from 1 to `limit`. The stop stands *before* its line has run.",
            "What is `sum` now?",
            {"file": starter.file, "function": starter.function},
            {
                "id": "sum",
                "title": "before the function returns",
                "stop": {"file": starter.file, "line": line, "text": starter.stop},
                "expect": {"limit": NOT_RECORDED, "sum": NOT_RECORDED},
            },
        ),
    )
    with _removed_on_failure(folder):
        shutil.copytree(STARTERS / language, folder / "src")
        _write_recorded(folder, document, profile, lambda _expression, _value: True)


def write_at(folder: Path, found: Located, profile: str | None) -> None:
    """Write a card on the function ``found`` into ``folder``, record the values of its arguments, and prove it.

    It expects scalars and short texts. It watches addresses, aggregates, and values that differ between two runs.

    :raises CardAppError: the card cannot be proved; nothing is left in ``folder``.
    """
    probe, place = found.probe, found.file.as_posix()
    stop: Document = {"function": probe.function, "file": place}
    snapshot: Document = {"id": "entry", "title": "at its first call", "stop": stop}
    if probe.arguments:
        snapshot["expect"] = dict.fromkeys(probe.arguments, NOT_RECORDED)
    document = _document(
        folder,
        f"{found.function} in {found.file.name}",
        _target(folder, found),
        _step(
            f"{found.function} is called",
            f"The program has just called `{found.function}`: its body has not run yet.",
            "Which values do the arguments have now?",
            {"file": place, "function": found.function},
            snapshot,
        ),
    )

    def is_stable(expression: str, value: str) -> bool:
        same = proof.same_value(Expectation(expression, value), probe.arguments[expression])
        short = len(value) <= _MAX_VALUE and not value.startswith("{")
        return same and short and not proof.is_address(value)

    with _removed_on_failure(folder):
        folder.mkdir(parents=True, exist_ok=True)
        _write_recorded(folder, document, profile, is_stable)


def _target(folder: Path, found: Located) -> Document:
    here = folder.absolute()
    target: Document = {
        "name": _identifier(found.program.name),
        "root": os.path.relpath(found.root, here),
        "directory": os.path.relpath(found.root / found.build.folder, here),
        "build": list(found.build.command),
        "program": found.program.as_posix(),
        "sources": [found.file.as_posix()],
    }
    if found.arguments:
        target["args"] = list(found.arguments)
    if found.stdin is not None:
        target["stdin"] = found.stdin
    if found.build_timeout is not None:
        target["build_timeout_s"] = found.build_timeout
    return target


def _document(folder: Path, title: str, target: Document, step: Document) -> Document:
    phase = {"id": "p1", "title": "Phase 1", "steps": [step]}
    block = {"id": "b1", "title": "Block 1", "goal": "", "phases": [phase]}
    return {
        "schema": "card-source.v1",
        "id": _identifier(folder.absolute().name),
        "uuid": str(uuid.uuid4()),
        "version": "1.0.0",
        "title": title[:200],
        "language": "en",
        "layout": LAYOUT,
        "target": target,
        "tasks": [{"id": "t1", "title": "Task 1", "blocks": [block]}],
    }


def _step(title: str, text: str, question: str, code: Document, snapshot: Document) -> Document:
    step = {"id": "s1", "title": title[:200], "text": text, "question": question}
    return {**step, "code": code, "snapshots": [snapshot]}


def _identifier(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:64].rstrip("-") or "card"


def _write_recorded(
    folder: Path, document: Document, profile: str | None, is_stable: Callable[[str, str], bool]
) -> None:
    """Write the card with its recorded values, and prove it. Values that are not stable are only watched."""
    path = folder / SOURCE_NAME
    path.write_text(_as_text(document), "utf-8")
    loaded = load_card(path)
    found = record(loaded, selected(loaded, None), profile)
    problems = [problem for problem in found.problems if problem.code != "unreadable_value"]
    if problems:
        raise CardAppError(f"the card cannot be recorded: {problems[0].detail}", code=problems[0].code)
    recorded = json.loads(changed_text(found.text, found.changes))
    snapshot = recorded["tasks"][0]["blocks"][0]["phases"][0]["steps"][0]["snapshots"][0]
    read = {name: value for name, value in snapshot.pop("expect", {}).items() if value != NOT_RECORDED}
    stable = {name: value for name, value in read.items() if is_stable(name, value)}
    if stable:
        snapshot["expect"] = stable
    if len(stable) < len(read):
        snapshot["watch"] = [name for name in read if name not in stable]
    path.write_text(_as_text(recorded), "utf-8")
    report = check_card(str(path), Replays(profile))
    if not report.ok:
        raise CardAppError(f"the card cannot be proved: {report.faults[0].detail}", code=report.faults[0].code)


def _as_text(document: Document) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


@contextmanager
def _removed_on_failure(folder: Path) -> Iterator[None]:
    """If the card is not finished, remove the files that were written into the empty or new ``folder``."""
    existed = folder.is_dir()
    try:
        yield
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        if existed:
            folder.mkdir(exist_ok=True)
        raise
