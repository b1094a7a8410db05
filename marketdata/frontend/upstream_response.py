"""Parses the HTTP/1.1 responses of the data API (RFC 9112); pure. Ambiguous framing is refused."""

from __future__ import annotations

import re
from typing import NamedTuple

from marketdata.http.chunked_coding import ChunkedDecoder, MalformedChunk

MAX_HEAD_BYTES = 64 * 1024

Fields = list[tuple[str, str]]
"""Header fields as (name, value), in their order."""

_STATUS = re.compile(rb"HTTP/1\.([01]) ([1-5][0-9]{2})(?: ([\t \x21-\x7e\x80-\xff]*))?")
_FIELD = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+):[ \t]*((?:[\x21-\x7e\x80-\xff](?:[\t \x21-\x7e\x80-\xff]*"
                    rb"[\x21-\x7e\x80-\xff])?)?)[ \t]*")  # fmt: skip
_LENGTH = re.compile(r"[0-9]{1,18}")


class MalformedResponse(Exception):
    """The response violates the grammar; the message says how."""


class Head(NamedTuple):
    """The head of a response. ``stays`` is True if the connection can be used again after the response."""

    status: int
    reason: str
    fields: Fields
    stays: bool

    def all(self, name: str) -> list[str]:
        """The values of a field, by its lower-case name."""
        return [value for key, value in self.fields if key.lower() == name]


class Body:
    """Decodes a body. ``length`` is its number of bytes, or None if the body is chunked or ends with the connection."""

    def __init__(self, length: int | None, *, chunked: bool = False) -> None:
        self.length = None if chunked else length
        self._left = length
        self._parts: list[bytes] = []
        self._decoder = ChunkedDecoder(self._parts.append) if chunked else None
        self.is_complete = length == 0 and not chunked

    def feed(self, data: bytes) -> tuple[bytes, bytes]:
        """Decode ``data``. Returns the decoded part of the body, and the bytes after the body."""
        if self._decoder is not None:
            return self._decoded(self._decoder, data)
        if self._left is None:
            return data, b""
        part, rest = data[: self._left], data[self._left :]
        self._left -= len(part)
        self.is_complete = self._left == 0
        return part, rest

    def end(self) -> None:
        """Note that the connection has ended. Raises :class:`MalformedResponse` if the body is incomplete."""
        if not self.is_complete and (self._left is not None or self._decoder is not None):
            raise MalformedResponse("the connection was closed before the end of the body")
        self.is_complete = True

    def _decoded(self, decoder: ChunkedDecoder, data: bytes) -> tuple[bytes, bytes]:
        try:
            taken = decoder.feed(data)
        except MalformedChunk as error:
            raise MalformedResponse(str(error)) from error
        part = b"".join(self._parts)
        self._parts.clear()
        self.is_complete = decoder.is_complete
        return part, data[taken:]


def parse_head(block: bytes) -> Head:
    """Parse a head. ``block`` lacks the empty line at the end. Raises :class:`MalformedResponse` if the head is
    malformed."""
    first, *lines = block.split(b"\r\n")
    status = _STATUS.fullmatch(first)
    if status is None:
        raise MalformedResponse("its status line is malformed")
    fields = []
    for line in lines:
        found = _FIELD.fullmatch(line)
        if found is None:
            raise MalformedResponse("a header line is malformed")
        fields.append((found[1].decode("ascii"), found[2].decode("latin-1")))
    connection = ",".join(value for name, value in fields if name.lower() == "connection").lower()
    stays = status[1] == b"1" and "close" not in {part.strip() for part in connection.split(",")}
    return Head(int(status[2]), (status[3] or b"").decode("latin-1"), fields, stays)


def body_of(head: Head, method: str) -> Body:
    """The decoder of the response's body. Raises :class:`MalformedResponse` if programs could differ about the body's
    end."""
    lengths, codings = head.all("content-length"), head.all("transfer-encoding")
    if len(lengths) + len(codings) > 1 or (lengths and not _LENGTH.fullmatch(lengths[0])):
        raise MalformedResponse("its length is ambiguous")
    if codings and codings[0].lower() != "chunked":
        raise MalformedResponse("its transfer coding is unknown")
    if method == "HEAD" or head.status in (101, 204, 304):
        return Body(0)
    return Body(int(lengths[0]) if lengths else None, chunked=bool(codings))
