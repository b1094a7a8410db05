"""Group commit for each shard of a version that Citus distributes, so that a shard that waits does not delay the
others."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain
from time import monotonic

from marketdata.api.group_commit import MAX_SHARED_ITEMS, GroupCommit
from marketdata.http.listener import WORKERS
from marketdata.store.placement import Placement
from marketdata.store.shard_ingest import store_in_shard
from marketdata.store.ticks import Ingested
from marketdata.store.version import Version
from marketdata.tick import FinalizeChain, Item

_CAPACITY = WORKERS * MAX_SHARED_ITEMS
"""Maximum number of items in the queue of a shard: each worker may have a part of its request there. A full queue would
refuse a part of a request whose other parts are stored."""


class ShardCommits:
    """Makes the group commit of a shard at its first use. ``note`` is called after each transaction with its counters.
    ``stop`` may be called repeatedly."""

    def __init__(self, placement: Placement, note: Callable[[Version, Mapping[str, int]], None]) -> None:
        self._placement = placement
        self._note = note
        self._commits: dict[tuple[Version, int], GroupCommit[Item, Ingested]] = {}
        self._is_stopping = False
        self._lock = threading.Lock()

    @property
    def depth(self) -> int:
        """The number of queued items."""
        return sum(each.depth for each in self._all())

    def stop(self, timeout: float = 5.0) -> None:
        """Refuse new items, store the queued ones, and end the threads."""
        deadline = monotonic() + timeout
        self._is_stopping = True
        commits = self._all()
        for each in commits:
            each.stop(0.0)  # tell all to end, before the wait for the first
        for each in commits:
            each.stop(max(deadline - monotonic(), 0.0))

    def begin(self, version: Version, items: Sequence[Item]) -> Callable[[], Ingested]:
        """Begin to store items of one shard; see :data:`marketdata.store.shard_ingest.Begin`. The counters are those of
        all requests that share the transaction. More than ``MAX_SHARED_ITEMS`` items get a transaction of their own."""
        if len(items) > MAX_SHARED_ITEMS:
            return self._placement.begin(partial(self._store, version, items))
        first = items[0]
        assert not isinstance(first, FinalizeChain)
        return self._of_shard(version, self._placement.number(version, first.symbol)).begin(items)

    def _of_shard(self, version: Version, number: int) -> GroupCommit[Item, Ingested]:
        with self._lock:
            found = self._commits.get((version, number))
            if found is None:
                found = GroupCommit(partial(self._store_together, version), capacity=_CAPACITY)
                self._commits[version, number] = found
                if not self._is_stopping:  # a group commit without a thread refuses all items
                    found.start()
        return found

    def _store_together(self, version: Version, requests: Sequence[Sequence[Item]]) -> list[Ingested]:
        """Store the items of all requests in one transaction."""
        return list(self._store(version, list(chain.from_iterable(requests))).divided(requests))

    def _store(self, version: Version, items: Sequence[Item]) -> Ingested:
        stored = store_in_shard(self._placement, version, items)
        self._note(version, stored.counters)
        return stored

    def _all(self) -> list[GroupCommit[Item, Ingested]]:
        with self._lock:
            return list(self._commits.values())
