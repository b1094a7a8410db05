"""The head of an ordinary answer: HTTP/1.1, of a known length, on a connection that is kept; pure."""

from __future__ import annotations

from collections.abc import Iterable
from email.utils import formatdate
from functools import lru_cache

_ORDINARY = {
    "Content-Length", "Content-Type", "Content-Encoding", "ETag", "Cache-Control", "Vary",
    "Content-Security-Policy", "X-Content-Type-Options", "Referrer-Policy", "Cross-Origin-Resource-Policy",
    "X-Request-Id",
}  # fmt: skip
"""Fields that occur once each in an answer and do not concern the connection."""


def ordinary_head(status: str, fields: Iterable[tuple[str, str]], at: float) -> bytes | None:
    """The head with ``status`` ("200 OK") and ``fields``; ``at`` is its date in seconds since 1970. None when a length
    is missing or a field is not ordinary."""
    pairs = list(fields)
    named = dict(pairs)
    if not {"Content-Length"} <= named.keys() <= _ORDINARY or len(named) != len(pairs):
        return None
    lines = "".join([f"{name}: {value}\r\n" for name, value in pairs])
    return f"HTTP/1.1 {status}\r\n{lines}Date: {_date(int(at))}\r\n\r\n".encode("latin-1")


@lru_cache(maxsize=4)
def _date(second: int) -> str:
    return formatdate(second, usegmt=True)
