"""Media types, the reply that a handler returns, and its compression by gzip; pure."""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

JSON = "application/json"
NDJSON = "application/x-ndjson"
CSV_TYPE = "text/csv"
CSV = f"{CSV_TYPE}; charset=utf-8"
PROBLEM = "application/problem+json"
PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"
HTML = "text/html; charset=utf-8"
TEXT = "text/plain; charset=utf-8"

Headers = tuple[tuple[str, str], ...]

_COMPACT = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class Reply:
    """``body`` is sent whole if it is ``bytes``; any other iterable is streamed."""

    body: bytes | Iterable[bytes]
    status: int = 200
    media_type: str = JSON
    headers: Headers = ()

    def with_headers(self, *more: tuple[str, str]) -> Reply:
        """Return the same reply with these headers appended."""
        return Reply(self.body, self.status, self.media_type, (*self.headers, *more))


def encode(value: Any) -> bytes:
    """Encode as compact UTF-8 JSON. UTF-8 cannot encode a lone surrogate, which a client may have sent in a name, so it
    is written as an escape."""
    return _COMPACT.encode(value).encode("utf-8", "backslashreplace")


def answer(value: Any, status: int = 200, headers: Headers = ()) -> Reply:
    """Return a reply whose body is ``value`` as JSON."""
    return Reply(encode(value), status, JSON, headers)


VARY = ("Vary", "Accept-Encoding")
_MIN_GZIP_BYTES = 2048
"""A smaller body fits into the first packets, so compression gains nothing."""
_LEVEL = 1  # candles shrink to a quarter at level 1; level 6 takes three times as long for a tenth less
_GZIP_FORMAT = zlib.MAX_WBITS + 16
_MEMBER = re.compile(r"\s*([\w*.-]+)\s*(?:;\s*q\s*=\s*([01](?:\.[0-9]{0,3})?)\s*)?$", re.ASCII)


def gzipped(reply: Reply, accept_encoding: str) -> Reply:
    """Return ``reply`` compressed if the body is large enough and the client accepts gzip. A stream is compressed part
    by part.

    The compressed body contains no time, so equal bodies give equal results.
    """
    body = reply.body
    if isinstance(body, bytes) and len(body) < _MIN_GZIP_BYTES:
        return reply
    if not accepts_gzip(accept_encoding):
        return reply.with_headers(VARY)
    headers = (*reply.headers, VARY, ("Content-Encoding", "gzip"))
    packed = gzip.compress(body, _LEVEL, mtime=0) if isinstance(body, bytes) else _Packed(body)
    return Reply(packed, reply.status, reply.media_type, headers)


class _Packed:
    """A stream, compressed. ``close`` closes the stream."""

    def __init__(self, parts: Iterable[bytes]) -> None:
        self._parts = parts

    def __iter__(self) -> Iterator[bytes]:
        packer = zlib.compressobj(_LEVEL, wbits=_GZIP_FORMAT)
        for part in self._parts:
            yield packer.compress(part)
        yield packer.flush()

    def close(self) -> None:
        if hasattr(self._parts, "close"):
            self._parts.close()


@lru_cache(maxsize=64)
def accepts_gzip(accept_encoding: str) -> bool:
    """Whether an ``Accept-Encoding`` accepts gzip (RFC 9110, section 12.5.3): by name or ``*``, and not with q=0."""
    weights: dict[str, float] = {}
    for part in accept_encoding.split(","):
        member = _MEMBER.match(part)
        if member is not None:
            weights[member[1].lower()] = float(member[2] or 1)
    return weights.get("gzip", weights.get("*", 0.0)) > 0
