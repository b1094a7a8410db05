"""Source drift: code ranges and stops of a card that no longer match the C files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from cardapp.card.catalog import Catalog
from cardapp.card.model import CodeRange, Stop


@dataclass(frozen=True)
class Drift:
    """One mismatch: the key of the step or snapshot, and a message."""

    key: str
    message: str


def find(catalog: Catalog, files: Mapping[str, list[str]]) -> Iterator[Drift]:
    """All mismatches of a card; ``files`` maps the name of each readable source file to its lines."""
    for key, step in catalog.steps.items():
        if step.code is not None:
            yield from _range(key, step.code, files)
    for key, snapshot in catalog.snapshots.items():
        yield from _stop(key, snapshot.stop, files)


def _range(key: str, code: CodeRange, files: Mapping[str, list[str]]) -> Iterator[Drift]:
    lines = files.get(code.file)
    if lines is None:
        yield Drift(key, f"{code.file} cannot be read")
    elif code.last > len(lines):
        yield Drift(key, f"the code range ends at line {code.last}, but {code.file} has only {len(lines)} lines")


def _stop(key: str, stop: Stop, files: Mapping[str, list[str]]) -> Iterator[Drift]:
    if stop.file is None or stop.line is None or stop.text is None:
        return
    lines = files.get(stop.file)
    if lines is None:
        yield Drift(key, f"{stop.file} cannot be read")
    elif stop.line > len(lines) or stop.text not in lines[stop.line - 1]:
        yield Drift(key, f"{stop.file}:{stop.line} does not contain {stop.text!r}{_where(stop.text, lines)}")


def _where(text: str, lines: list[str]) -> str:
    """The lines that contain the text now, so that the author can correct the stop."""
    found = [str(number) for number, line in enumerate(lines, 1) if text in line]
    if not found:
        return "; no line of the file contains it"
    return f"; it is now in line{'s' if len(found) > 1 else ''} {', '.join(found[:5])}"
