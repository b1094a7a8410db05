"""The text of a card's source file: the place of each value, and changes that keep all other text.

Places are JSON pointers (RFC 6901). The text must be valid JSON.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cardapp.card.source import pointer_token
from cardapp.schema import decode

_SPACE = re.compile(r"[ \t\r\n]*")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_SCALAR = re.compile(r"[^\s,\]}]+")


@dataclass(frozen=True)
class _Span:
    """A value from ``start`` to ``end``. ``before`` is the end of the comma or bracket before the value, or before its
    name."""

    before: int
    start: int
    end: int
    last_member: str | None
    """The pointer of the last member or item of an object or array; None if it has none."""


class SourceText:
    """The text of a JSON document."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._spans: dict[str, _Span] = {}
        self._repeated: str | None = None
        self._scan(0, _SPACE.match(text).end(), "")  # type: ignore[union-attr]  # it matches everywhere

    def line(self, pointer: str) -> int:
        """The line, from 1, on which the value at ``pointer`` begins; if it is missing, its nearest parent."""
        while pointer not in self._spans:
            pointer = pointer.rpartition("/")[0]
        return self.text.count("\n", 0, self._spans[pointer].start) + 1

    def undecodable(self) -> str | None:
        """The pointer of the first member whose name stands twice, or else of a value that JSON does not have. None:
        there is none."""
        for pointer, span in self._spans.items():
            if span.last_member is None and self._repeated is None:
                try:
                    decode(self.text[span.start : span.end].encode())
                except ValueError:
                    return pointer
        return self._repeated

    def value(self, pointer: str, default: Any) -> Any:
        """The value at ``pointer``; ``default`` if there is none."""
        span = self._spans.get(pointer)
        return json.loads(self.text[span.start : span.end]) if span is not None else default

    def with_values(self, values: Mapping[str, Any]) -> str:
        """The text with each of ``values`` at its pointer.

        If the object does not have the member, the member is added at its end. Raises ``KeyError`` if there is no such
        object.
        """
        changes = [self._change(pointer, value) for pointer, value in values.items()]
        changed, at = [], 0
        for start, end, replacement in sorted(changes, key=lambda change: change[0]):
            changed += [self.text[at:start], replacement]
            at = end
        return "".join([*changed, self.text[at:]])

    def _change(self, pointer: str, value: Any) -> tuple[int, int, str]:
        written = json.dumps(value, ensure_ascii=False)
        known = self._spans.get(pointer)
        if known is not None:
            return known.start, known.end, written
        parent, _, token = pointer.rpartition("/")
        name = json.dumps(token.replace("~1", "/").replace("~0", "~"), ensure_ascii=False)
        owner = self._spans[parent]
        if owner.last_member is None:
            return owner.start + 1, owner.end - 1, f"{name}: {written}"
        last = self._spans[owner.last_member]
        space = _SPACE.match(self.text, last.before).group()  # type: ignore[union-attr]
        return last.end, last.end, f",{space or ' '}{name}: {written}"

    def _scan(self, before: int, start: int, pointer: str) -> int:
        """Note the spans of the value at ``start`` and of all values in it. Returns its end."""
        last = None
        if self.text[start] in "{[":
            last, end = self._scan_members(start, pointer)
        else:
            scalar = _STRING if self.text[start] == '"' else _SCALAR
            end = scalar.match(self.text, start).end()  # type: ignore[union-attr]
        self._spans[pointer] = _Span(before, start, end, last)
        return end

    def _scan_members(self, opening: int, pointer: str) -> tuple[str | None, int]:
        """Scan the object or array at ``opening``. Returns the pointer of the last member or item, and the end."""
        last, number, before = None, 0, opening + 1
        while self.text[(start := self._skip(before))] not in "}]":
            token = str(number)
            if self.text[opening] == "{":
                name = _STRING.match(self.text, start)
                assert name is not None
                token = pointer_token(json.loads(name.group()))
                start = self._skip(self._skip(name.end()) + 1)  # after the colon
            last = f"{pointer}/{token}"
            if last in self._spans and self._repeated is None:
                self._repeated = last
            end = self._skip(self._scan(before, start, last))
            if self.text[end] != ",":
                return last, end + 1
            before, number = end + 1, number + 1
        return last, start + 1

    def _skip(self, at: int) -> int:
        return _SPACE.match(self.text, at).end()  # type: ignore[union-attr]


def read_source(path: Path) -> str:
    """The text of a card's source file, with its line ends unchanged. Raises ``OSError`` or ``UnicodeDecodeError``."""
    return path.read_bytes().decode("utf-8")


def write_source(path: Path, text: str) -> None:
    """Replace the source file atomically. A link stays a link, and the file keeps its mode. Raises ``OSError``."""
    path = path.resolve()
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(text.encode("utf-8"))
            os.fchmod(file.fileno(), path.stat().st_mode & 0o777)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise
