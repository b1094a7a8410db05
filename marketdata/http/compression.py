"""gzip for text of more than a few packets, when the client accepts it."""

from __future__ import annotations

import gzip
import re
from functools import lru_cache

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
