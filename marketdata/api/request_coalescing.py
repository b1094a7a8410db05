"""Values that many requests need at once, fetched from the database in one query for all of them.

A request that arrives during a fetch waits for the next one, which fetches the keys of all waiting requests. No request
gets a value that was read before the request arrived.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from typing import Generic, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


class _Fetch(Generic[Key, Value]):
    """The keys of one fetch. ``running`` is locked until ``values`` or ``error`` is set."""

    def __init__(self) -> None:
        self.keys: set[Key] = set()
        self.members = 0
        self.running = threading.Lock()
        self.running.acquire()
        self.values: Mapping[Key, Value] = {}
        self.error: Exception | None = None


class RequestCoalescing(Generic[Key, Value]):
    """``fetch`` returns the values of some keys; a key without a value is left out."""

    def __init__(self, fetch: Callable[[Collection[Key]], Mapping[Key, Value]]) -> None:
        self._fetch = fetch
        self._fetching = threading.Lock()
        self._joining = threading.Lock()
        self._next: _Fetch[Key, Value] | None = None

    @property
    def waiting(self) -> int:
        """How many requests wait for the next fetch."""
        joined = self._next
        return 0 if joined is None else joined.members

    def get(self, key: Key) -> Value | None:
        """The current value, or None; raises what ``fetch`` raised."""
        with self._joining:
            joined = self._next
            is_leader = joined is None
            if joined is None:
                joined = self._next = _Fetch()
            joined.keys.add(key)
            joined.members += 1
        if is_leader:
            self._lead(joined)
        else:
            with joined.running:  # released at once, for the next member that waits
                pass
        if joined.error is not None:
            raise joined.error
        return joined.values.get(key)

    def _lead(self, joined: _Fetch[Key, Value]) -> None:
        with self._fetching:
            with self._joining:
                self._next = None
            try:
                joined.values = self._fetch(joined.keys)
            except Exception as error:
                joined.error = error
            finally:
                joined.running.release()
