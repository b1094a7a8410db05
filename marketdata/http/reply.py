"""Media types, the reply of a handler before it is sent, and its compression by gzip; pure."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

JSON = "application/json"
NDJSON = "application/x-ndjson"
CSV = "text/csv; charset=utf-8"
PROBLEM = "application/problem+json"
PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"
TEXT = "text/plain; charset=utf-8"

Headers = tuple[tuple[str, str], ...]

_COMPACT = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class Reply:
    """A body of bytes is sent whole, any other iterable is streamed."""

    body: bytes | Iterable[bytes]
    status: int = 200
    media_type: str = JSON
    headers: Headers = ()

    def with_headers(self, *more: tuple[str, str]) -> Reply:
        """The same reply with further headers."""
        return Reply(self.body, self.status, self.media_type, (*self.headers, *more))


def encode(value: Any) -> bytes:
    """Compact UTF-8 JSON. A lone surrogate, which a client may have sent in a name, stays the escape that it was."""
    return _COMPACT.encode(value).encode("utf-8", "backslashreplace")


def answer(value: Any, status: int = 200, headers: Headers = ()) -> Reply:
    """A reply whose body is ``value`` as JSON."""
    return Reply(encode(value), status, JSON, headers)


THRESHOLD = 2048
"""Bytes; a smaller answer fits into the first packets and gains nothing."""

_LEVEL = 1  # candles shrink to a quarter at level 1; level 6 takes three times as long for a tenth less
_MEMBER = re.compile(r"\s*([\w*.-]+)\s*(?:;\s*q\s*=\s*([01](?:\.[0-9]{0,3})?)\s*)?$", re.ASCII)


@lru_cache(maxsize=64)
def accepts_gzip(accept_encoding: str) -> bool:
    """Whether an ``Accept-Encoding`` accepts gzip (RFC 9110, section 12.5.3): by name or ``*``, and not with q=0."""
    weights: dict[str, float] = {}
    for part in accept_encoding.split(","):
        member = _MEMBER.match(part)
        if member is not None:
            weights[member[1].lower()] = float(member[2] or 1)
    return weights.get("gzip", weights.get("*", 0.0)) > 0


def compressed(body: bytes) -> bytes:
    """``body`` as gzip. It contains no time, so equal bodies give equal results."""
    return gzip.compress(body, _LEVEL, mtime=0)
