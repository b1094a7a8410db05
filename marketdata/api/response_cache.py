"""Caches the bodies of chart responses while the database would produce the same bodies.

Entries do not expire by age. An entry is used only if its tag still fits the symbol's current version counter, so the
first request after a late tick or a retraction already reads the database.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass

MAX_BYTES = 64 * 1024 * 1024
_MAX_ENTRY_BYTES = 2 * 1024 * 1024
_OVERHEAD = 1000
"""Estimated bytes of an entry's key, tag and Python objects."""


@dataclass(frozen=True, slots=True)
class CachedBody:
    """A body and the tag for which it is valid. Some bodies end with the number ``as_of``, which differs in each
    response. For these, ``has_as_of`` is true and ``head`` is the body up to this number. For all others, ``head`` is
    the whole body."""

    tag: str
    head: bytes
    has_as_of: bool

    def body(self, as_of: int) -> bytes:
        """Returns the whole body. ``as_of`` is in milliseconds."""
        return b"%b%d}" % (self.head, as_of) if self.has_as_of else self.head


class ResponseCache:
    """A least-recently-used cache whose size in bytes is limited. Thread-safe."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._entries: OrderedDict[Hashable, CachedBody] = OrderedDict()
        self._lock = threading.Lock()
        self.size = 0

    def get(self, key: Hashable) -> CachedBody | None:
        """Returns the entry of this key. It may be outdated, so the caller must compare its tag."""
        with self._lock:
            found = self._entries.get(key)
            if found is not None:
                self._entries.move_to_end(key)
            return found

    def put(self, key: Hashable, entry: CachedBody) -> None:
        """Add or replace an entry. Then drop the least recently used entries until the size is within the limit."""
        weight = _weight(entry)
        if weight > _MAX_ENTRY_BYTES:
            return
        with self._lock:
            old = self._entries.pop(key, None)
            if old is not None:
                self.size -= _weight(old)
            self._entries[key] = entry
            self.size += weight
            while self.size > self._max_bytes:
                _, dropped = self._entries.popitem(last=False)
                self.size -= _weight(dropped)


def _weight(entry: CachedBody) -> int:
    return len(entry.head) + _OVERHEAD
