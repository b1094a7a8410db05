"""A strict decoder of the chunked transfer coding (RFC 9112, section 7.1).

If a proxy and this service disagreed about where a body ends, a client could hide a second request in the body (request
smuggling). So everything that the grammar does not allow is refused, such as a bare line feed, an empty line before a
chunk, or a size with other characters than hexadecimal digits. Trailer fields are checked and dropped.
"""

from __future__ import annotations

import re
from collections.abc import Callable

LINE_BYTES = 1024
"""Maximum length of a trailer field, and of the line with a chunk's size and extensions."""
TRAILER_BYTES = 8 * LINE_BYTES

_TOKEN = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_QUOTED = rb'"(?:[\t \x21\x23-\x5b\x5d-\x7e\x80-\xff]|\\[\t \x21-\x7e\x80-\xff])*"'
_SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})(?:;" + _TOKEN + rb"(?:=(?:" + _TOKEN + rb"|" + _QUOTED + rb"))?)*")
_FIELD = re.compile(_TOKEN + rb":[\t \x21-\x7e\x80-\xff]*")


class ChunkedDecoder:
    """Decodes a body that arrives in pieces of any size. Passes the decoded data to ``keep``."""

    def __init__(self, keep: Callable[[bytes], object]) -> None:
        self._keep = keep
        self._take: Callable[[bytes], None] = self._size
        self._line = b""
        self._remaining = 0
        self._trailer_bytes = 0
        self.is_complete = False

    def feed(self, data: bytes) -> int:
        """Decode ``data`` up to the end of the body. Returns the number of bytes used. Raises ValueError if the coding
        is not valid."""
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

    # The states of the decoder; ``_take`` is the current one. It is called with the next line, without the CRLF.

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
