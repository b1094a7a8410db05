"""A strict, incremental decoder of the chunked transfer coding (RFC 9112, section 7.1); pure.

It refuses everything that another parser might delimit differently: a bare LF, an empty line in place of a chunk size,
white space around a size or an extension. Extensions and trailer fields are checked and dropped.
"""

from __future__ import annotations

import re
from collections.abc import Callable

MAX_LINE_BYTES = 1024
"""Maximum length of the line with a chunk's size and extensions."""

MAX_TRAILER_BYTES = 16 * 1024
"""Maximum length of all trailer fields together."""

_TOKEN = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_QUOTED = rb'"(?:[\t \x21\x23-\x5b\x5d-\x7e\x80-\xff]|\\[\t \x21-\x7e\x80-\xff])*"'
_SIZE_LINE = re.compile(rb"([0-9A-Fa-f]{1,16})(?:;" + _TOKEN + rb"(?:=(?:" + _TOKEN + rb"|" + _QUOTED + rb"))?)*")
_TRAILER_FIELD = re.compile(_TOKEN + rb":[\t \x21-\x7e\x80-\xff]*")


class MalformedChunk(Exception):
    """The bytes violate the grammar; the text says how."""


class ChunkedDecoder:
    """Decodes one body. Call ``feed`` with the arriving bytes until ``is_complete``. ``keep`` is called with each part
    of the decoded body."""

    def __init__(self, keep: Callable[[bytes], None]) -> None:
        self._keep = keep
        self._chunk_left = 0
        self._trailer_left = MAX_TRAILER_BYTES
        self._line = b""
        self._expect(self._size, MAX_LINE_BYTES)
        self.is_complete = False

    def feed(self, data: bytes) -> int:
        """Returns the number of bytes of ``data`` that belong to the body. If this is less than the length of ``data``,
        the body is complete."""
        place = 0
        while place < len(data) and not self.is_complete:
            place = self._chunk(data, place) if self._chunk_left else self._until_line_feed(data, place)
        return place

    def _expect(self, handler: Callable[[bytes], None], max_bytes: int) -> None:
        """Pass the next line to ``handler``, without its CRLF. ``max_bytes`` includes the CRLF."""
        self._on_line, self._max_line = handler, max_bytes

    def _chunk(self, data: bytes, place: int) -> int:
        part = data[place : place + self._chunk_left]
        self._keep(part)
        self._chunk_left -= len(part)
        return place + len(part)

    def _until_line_feed(self, data: bytes, place: int) -> int:
        end = data.find(b"\n", place)
        stop = len(data) if end < 0 else end + 1
        self._line += data[place:stop]
        if len(self._line) > self._max_line:
            raise MalformedChunk("a chunk does not end after its size, or a line is too long")
        if end >= 0:
            line, self._line = self._line, b""
            if not line.endswith(b"\r\n"):
                raise MalformedChunk("a line of the chunked body ends in a bare LF")
            self._on_line(line[:-2])
        return stop

    def _size(self, line: bytes) -> None:
        found = _SIZE_LINE.fullmatch(line)
        if found is None:
            raise MalformedChunk("the size or an extension of a chunk is invalid")
        self._chunk_left = int(found[1], 16)
        if self._chunk_left:
            self._expect(self._end_of_chunk, len(b"\r\n"))
        else:
            self._expect(self._trailer, MAX_TRAILER_BYTES)

    def _end_of_chunk(self, _line: bytes) -> None:
        self._expect(self._size, MAX_LINE_BYTES)

    def _trailer(self, line: bytes) -> None:
        if line and not _TRAILER_FIELD.fullmatch(line):
            raise MalformedChunk("a trailer field is invalid")
        self._trailer_left -= len(line) + len(b"\r\n")
        self._expect(self._trailer, self._trailer_left)
        self.is_complete = not line
