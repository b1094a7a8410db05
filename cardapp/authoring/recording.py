"""Records values that a card lacks or has wrong: lines, texts and digests of its excerpts and stops, and the values at
its stops, which come from replays.

A change *replaces* if it alters something that the card already had. Every other change fills in something that was
missing: a value or a stop's text that is ``"?"``, the anchor of an excerpt, the lines of an excerpt that names a
function.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cardapp.authoring.code_faults import line_of_text, parts_of, stop_places
from cardapp.authoring.fault import Fault, pointers
from cardapp.authoring.function_lines import function_lines
from cardapp.authoring.proving import Reading, TemporarySession, codeless_line, temporary_session
from cardapp.authoring.renames import Renames, find_renames
from cardapp.authoring.source_text import SourceText, read_source, write_source
from cardapp.authoring.stability import STOP, FirstReading, Unstable, unstable_values
from cardapp.card import anchors, proof
from cardapp.card.catalog import Catalog
from cardapp.card.model import NOT_RECORDED, CodeRange, Expectation, Snapshot, Step
from cardapp.card.source import LoadedCard, parse_card, pointer_token
from cardapp.errors import CardAppError, Conflict, InvalidValue, SessionUnavailable

CODE_MEMBERS = ("from", "to", "text", "digest")


@dataclass(frozen=True)
class Change:
    """A value that is recorded in the object of the position ``key``. ``old`` is None if there was none.

    ``is_place`` marks the lines of an excerpt or stop. Without this change, the position's other changes would be
    wrong.
    """

    key: str
    pointer: str
    name: str
    old: Any
    new: Any
    replaces: bool
    is_place: bool = False


@dataclass(frozen=True)
class Recording:
    """The changes that can be recorded in the card at ``path``, whose source file has ``text``.

    ``problems`` say what could not be recorded. ``addresses`` names values that may differ on another machine. The
    ``unstable`` values differ from run to run, and are not recorded.
    """

    path: Path
    text: str
    changes: tuple[Change, ...]
    problems: tuple[Fault, ...]
    addresses: tuple[str, ...]
    unstable: tuple[Unstable, ...] = ()

    @property
    def replacing(self) -> tuple[Change, ...]:
        return tuple(change for change in self.changes if change.replaces)

    def without_replacing(self) -> tuple[Change, ...]:
        """The changes that fill in missing values and do not depend on the other changes."""
        unplaced = {change.key for change in self.changes if change.replaces and change.is_place}
        return tuple(change for change in self.changes if not change.replaces and change.key not in unplaced)

    def write(self, changes: Sequence[Change]) -> None:
        """Write ``changes`` into the source file in one step. All other bytes stay the same.

        :raises Conflict: the file has changed since it was read.
        """
        if read_source(self.path) != self.text:
            raise Conflict(f"{self.path} has changed since it was read: nothing was written, so record again")
        write_source(self.path, changed_text(self.text, changes))


def changed_text(text: str, changes: Sequence[Change]) -> str:
    return SourceText(text).with_values({change.pointer: change.new for change in changes})


def record(
    loaded: LoadedCard,
    keys: set[str],
    profile: str | None,
    report: Callable[[str], None] = lambda _key: None,
) -> Recording:
    """Find the changes of the positions ``keys``, and replay the snapshots among them, each twice. ``report`` is called
    with its key after each replay.

    :raises CardAppError: the session cannot be started or used, or the build failed.
    """
    text = read_source(loaded.path)
    changes, problems = place_changes(loaded, keys)
    card, identity = parse_card(changed_text(text, changes).encode(), str(loaded.path), loaded.path.parent)
    placed = LoadedCard(card, identity, loaded.path)
    at, snapshots = pointers(Catalog(card)), Catalog(card).snapshots
    unplaced = {problem.key for problem in problems}
    wanted = [key for key in snapshots if key in keys - unplaced]
    found = Recording(loaded.path, text, tuple(changes), tuple(problems), ())
    return _with_values(found, placed, {key: snapshots[key] for key in wanted}, at, profile, report)


def _with_values(
    found: Recording,
    placed: LoadedCard,
    snapshots: Mapping[str, Snapshot],
    at: Mapping[str, str],
    profile: str | None,
    report: Callable[[str], None],
) -> Recording:
    if not snapshots:
        return found
    unstable: list[Unstable] = []
    with temporary_session(placed, profile) as session:
        readings, failed = _readings(session, snapshots, at, report)
    if readings:
        # The program gets another home folder and another parent in another session.
        with temporary_session(placed, profile) as session:
            unstable = unstable_values(session, readings, report)
    misplaced = {fault.key for fault in failed if fault.pointer.endswith("/line")}
    changes = [change for change in found.changes if change.key not in misplaced]
    problems, addresses = [*found.problems, *failed], []
    unsteady = {(each.key, each.expression) for each in unstable}
    for key, first in readings.items():
        values, unread = value_changes(key, at[key], first.snapshot, first.reading)
        problems += unread
        kept = [each for each in values if not {(key, each.name), (key, STOP)} & unsteady]
        changes += kept
        addresses += [f"{key}: {each.name}" for each in kept if proof.is_address(str(each.new))]
    shown = tuple(each for each in unstable if not each.is_hidden)
    return Recording(found.path, found.text, tuple(changes), tuple(problems), tuple(addresses), shown)


def _readings(
    session: TemporarySession, snapshots: Mapping[str, Snapshot], at: Mapping[str, str], report: Callable[[str], None]
) -> tuple[dict[str, FirstReading], list[Fault]]:
    """What the replays of the snapshots read, and the faults of those that failed or stopped elsewhere."""
    readings: dict[str, FirstReading] = {}
    failed: list[Fault] = []
    for key, snapshot in snapshots.items():
        try:
            reading = session.replay(key, snapshot)
        except CardAppError as error:
            if isinstance(error, SessionUnavailable) or error.code == "build_failed":
                raise
            failed.append(Fault(key, f"{at[key]}/stop", None, error.code, error.detail))
        else:
            if (no_code := codeless_line(snapshot.stop, reading)) is not None:
                failed.append(Fault(key, f"{at[key]}/stop/line", None, "source_drift", no_code))
            else:
                readings[key] = FirstReading(snapshot, reading, time.monotonic())
        report(key)
    return readings, failed


# -- excerpts and stops ----------------------------------------------------------------------------------------------


def place_changes(loaded: LoadedCard, keys: set[str]) -> tuple[list[Change], list[Fault]]:
    """The changes of the excerpts and stops of the positions ``keys``, and those that cannot be found."""
    catalog, files = Catalog(loaded.card), loaded.sources()
    renames = find_renames(parts_of(loaded), files)
    changes: list[Change] = []
    problems: list[Fault] = []
    for key, pointer in pointers(catalog).items():
        if key not in keys:
            continue
        try:
            if key in catalog.steps:
                changes += _code_changes(key, f"{pointer}/code", catalog.steps[key], files, renames)
            elif key in catalog.snapshots:
                changes += _stop_changes(key, f"{pointer}/stop", catalog.snapshots[key], files, renames)
        except InvalidValue as error:
            code = "source_drift" if error.code == InvalidValue.code else error.code
            problems.append(Fault(key, pointer, None, code, error.detail))
    return changes, problems


def _code_changes(
    key: str, pointer: str, step: Step, files: Mapping[str, list[str]], renames: Renames
) -> Iterator[Change]:
    code = step.code
    if step.unresolved is not None:
        lines = _lines(step.unresolved.file, files)
        first, last = function_lines(step.unresolved.function, step.unresolved.file, lines)
        old: tuple[Any, ...] = (None,) * len(CODE_MEMBERS)
        code = CodeRange(step.unresolved.file, first, last)
    elif code is not None:
        lines = _lines(code.file, files)
        old = (code.first, code.last, code.text, code.digest)
        if not anchors.holds(code, lines):
            code = _found_again(code, lines, renames)
    else:
        return
    anchored = anchors.anchored(code, lines)
    new = (anchored.first, anchored.last, anchored.text, anchored.digest)
    for name, before, now in zip(CODE_MEMBERS, old, new, strict=True):
        if before != now:
            replaces = before is not None
            yield Change(key, f"{pointer}/{name}", f"code {name}", before, now, replaces, is_place=True)


def _found_again(code: CodeRange, lines: Sequence[str], renames: Renames) -> CodeRange:
    """The present place of the excerpt's lines; else the lines of its function; else the lines with the same
    numbers."""
    moved = anchors.moved(code, lines)
    if moved is not None:
        return moved
    if anchors.moved(code, renames.before(lines)) is not None:
        renames.refuse(code.function or code.text or "")
    if code.function is not None:
        first, last = function_lines(code.function, code.file, lines)
        return CodeRange(code.file, first, last)
    if code.last > len(lines):
        raise InvalidValue(f"the excerpt ends at line {code.last}, but {code.file} has only {len(lines)} lines")
    return code


def _stop_changes(
    key: str, pointer: str, snapshot: Snapshot, files: Mapping[str, list[str]], renames: Renames
) -> Iterator[Change]:
    stop = snapshot.stop
    if stop.function is not None and renames.of_function(stop.function) is not None:
        renames.refuse(stop.function)
    if stop.file is None or stop.text is None:
        return
    lines = _lines(stop.file, files)
    if stop.line is None:
        yield Change(key, f"{pointer}/line", "stop line", None, line_of_text(stop, lines), False, is_place=True)
        return
    now = lines[stop.line - 1].strip() if stop.line <= len(lines) else ""
    is_open = stop.text == NOT_RECORDED
    if not is_open and stop.text in now:
        return
    places = [] if is_open else stop_places(stop, lines)
    if places:
        yield Change(key, f"{pointer}/line", "stop line", stop.line, places[0], True, is_place=True)
    elif now:
        yield Change(key, f"{pointer}/text", "stop text", stop.text, now, not is_open, is_place=True)
    else:
        raise InvalidValue(f"{stop.file}:{stop.line} is empty or behind the end of the file: name another line")


def _lines(file: str, files: Mapping[str, list[str]]) -> list[str]:
    if file not in files:
        raise InvalidValue(f"{file} cannot be read")
    return files[file]


# -- values ----------------------------------------------------------------------------------------------------------


def value_changes(key: str, pointer: str, snapshot: Snapshot, reading: Reading) -> tuple[list[Change], list[Fault]]:
    """The changes of the expected values of a snapshot, and those that gdb cannot read. A value of which a ``*`` of the
    card hides a part is recorded as a whole."""
    changes: list[Change] = []
    problems: list[Fault] = []
    for expected in snapshot.expect:
        if expected.undefined:
            continue
        place = f"{pointer}/expect/{pointer_token(expected.expression)}"
        value = reading["values"].get(expected.expression, {"value": None, "error": "the session did not report it"})
        is_equal = value["value"] is not None and proof.same_value(expected, value["value"])
        error = value["error"] if value["value"] is None else proof.unread(value["value"])
        if is_equal and (error is not None or not proof.hides(expected, value["value"])):
            continue
        if error is not None:
            detail = f"{expected.expression} cannot be read: {error}"
            causes = (*reading.get("causes", ()), "correct the expression, or take it out of expect")
            problems.append(
                Fault(key, place, None, "unreadable_value", detail, expression=expected.expression, causes=causes)
            )
        else:
            changes.append(_value_change(key, place, expected, value["value"]))
    return changes, problems


def _value_change(key: str, place: str, expected: Expectation, actual: str) -> Change:
    if expected.format is not None or expected.tolerance is not None:
        place += "/value"
    new = proof.recordable(actual)
    return Change(key, place, expected.expression, expected.value, new, replaces=expected.value != NOT_RECORDED)


def selected(loaded: LoadedCard, only: str | None) -> set[str]:
    """The keys of the position ``only`` and of all below it; None: of the whole card.

    :raises InvalidValue: the card has no such position.
    """
    catalog = Catalog(loaded.card)
    if not only:
        return {item.key for item in catalog.items}
    chosen = catalog.item(only)
    return {item.key for item in catalog.items if item.key == chosen.key or item.key.startswith(f"{chosen.key}/")}
