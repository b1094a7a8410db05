"""Answers of a while ago, given again as long as they are what the database would answer now.

Nothing is trusted by age. An entry is used only when the tag that the database's present version counter gives is the
entry's own, so a late tick or a retraction is seen by the very next request.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass

BYTES_MAX = 64 * 1024 * 1024
_ENTRY_MAX = 2 * 1024 * 1024
_OVERHEAD = 500


@dataclass(frozen=True, slots=True)
class Answer:
    """What stands before the ``as_of`` of a body, which is told anew each time, and the tag under which it is right."""

    tag: str
    head: bytes
    tells_time: bool

    def body(self, as_of: int) -> bytes:
        """The whole body; ``as_of`` in milliseconds."""
        return b"%b%d}" % (self.head, as_of) if self.tells_time else self.head


class ResponseCache:
    """A least-recently-used memory, bounded in bytes."""

    def __init__(self, bytes_max: int = BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._entries: OrderedDict[str, Answer] = OrderedDict()
        self._lock = threading.Lock()
        self.size = 0

    def get(self, key: str) -> Answer | None:
        """What was last put under ``key``, right or not: compare its tag."""
        with self._lock:
            found = self._entries.get(key)
            if found is not None:
                self._entries.move_to_end(key)
            return found

    def put(self, key: str, entry: Answer) -> None:
        """Keep ``entry``, and let go of what was not asked for longest."""
        weight = _weight(key, entry)
        if weight > _ENTRY_MAX:
            return
        with self._lock:
            old = self._entries.pop(key, None)
            if old is not None:
                self.size -= _weight(key, old)
            self._entries[key] = entry
            self.size += weight
            while self.size > self._bytes_max:
                first, gone = self._entries.popitem(last=False)
                self.size -= _weight(first, gone)


def _weight(key: str, entry: Answer) -> int:
    return len(key) + len(entry.head) + _OVERHEAD
