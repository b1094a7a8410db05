"""The chunked transfer coding (RFC 9112, section 7.1), read strictly.

A lenient reader and a strict one can disagree about where a request ends, and what lies behind the end for one of them
is a request of its own for the other. So everything that the grammar does not allow is refused: a bare line feed, an
empty line before a chunk, a size that is not of hexadecimal digits. Trailer fields are checked and dropped.
"""

from __future__ import annotations

import re
from collections.abc import Callable

LINE_BYTES = 1024
"""Longest line of a chunk's size with its extensions, and of a trailer field."""
TRAILER_BYTES = 8 * LINE_BYTES

_TOKEN = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_QUOTED = rb'"(?:[\t \x21\x23-\x5b\x5d-\x7e\x80-\xff]|\\[\t \x21-\x7e\x80-\xff])*"'
_SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})(?:;" + _TOKEN + rb"(?:=(?:" + _TOKEN + rb"|" + _QUOTED + rb"))?)*")
_FIELD = re.compile(_TOKEN + rb":[\t \x21-\x7e\x80-\xff]*")


class ChunkedDecoder:
    """Takes a body piece by piece, in pieces of any size, and hands its data to ``keep``."""

    def __init__(self, keep: Callable[[bytes], object]) -> None:
        self._keep = keep
        self._read: Callable[[bytes, int], int] = self._size
        self._line = b""
        self._remaining = 0
        self._trailer_bytes = 0
        self.is_complete = False

    def feed(self, data: bytes) -> int:
        """Take ``data`` up to the end of the body; returns how many bytes that were. ValueError: a broken rule."""
        at = 0
        while at < len(data) and not self.is_complete:
            at = self._read(data, at)
        return at

    # Each state reads from a place in the data and returns the place where it stopped.

    def _size(self, data: bytes, at: int) -> int:
        line, at = self._next_line(data, at, "chunk's size")
        if line is not None:
            found = _SIZE.fullmatch(line)
            if found is None:
                raise ValueError("a chunk's size line is not hexadecimal digits and extensions")
            self._remaining = int(found[1], 16)
            self._read = self._data if self._remaining else self._trailer
        return at

    def _data(self, data: bytes, at: int) -> int:
        piece = data[at : at + self._remaining]
        self._keep(piece)
        self._remaining -= len(piece)
        if not self._remaining:
            self._read = self._end_of_data
        return at + len(piece)

    def _end_of_data(self, data: bytes, at: int) -> int:
        ending = self._line + data[at : at + 2 - len(self._line)]
        if not b"\r\n".startswith(ending):
            raise ValueError("a chunk's data is not followed by CRLF")
        at += len(ending) - len(self._line)
        self._line = ending
        if len(ending) == 2:
            self._line = b""
            self._read = self._size
        return at

    def _trailer(self, data: bytes, at: int) -> int:
        line, end = self._next_line(data, at, "trailer field")
        self._trailer_bytes += end - at
        if self._trailer_bytes > TRAILER_BYTES:
            raise ValueError(f"the trailer has more than {TRAILER_BYTES} bytes")
        if line == b"":
            self.is_complete = True
        elif line is not None and _FIELD.fullmatch(line) is None:
            raise ValueError("a trailer field is not a name, a colon and a value")
        return end

    def _next_line(self, data: bytes, at: int, what: str) -> tuple[bytes | None, int]:
        """A line without its CRLF, or None until it is whole; and the place behind what was read of it."""
        found = data.find(b"\n", at, at + LINE_BYTES)
        end = found + 1 if found >= 0 else len(data)
        self._line += data[at:end]
        if len(self._line) > LINE_BYTES:
            raise ValueError(f"the line of a {what} has more than {LINE_BYTES} bytes")
        if found < 0:
            return None, end
        line, self._line = self._line, b""
        if not line.endswith(b"\r\n") or b"\r" in line[:-2]:
            raise ValueError(f"the line of a {what} does not end with CRLF")
        return line[:-2], end
