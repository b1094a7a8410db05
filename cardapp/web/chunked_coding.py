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
        self._take: Callable[[bytes], None] = self._size
        self._line = b""
        self._remaining = 0
        self._trailer_bytes = 0
        self.is_complete = False

    def feed(self, data: bytes) -> int:
        """Take ``data`` up to the end of the body; returns how many bytes that were. ValueError: a broken rule."""
        at = 0
        while at < len(data) and not self.is_complete:
            if self._remaining:
                piece = data[at : at + self._remaining]
                self._keep(piece)
                self._remaining -= len(piece)
                at += len(piece)
                continue
            end = data.find(b"\n", at, at + LINE_BYTES) + 1 or len(data)
            self._line += data[at:end]
            at = end
            if self._take == self._end_of_data and not b"\r\n".startswith(self._line):
                raise ValueError("a chunk's data is not followed by CRLF")
            if len(self._line) > LINE_BYTES:
                raise ValueError(f"a line between chunks, or of the trailer, has more than {LINE_BYTES} bytes")
            if self._line.endswith(b"\n"):
                line, self._line = self._line, b""
                if not line.endswith(b"\r\n") or b"\r" in line[:-2]:
                    raise ValueError("a line between chunks, or of the trailer, does not end with CRLF")
                self._take(line[:-2])
        return at

    # Each state takes a line without its CRLF.

    def _size(self, line: bytes) -> None:
        found = _SIZE.fullmatch(line)
        if found is None:
            raise ValueError("a chunk's size line is not hexadecimal digits and extensions")
        self._remaining = int(found[1], 16)
        self._take = self._end_of_data if self._remaining else self._trailer

    def _end_of_data(self, _line: bytes) -> None:
        self._take = self._size

    def _trailer(self, line: bytes) -> None:
        self._trailer_bytes += len(line) + 2
        if self._trailer_bytes > TRAILER_BYTES:
            raise ValueError(f"the trailer has more than {TRAILER_BYTES} bytes")
        self.is_complete = not line
        if line and _FIELD.fullmatch(line) is None:
            raise ValueError("a trailer field is not a name, a colon and a value")
