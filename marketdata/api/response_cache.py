"""Bodies of recent chart responses, used again while the database would produce the same.

An entry does not expire by age. It is used only when its tag equals the one that the symbol's current version counter
gives, so the next request after a late tick or a retraction already reads the database.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass

BYTES_MAX = 64 * 1024 * 1024
_ENTRY_MAX = 2 * 1024 * 1024
_OVERHEAD = 1000
"""Estimated bytes of an entry beside its body: the key, the tag, and the objects of Python."""


@dataclass(frozen=True, slots=True)
class CachedBody:
    """A body without its ``as_of``, which each response has anew, and the tag for which it is valid."""

    tag: str
    head: bytes
    has_as_of: bool

    def body(self, as_of: int) -> bytes:
        """The whole body; ``as_of`` in milliseconds."""
        return b"%b%d}" % (self.head, as_of) if self.has_as_of else self.head


class ResponseCache:
    """A least-recently-used cache with a limit in bytes."""

    def __init__(self, bytes_max: int = BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._entries: OrderedDict[Hashable, CachedBody] = OrderedDict()
        self._lock = threading.Lock()
        self.size = 0

    def get(self, key: Hashable) -> CachedBody | None:
        """The entry of this key. It may be outdated: compare its tag."""
        with self._lock:
            found = self._entries.get(key)
            if found is not None:
                self._entries.move_to_end(key)
            return found

    def put(self, key: Hashable, entry: CachedBody) -> None:
        """Add or replace an entry and drop the least recently used ones over the limit."""
        weight = _weight(entry)
        if weight > _ENTRY_MAX:
            return
        with self._lock:
            old = self._entries.pop(key, None)
            if old is not None:
                self.size -= _weight(old)
            self._entries[key] = entry
            self.size += weight
            while self.size > self._bytes_max:
                _, dropped = self._entries.popitem(last=False)
                self.size -= _weight(dropped)


def _weight(entry: CachedBody) -> int:
    return len(entry.head) + _OVERHEAD
