"""The hash chain of the events: each event's hash covers the event and the hash of the previous one.

The hash is the SHA-256 of the canonical JSON (sorted keys, no spaces, UTF-8) of the event with the previous hash.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

GENESIS = "0" * 64
"""The previous hash of the first event."""


def event_hash(previous: str, event: Mapping[str, Any]) -> str:
    """The hash of an event {seq, at, kind, actor, key, card, data}; ``previous`` is the hash before it."""
    return hashlib.sha256(canonical({**event, "previous": previous}).encode()).hexdigest()


def canonical(value: Any) -> str:
    """``value`` as canonical JSON, in which equal values have the same text."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False)
