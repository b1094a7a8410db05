"""Reads the messages of compilers, linkers and make in the output of a build: their places, kinds and texts."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

MAX_LINES, MAX_LINE = 200, 500
MAX_MESSAGES = 50

_PLACE = r"(?P<file>[^\s:][^:]*):(?P<line>\d{1,9})(?::(?P<column>\d{1,9}))?"
_KINDS = {"fatal error": "error", "error": "error", "warning": "warning", "note": "note"}
_KIND = rf"(?P<kind>{'|'.join(_KINDS)})"
_COMPILER = re.compile(rf"^{_PLACE}: {_KIND}: (?P<text>.+)$")
# A compiler's translated message has another word for its kind, but it always has a column.
_TRANSLATED = re.compile(r"^(?P<file>[^\s:][^:]*\.\w+):(?P<line>\d{1,9}):(?P<column>\d{1,9}): (?P<text>.+)$")
_LINKER_OR_MAKE = re.compile(
    rf"^(?:\S*ld: )?{_PLACE}:\s*(?:\([^)]*\): )?(?P<text>(?:undefined reference|multiple definition|\*\*\*).+)$"
)
_RUST_TITLE = re.compile(rf"^{_KIND}(?:\[\w+\])?: (?P<text>.+)$")
_RUST_PLACE = re.compile(rf"^\s*--> {_PLACE}$")


def lines(output: str) -> list[str]:
    """The first lines of the output, each cut to ``MAX_LINE`` characters."""
    return [line[:MAX_LINE] for line in output.splitlines()[:MAX_LINES]]


def messages(output: str, directory: Path) -> list[dict[str, Any]]:
    """The first messages, each ``{file, line, column, kind, text}``; ``kind`` is error, warning or note.

    ``file`` is relative to ``directory`` if it lies inside. ``column`` is None if the message has none.
    """
    found = [_message(match, directory, kind, text) for match, kind, text in _matches(output)]
    return found[:MAX_MESSAGES]


def headline(output: str, found: list[dict[str, Any]]) -> str | None:
    """The output in one line: its first error, else its last line. None if there is no output."""
    first = next((each for each in found if each["kind"] == "error"), None)
    if first is not None:
        return f"{first['file']}:{first['line']}: {first['text']}"
    written = [line.strip() for line in output.splitlines() if line.strip()]
    return written[-1][:MAX_LINE] if written else None


def _matches(output: str) -> Iterator[tuple[re.Match[str], str, str]]:
    title: re.Match[str] | None = None
    for line in output.splitlines():
        if title is not None and (place := _RUST_PLACE.match(line)):
            yield place, _KINDS[title["kind"]], title["text"]
        title = _RUST_TITLE.match(line)
        if match := _COMPILER.match(line):
            yield match, _KINDS[match["kind"]], match["text"]
        elif match := _TRANSLATED.match(line) or _LINKER_OR_MAKE.match(line):
            yield match, "error", match["text"]


def _message(match: re.Match[str], directory: Path, kind: str, text: str) -> dict[str, Any]:
    file, column = match["file"], match["column"]
    if Path(file).is_relative_to(directory):
        file = os.path.relpath(file, directory)
    return {
        "file": file[:MAX_LINE],
        "line": int(match["line"]),
        "column": int(column) if column is not None else None,
        "kind": kind,
        "text": text[:MAX_LINE],
    }
