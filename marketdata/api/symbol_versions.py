"""Reads the version counters of symbols. Requests that need them at the same time share one query.

A request that arrives during a fetch waits for the next one, which fetches the keys of all waiting requests. No request
gets a value that was read before the request arrived.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Generic, TypeVar

from marketdata.api.replicas import Replicas
from marketdata.store import candles
from marketdata.store.candles import Counter
from marketdata.store.placement import Placement
from marketdata.store.version import Version

KeyT = TypeVar("KeyT")
ValueT = TypeVar("ValueT")


class _Fetch(Generic[KeyT, ValueT]):
    """The keys of one fetch. ``running`` is locked until ``values`` or ``error`` is set."""

    def __init__(self) -> None:
        self.keys: set[KeyT] = set()
        self.members = 0
        self.running = threading.Lock()
        self.running.acquire()
        self.values: Mapping[KeyT, ValueT] = {}
        self.error: Exception | None = None


class RequestCoalescing(Generic[KeyT, ValueT]):
    """Joins simultaneous requests into one fetch. ``fetch`` returns the values of the given keys; a key without a value
    is left out."""

    def __init__(self, fetch: Callable[[Collection[KeyT]], Mapping[KeyT, ValueT]]) -> None:
        self._fetch = fetch
        self._fetching = threading.Lock()
        self._joining = threading.Lock()
        self._next: _Fetch[KeyT, ValueT] | None = None

    @property
    def waiting(self) -> int:
        """The number of requests that wait for the next fetch."""
        joined = self._next
        return 0 if joined is None else joined.members

    def get(self, key: KeyT) -> ValueT | None:
        """Returns the current value, or None. Raises what ``fetch`` raised."""
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
            with joined.running:  # released at once, for the next waiting request
                pass
        if joined.error is not None:
            raise joined.error
        return joined.values.get(key)

    def _lead(self, joined: _Fetch[KeyT, ValueT]) -> None:
        with self._fetching:
            with self._joining:
                self._next = None
            try:
                joined.values = self._fetch(joined.keys)
            except Exception as error:
                joined.error = error
            finally:
                joined.running.release()


Key = tuple[Version, str]
"""A version, and a symbol or an alias in it."""


class SymbolVersions:
    """Reads the counters as a replica has them. A symbol that was never stored has none."""

    def __init__(self, replicas: Replicas, placement: Placement) -> None:
        self._replicas = replicas
        self._placement = placement
        self._coalesced: RequestCoalescing[Key, Counter] = RequestCoalescing(self._fetch)

    def get(self, version: Version, name: str) -> Counter | None:
        """The counter of a symbol or alias. In a distributed version each request reads its counter by itself: then a
        node that does not answer delays no request for symbols on other nodes."""
        if version.shards is not None:
            counters = partial(candles.counters, names=[name])
            return self._placement.read(version, [name], counters, checks=True).get(name)
        return self._coalesced.get((version, name))

    def _fetch(self, keys: Collection[Key]) -> Mapping[Key, Counter]:
        found: dict[Key, Counter] = {}
        for version in {version for version, _ in keys}:
            names = [name for owner, name in keys if owner == version]
            counters = self._replicas.read(partial(candles.counters, version=version, names=names))
            found |= {(version, name): counter for name, counter in counters.items()}
        return found
