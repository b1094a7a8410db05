"""Media types, and the reply of a handler before it is sent; pure."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
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
