"""How checked items reach the database: small ingests with those of others, big ones alone, and never without bound."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from time import monotonic

from marketdata.api.group_commit import GroupCommit
from marketdata.api.listener.loop import WORKERS
from marketdata.api.metrics import Metrics
from marketdata.api.served_version import ServedVersion
from marketdata.errors import Contended, Saturated
from marketdata.store import ticks
from marketdata.store.pool import Pool
from marketdata.store.ticks import Outcome
from marketdata.tick import Item

SMALL = 256
"""Items; more of them fill a transaction well enough on their own."""

BIG_AT_ONCE = 4
_BIG_WAIT_SECONDS = 2.0
_ATTEMPTS = 4

BACKLOG_MAX = 128
"""Requests that may wait for a worker before ingests are turned away: their bodies wait with them."""

AT_ONCE = WORKERS - 8
"""Ingests that may keep a worker: when they all stand still, reads and the health of the service still find one."""
_PATIENCE_SECONDS = 0.25
"""How long all places may stay taken by the same ingests before the next one is turned away; a commit takes less."""


class Ingestion:
    """``start`` once, ``stop`` any number of times."""

    def __init__(self, pool: Pool, served: ServedVersion, metrics: Metrics, backlog: Callable[[], int]) -> None:
        self._pool = pool
        self._served = served
        self._metrics = metrics
        self._backlog = backlog
        self._places = threading.Semaphore(AT_ONCE)
        self._moved_at = 0.0
        self._big = threading.Semaphore(BIG_AT_ONCE)
        self._group_commit: GroupCommit[Item, Outcome] = GroupCommit(self._apply)

    def start(self) -> None:
        self._group_commit.start()

    def stop(self, timeout: float = 5.0) -> None:
        self._group_commit.stop(timeout)

    @property
    def depth(self) -> int:
        """Items that wait for the next transaction."""
        return self._group_commit.depth

    def store(self, items: Sequence[Item]) -> Sequence[Outcome]:
        """Apply the items in their order; durable on return. :class:`Saturated` before anything grows without bound."""
        if self._backlog() > BACKLOG_MAX:
            raise Saturated("too many requests wait; send again a little later, or in batches")
        self._take_place()
        try:
            outcomes = self._group_commit.submit(items) if len(items) <= SMALL else self._store_alone(items)
        finally:
            self._moved_at = monotonic()
            self._places.release()
        if len(outcomes) == 1:
            self._metrics.ingested(outcomes[0], 1)
        else:
            for outcome, count in Counter(outcomes).items():
                self._metrics.ingested(outcome, count)
        return outcomes

    def _take_place(self) -> None:
        """Who finds none waits while places change hands, and is turned away at once while nothing moves."""
        patience = self._moved_at + _PATIENCE_SECONDS - monotonic()
        if not self._places.acquire(timeout=max(patience, 0.0)):
            raise Saturated("too many ticks wait to be stored, and none was for a while; send again a little later")
        self._moved_at = monotonic()

    def _store_alone(self, items: Sequence[Item]) -> Sequence[Outcome]:
        if not self._big.acquire(timeout=_BIG_WAIT_SECONDS):
            raise Saturated("too many batches are being stored; send this one again a little later")
        try:
            return self._apply(items)
        finally:
            self._big.release()

    def _apply(self, items: Sequence[Item]) -> Sequence[Outcome]:
        version = self._served.version()
        for _ in range(_ATTEMPTS - 1):
            try:
                with self._pool.connection(fresh_seconds=0.0) as connection:
                    return ticks.ingest(connection, version, items)
            except Contended:
                continue  # another writer was in the way; nothing was kept, so the same can be tried again
        with self._pool.connection(fresh_seconds=0.0) as connection:
            return ticks.ingest(connection, version, items)
