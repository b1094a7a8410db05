"""Drift: places of a card that no longer fit the C files they point at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from cardapp.card.catalog import Catalog
from cardapp.card.model import CodeRange, Stop


@dataclass(frozen=True)
class Drift:
    """One place: the key of the step or snapshot, and what is wrong."""

    key: str
    message: str


def find(catalog: Catalog, files: Mapping[str, list[str]]) -> Iterator[Drift]:
    """Every drifted place; ``files`` maps each readable source name to its lines."""
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
        yield Drift(key, f"code ends at line {code.last}, but {code.file} has {len(lines)} lines")


def _stop(key: str, stop: Stop, files: Mapping[str, list[str]]) -> Iterator[Drift]:
    if stop.file is None or stop.line is None or stop.text is None:
        return
    lines = files.get(stop.file)
    if lines is None:
        yield Drift(key, f"{stop.file} cannot be read")
    elif stop.line > len(lines) or stop.text not in lines[stop.line - 1]:
        yield Drift(key, f"{stop.file}:{stop.line} does not hold {stop.text!r}{_where(stop.text, lines)}")


def _where(text: str, lines: list[str]) -> str:
    """Where the text stands now, so that the author need not search."""
    found = [str(number) for number, line in enumerate(lines, 1) if text in line]
    return f"; it stands at line {', '.join(found[:5])}" if found else "; it stands nowhere in the file"
