"""Unpacks bodies with ``Content-Encoding: gzip``. The limits count the bytes after unpacking; unpacking stops at the
limit."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from gzip import BadGzipFile, GzipFile
from typing import Any, BinaryIO

from marketdata.errors import MalformedGzip, Saturated, TooLarge, UnsupportedMediaType
from marketdata.http.waitress_adapter import UNCOUNTED_BYTES
from marketdata.http.wsgi import RESERVE

GZIP, IDENTITY = "gzip", "identity"
_CODINGS = {"": IDENTITY, "identity": IDENTITY, "gzip": GZIP, "x-gzip": GZIP}
_PART_BYTES = 256 * 1024


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
        if not body.read(1):
            raise EOFError("the body is empty")
        body.seek(0)
        with GzipFile(fileobj=body) as stream:
            yield stream  # type: ignore[misc]
    except (EOFError, BadGzipFile, zlib.error) as error:
        raise MalformedGzip(f"the body is not valid gzip: {error}") from error


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
