"""Unpacks bodies with ``Content-Encoding: gzip``. The limits count the bytes after unpacking; unpacking stops at the
limit."""

from __future__ import annotations

import io
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, BinaryIO

from marketdata.errors import MalformedGzip, Saturated, TooLarge, UnsupportedMediaType
from marketdata.http.waitress_adapter import UNCOUNTED_BYTES
from marketdata.http.wsgi import RESERVE

GZIP, IDENTITY = "gzip", "identity"
_CODINGS = {"": IDENTITY, "identity": IDENTITY, "gzip": GZIP, "x-gzip": GZIP}
_PART_BYTES = 256 * 1024
_PACKED_BYTES = 64 * 1024

MAX_MEMBERS = 10_000
"""Maximum number of gzip members of a body. A file of 256 MiB from bgzip has 4 096. Empty members take time to unpack,
although they add no byte to the size that is limited."""


def coding_of(environ: Mapping[str, Any], accepts_gzip: bool) -> str:
    """Returns the coding of the body. Raises :class:`UnsupportedMediaType` if it is not accepted."""
    coding = _CODINGS.get(environ.get("HTTP_CONTENT_ENCODING", "").strip().lower())
    if coding == IDENTITY or (coding == GZIP and accepts_gzip):
        return coding
    error = UnsupportedMediaType(f"send the body without a Content-Encoding{', or with gzip' if accepts_gzip else ''}")
    error.accepted_coding = GZIP if accepts_gzip else IDENTITY
    raise error


@contextmanager
def unpacked(environ: Mapping[str, Any]) -> Iterator[BinaryIO]:
    """Gives the body as a stream of bytes without its coding. Raises :class:`MalformedGzip` when it cannot be
    unpacked."""
    body = environ["wsgi.input"]
    if coding_of(environ, accepts_gzip=True) == IDENTITY:
        yield body
        return
    try:
        with io.BufferedReader(_Unpacked(body)) as stream:
            yield stream
    except (EOFError, zlib.error) as error:
        raise MalformedGzip(f"the body is not valid gzip: {error}") from error


class _Unpacked(io.RawIOBase):
    """The bytes of a gzip file without their coding. zlib parses the headers of its members, too: ``gzip.GzipFile``
    reads a long file name in a header byte by byte. Raises EOFError when the file is cut off, and zlib.error."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._begin()

    def _begin(self) -> None:
        self._packed = b""
        self._members = 1
        self._member = zlib.decompressobj(wbits=31)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Go back to the start. No other position is supported."""
        if (offset, whence) != (0, io.SEEK_SET):
            raise io.UnsupportedOperation("only the start can be sought")
        self._file.seek(0)
        self._begin()
        return 0

    def readinto(self, buffer: Any, /) -> int:
        view = memoryview(buffer)
        while not self._member.eof or self._has_next():
            packed = self._packed or self._file.read(_PACKED_BYTES)
            part = self._member.decompress(packed, len(view))
            # Zeros between members and at the end are padding.
            self._packed = self._member.unused_data.lstrip(b"\0") if self._member.eof else self._member.unconsumed_tail
            if part:
                view[: len(part)] = part
                return len(part)
            if not packed and not self._member.eof:
                raise EOFError("it is empty" if self._file.tell() == 0 else "it is cut off")
        return 0

    def _has_next(self) -> bool:
        """Begin the next member, if there is one."""
        while not self._packed:
            more = self._file.read(_PACKED_BYTES)
            if not more:
                return False
            self._packed = more.lstrip(b"\0")
        self._members += 1
        if self._members > MAX_MEMBERS:
            raise zlib.error(f"it has more than {MAX_MEMBERS} members")
        self._member = zlib.decompressobj(wbits=31)
        return True


def whole(environ: Mapping[str, Any], limit: int) -> bytes:
    """Returns the whole body. Raises :class:`TooLarge` for more than ``limit`` bytes, and :class:`Saturated` when too
    many bodies are in memory."""
    reserve = environ.get(RESERVE, bool)
    parts: list[bytes] = []
    size = 0
    with unpacked(environ) as stream:
        while part := stream.read(_PART_BYTES):
            size += len(part)
            if size > limit:
                raise TooLarge.body(limit)
            if stream is not environ["wsgi.input"] and size > UNCOUNTED_BYTES and not reserve(len(part)):
                raise Saturated("too many request bodies are being unpacked; send this one again a little later")
            parts.append(part)
    return b"".join(parts)


def check_size(stream: BinaryIO, limit: int) -> None:
    """Read the whole stream, which shows whether it can be unpacked, and go back to its start. Raises
    :class:`TooLarge` for more than ``limit`` bytes."""
    size = 0
    while part := stream.read(_PART_BYTES):
        size += len(part)
        if size > limit:
            raise TooLarge.body(limit)
    stream.seek(0)
