"""Finds the excerpts and stops of a card that the present lines of its source files contradict, and the parts that are
not recorded yet."""

from __future__ import annotations

import difflib
import re
import signal
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from cardapp.authoring.fault import IF_NOT_RECORDED, RECORD_HINT, Fault, pointers
from cardapp.authoring.renames import RENAMED, Renames, find_renames
from cardapp.card import anchors
from cardapp.card.catalog import Catalog
from cardapp.card.draft import Part
from cardapp.card.model import NOT_RECORDED, CodeRange, Snapshot, Step, Stop
from cardapp.card.source import LoadedCard, pointer_token
from cardapp.errors import InvalidValue

AMBIGUOUS_TEXT = "ambiguous_text"
"""The code of the fault of a stop without a line, whose text several lines have."""


def parts_of(loaded: LoadedCard) -> list[Part]:
    """The steps and snapshots of the card, in document order."""
    catalog = Catalog(loaded.card)
    at = pointers(catalog)
    known: dict[str, Step | Snapshot] = {**catalog.steps, **catalog.snapshots}
    return [Part(item.key, at[item.key], known[item.key]) for item in catalog.items if item.key in known]


def part_faults(parts: Iterable[Part], files: Mapping[str, list[str]]) -> Iterator[Fault]:
    """The faults of steps and snapshots. ``files`` has the present lines of the source files."""
    parts = list(parts)
    shifts, renames = _shifts(parts, files), find_renames(parts, files)
    for part in parts:
        if isinstance(part.item, Step):
            yield from _excerpt_faults(part.key, f"{part.pointer}/code", part.item, files, renames)
        else:
            yield from _stop_faults(part.key, f"{part.pointer}/stop", part.item.stop, files, shifts, renames)
            yield from _value_faults(part.key, f"{part.pointer}/expect", part.item)


@dataclass(frozen=True)
class _Shift:
    """A line of a file that has certainly moved down by ``by`` lines."""

    file: str
    line: int
    by: int


def _shifts(parts: Iterable[Part], files: Mapping[str, list[str]]) -> list[_Shift]:
    """The lines that are known to have moved: those of moved excerpts, and those of stops whose text is now on exactly
    one other line."""
    found = []
    for part in parts:
        if isinstance(part.item, Step):
            code = part.item.code
            moved = anchors.moved(code, files.get(code.file, [])) if code is not None else None
            if code is not None and moved is not None:
                found.append(_Shift(code.file, code.first, moved.first - code.first))
        else:
            stop = part.item.stop
            places = stop_places(stop, files.get(stop.file or "", []))
            if len(places) == 1 and stop.file is not None and stop.line is not None:
                found.append(_Shift(stop.file, stop.line, places[0] - stop.line))
    return found


def _excerpt_faults(
    key: str, pointer: str, step: Step, files: Mapping[str, list[str]], renames: Renames
) -> Iterator[Fault]:
    if step.unresolved is not None:
        detail = f"the lines of {step.unresolved.function} in {step.unresolved.file} were not looked up: {RECORD_HINT}"
        yield Fault(key, pointer, None, "not_recorded", detail)
    code = step.code
    if code is None or code.file not in files or anchors.holds(code, files[code.file]):
        return
    lines = files[code.file]
    moved, renamed = anchors.moved(code, lines), anchors.moved(code, renames.before(lines))
    if moved is None and renamed is not None:
        yield _renamed_excerpt(key, pointer, code, anchors.anchored(renamed, lines), renames)
    elif moved is not None:
        detail = (
            f"the excerpt moved from {code.file}:{code.first}-{code.last} to lines {moved.first} to {moved.last}"
        )  # fmt: skip
        fix = {"from": moved.first, "to": moved.last}
        yield Fault(key, pointer, None, "code_changed", detail, expected=code.text, seen=_now(code, lines), fix=fix)
    elif code.last > len(lines) and code.text is None:
        yield Fault(key, pointer, None, "source_drift", _too_short(code, lines))
    else:
        detail = (
            f"the lines {code.first} to {code.last} of {code.file} changed: look at them and at the step's text, "
            "then accept them with bin/cardapp record, or choose other lines (from, to)"
        )
        starts = sorted((n for n, line in enumerate(lines, 1) if line == code.text), key=lambda n: abs(n - code.first))
        if starts and starts[0] != code.first:
            detail += f"; their first line is now line {starts[0]}"
        if code.last > len(lines):
            detail = _too_short(code, lines)
        yield Fault(key, pointer, None, "code_changed", detail, expected=code.text, seen=_now(code, lines))


def _renamed_excerpt(key: str, pointer: str, code: CodeRange, now: CodeRange, renames: Renames) -> Fault:
    where = f"the lines {now.first} to {now.last} of {code.file} are otherwise the same"
    detail = f"{renames.in_words(code.function or code.text or '')}; {where}"
    fix: dict[str, Any] = {"from": now.first, "to": now.last, "text": now.text, "digest": now.digest}
    function = renames.of_function(code.function) if code.function is not None else None
    if function is None:
        return Fault(key, pointer, None, RENAMED, detail, expected=code.text, seen=now.text, fix=fix)
    fix["function"] = function
    return Fault(key, pointer, None, RENAMED, detail, expected=code.function, seen=function, fix=fix)


def _too_short(code: CodeRange, lines: list[str]) -> str:
    return (
        f"the excerpt ends at line {code.last}, but {code.file} has only {len(lines)} lines: "
        f"choose other lines (from, to), then {RECORD_HINT}"
    )


def _now(code: CodeRange, lines: list[str]) -> str:
    """The first lines of the excerpt."""
    first = lines[code.first - 1] if code.first <= len(lines) else "the file is shorter"
    return (first or "an empty line") if first != code.text else "the lines differ"


