"""Stores checked items. Small requests share a transaction (:mod:`marketdata.api.group_commit`), and each large request
has its own. In a version that Citus distributes, a request is divided by shard, and each part is stored like a request.

The queues and the number of concurrent requests are limited. Requests beyond a limit get :class:`Saturated`.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from time import monotonic
from typing import NamedTuple

from marketdata.api.group_commit import MAX_SHARED_ITEMS, GroupCommit
from marketdata.api.metrics import Metrics
from marketdata.api.served_version import ServedVersion
from marketdata.api.shard_commits import ShardCommits
from marketdata.errors import Contended, MarketError, Saturated
from marketdata.http.listener import WORKERS
from marketdata.store import ticks
from marketdata.store.placement import Placement
from marketdata.store.pool import Pool
from marketdata.store.shard_ingest import ShardIngest, symbols_of
from marketdata.store.ticks import Ingested, Outcome
from marketdata.store.version import Version
from marketdata.tick import Item

MAX_LARGE = 4
"""Maximum number of large requests that are stored at the same time."""
_LARGE_WAIT_SECONDS = 2.0
_PART_WAIT_SECONDS = 30.0
_ATTEMPTS = 4

MAX_BACKLOG = 128
"""Ingests are refused while more requests than this wait for a worker, because the waiting bodies use memory."""

MAX_CONCURRENT = WORKERS - 8
"""Maximum number of concurrent ingests. The other workers stay free for reads and health checks."""
PROGRESS_SECONDS = 0.25
"""While ``MAX_CONCURRENT`` ingests are running, another one is refused if none has finished for this long. A commit
takes less time than this."""


class Stored(NamedTuple):
    """The outcomes of the items of a request, and the greatest counter of their symbols. It is 0 if the items are about
    chains only."""

    outcomes: Sequence[Outcome]
    counter: int


class TickWriter:
    """Stores the items of ingest requests. Call ``start`` once; ``stop`` may be called repeatedly. ``backlog`` returns
    the number of requests that wait for a worker. ``note`` is called after each transaction with its counters.
    ``placement`` knows the nodes of a distributed version. ``large`` is the maximum number of large requests that are
    stored at the same time."""

    def __init__(
        self,
        pool: Pool,
        served: ServedVersion,
        metrics: Metrics,
        backlog: Callable[[], int],
        note: Callable[[Version, Mapping[str, int]], None],
        placement: Placement,
        large: int = MAX_LARGE,
        progress_seconds: float = PROGRESS_SECONDS,
    ) -> None:
        self._pool = pool
        self._served = served
        self._metrics = metrics
        self._backlog = backlog
        self._note = note
        self._slots = threading.Semaphore(MAX_CONCURRENT)
        self._progress_seconds = progress_seconds
        self._progress_at = 0.0
        self._large = threading.Semaphore(large)
        self._group_commit: GroupCommit[Item, Stored] = GroupCommit(self._apply)
        self._shard_commits = ShardCommits(placement, note)
        self._shard_ingest = ShardIngest(placement, pool, self._shard_commits.begin)

    def start(self) -> None:
        self._group_commit.start()

    def stop(self, timeout: float = 5.0) -> None:
        deadline = monotonic() + timeout
        self._group_commit.stop(timeout)
        self._shard_commits.stop(max(deadline - monotonic(), 0.0))

    @property
    def depth(self) -> int:
        """The number of items that wait for a transaction."""
        return self._group_commit.depth + self._shard_commits.depth

    def store(self, items: Sequence[Item]) -> Stored:
        """Store the items in their order; on return they are durable. Raises :class:`Saturated` when a limit is
        reached."""
        if self._backlog() > MAX_BACKLOG:
            raise Saturated("too many requests are waiting; send the request again later, or send batches")
        if len(items) <= MAX_SHARED_ITEMS:
            return self._stored(self._store_shared, items, 0.0)
        return self._stored(partial(self._store_alone, patience=_LARGE_WAIT_SECONDS), items, 0.0)

    def store_part(self, items: Sequence[Item]) -> Stored:
        """Store a part of a large body like a large request, whatever its size. This waits longer for its turn than
        :meth:`store`, because an error would end the whole request."""
        return self._stored(partial(self._store_alone, patience=_PART_WAIT_SECONDS), items, _PART_WAIT_SECONDS)

    def _stored(self, store: Callable[[Sequence[Item]], Stored], items: Sequence[Item], patience: float) -> Stored:
        self._take_slot(patience)
        try:
            stored = store(items)
        finally:
            self._progress_at = monotonic()
            self._slots.release()
        if len(stored.outcomes) == 1:
            self._metrics.ingested(stored.outcomes[0], 1)
        else:
            for outcome, count in Counter(stored.outcomes).items():
                self._metrics.ingested(outcome, count)
        return stored

    def _take_slot(self, patience: float) -> None:
        """Wait for a slot for ``patience`` seconds, or while other ingests finish. Raises :class:`Saturated` if none
        finishes for a while."""
        timeout = self._progress_at + self._progress_seconds - monotonic()
        if not self._slots.acquire(timeout=max(timeout, patience)):
            raise Saturated("storing ticks has stalled and too many requests wait for it; send the request again later")
        self._progress_at = monotonic()

    def _store_shared(self, items: Sequence[Item]) -> Stored:
        version = self._served.version()
        if version.shards is not None:
            return self._store_in_shards(version, items)
        return self._group_commit.submit(items)

    def _store_alone(self, items: Sequence[Item], patience: float) -> Stored:
        if not self._large.acquire(timeout=patience):
            raise Saturated("too many large batches are being stored; send the batch again later")
        try:
            (stored,) = self._apply([items])
        finally:
            self._large.release()
        if isinstance(stored, MarketError):
            raise stored
        return stored

    def _apply(self, requests: Sequence[Sequence[Item]]) -> Sequence[Stored | MarketError]:
        version = self._served.version()
        if version.shards is not None:
            return [self._or_error(version, items) for items in requests]
        return self._store_in_one(version, requests)

    def _store_in_shards(self, version: Version, items: Sequence[Item]) -> Stored:
        outcomes, counters = self._shard_ingest.ingest(version, items)
        return Stored(outcomes, _greatest(counters, items))

    def _or_error(self, version: Version, items: Sequence[Item]) -> Stored | MarketError:
        try:
            return self._store_in_shards(version, items)
        except MarketError as error:
            return error

    def _store_in_one(self, version: Version, requests: Sequence[Sequence[Item]]) -> list[Stored]:
        """Store the items of all requests in one transaction."""
        stored = self._store_together(version, [item for items in requests for item in items])
        self._note(version, stored.counters)
        return [
            Stored(outcomes, _greatest(counters, items))
            for items, (outcomes, counters) in zip(requests, stored.divided(requests), strict=True)
        ]

    def _store_together(self, version: Version, items: Sequence[Item]) -> Ingested:
        for _ in range(_ATTEMPTS - 1):
            try:
                with self._pool.connection(fresh_seconds=0.0) as connection:
                    return ticks.ingest(connection, version, items)
            except Contended:
                continue  # nothing was stored, so the items can be stored again
        with self._pool.connection(fresh_seconds=0.0) as connection:
            return ticks.ingest(connection, version, items)


def _greatest(counters: Mapping[str, int], items: Sequence[Item]) -> int:
    """The greatest counter of the symbols of these items."""
    return max((counters[symbol] for symbol in symbols_of(items)), default=0)