def _stop_faults(
    key: str, pointer: str, stop: Stop, files: Mapping[str, list[str]], shifts: list[_Shift], renames: Renames
) -> Iterator[Fault]:
    if stop.signal is not None and not _is_signal(stop.signal):
        near = difflib.get_close_matches(stop.signal, signal.Signals.__members__, n=1)
        detail = f"there is no signal {stop.signal}" + (f"; did you mean {near[0]}?" if near else "")
        yield Fault(key, f"{pointer}/signal", None, "unknown_signal", detail)
    if stop.function is not None and (function := renames.of_function(stop.function)) is not None:
        fix: dict[str, Any] = {"function": function}
        detail = renames.in_words(stop.function)
        yield Fault(key, pointer, None, RENAMED, detail, expected=stop.function, seen=function, fix=fix)
    if stop.file is None or stop.text is None or stop.file not in files:
        return
    lines = files[stop.file]
    if stop.line is None:
        yield _unplaced(key, pointer, stop, lines)
        return
    if stop.text == NOT_RECORDED:
        detail = f"the text of {stop.file}:{stop.line} was not recorded: {RECORD_HINT}"
        yield Fault(key, f"{pointer}/text", None, "not_recorded", detail)
        return
    if stop.line <= len(lines) and stop.text in lines[stop.line - 1]:
        return
    renamed = replace(stop, text=renames.now(stop.text))
    if renamed != stop and (places := _likely_places(renamed, lines, shifts)):
        fix = {"line": places[0], "text": renamed.text}
        detail = renames.in_words(stop.text)
        yield Fault(key, pointer, None, RENAMED, detail, expected=stop.text, seen=renamed.text, fix=fix)
        return
    places = _likely_places(stop, lines, shifts)
    where = f"it is now in {_listed(places)}" if places else _gone(stop.text, stop.line, lines)
    detail = f"{stop.file}:{stop.line} does not contain {stop.text!r}; {where}"
    seen = lines[stop.line - 1].strip() if stop.line <= len(lines) else f"the file has only {len(lines)} lines"
    line = {"line": places[0]} if places else None
    yield Fault(key, pointer, None, "source_drift", detail, expected=stop.text, seen=seen or "an empty line", fix=line)


def _unplaced(key: str, pointer: str, stop: Stop, lines: list[str]) -> Fault:
    """The fault of a stop whose line was not looked up yet."""
    try:
        line = line_of_text(stop, lines)
    except InvalidValue as error:
        return Fault(key, pointer, None, error.code, error.detail, expected=stop.text)
    detail = f"the line of {stop.text!r} in {stop.file} was not looked up: it is line {line}; {RECORD_HINT}"
    return Fault(key, pointer, None, "not_recorded", detail, fix={"line": line})


def line_of_text(stop: Stop, lines: list[str]) -> int:
    """The only line that contains the text of a stop.

    :raises InvalidValue: no line contains it (``source_drift``), or several do (:data:`AMBIGUOUS_TEXT`).
    """
    places = stop_places(stop, lines)
    if len(places) == 1:
        return places[0]
    if places:
        detail = (
            f"{stop.text!r} is in {_listed(places)} of {stop.file}: name the line, or a text that only one line has"
        )
        raise InvalidValue(detail, code=AMBIGUOUS_TEXT)
    where = _gone(stop.text or "", len(lines) + 1, lines)
    raise InvalidValue(f"{stop.file} does not contain {stop.text!r}; {where}", code="source_drift")


def _is_signal(name: str) -> bool:
    """Whether gdb knows the signal; it also numbers the real-time signals, as in SIG34."""
    return name in signal.Signals.__members__ or re.fullmatch(r"SIG\d+", name) is not None


def _gone(text: str, line: int, lines: list[str]) -> str:
    """What to do about a stop at ``line`` whose text no line contains."""
    similar = difflib.get_close_matches(text, lines, cutoff=0.5)
    if line <= len(lines) and lines[line - 1] in similar:  # the line itself was edited
        return "no line of the file contains it: accept the present text with bin/cardapp record, or choose another"
    where = f" (line {lines.index(similar[0]) + 1} is similar: {similar[0].strip()})" if similar else ""
    return f"no line of the file contains it{where}: correct line and text of the stop"


def _listed(places: list[int]) -> str:
    more = ", …" if len(places) > 5 else ""
    return f"line{'s' if len(places) > 1 else ''} {', '.join(map(str, places[:5]))}{more}"


def stop_places(stop: Stop, lines: list[str]) -> list[int]:
    """The lines that contain the text of a stop, the nearest first; none for a stop at a function or a signal."""
    text, line = stop.text, stop.line or 0
    if text is None:
        return []
    found = [number for number, each in enumerate(lines, 1) if text in each]
    return sorted(found, key=lambda number: abs(number - line))


def _likely_places(stop: Stop, lines: list[str], shifts: list[_Shift]) -> list[int]:
    """The lines that contain the text of a stop. If the code around the stop has moved as a whole, its new line comes
    first; then the nearest lines follow."""
    places, line = stop_places(stop, lines), stop.line or 0
    near = sorted((each for each in shifts if each.file == stop.file), key=lambda each: abs(each.line - line))
    moved = line + near[0].by if near else None
    return sorted(places, key=lambda number: number != moved)


def _value_faults(key: str, pointer: str, snapshot: Snapshot) -> Iterator[Fault]:
    for expected in snapshot.expect:
        if expected.value == NOT_RECORDED:
            place = f"{pointer}/{pointer_token(expected.expression)}"
            detail = f"the value of {expected.expression} was not recorded: {RECORD_HINT}; {IF_NOT_RECORDED}"
            yield Fault(key, place, None, "not_recorded", detail, expression=expected.expression)
