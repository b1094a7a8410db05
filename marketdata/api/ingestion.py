"""Storing checked items: small requests in shared transactions, large ones alone, both limited in number."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from time import monotonic

from marketdata.api.group_commit import GroupCommit
from marketdata.api.metrics import Metrics
from marketdata.api.served_version import ServedVersion
from marketdata.errors import Contended, Saturated
from marketdata.http.listener import WORKERS
from marketdata.store import ticks
from marketdata.store.pool import Pool
from marketdata.store.ticks import Outcome
from marketdata.tick import Item

SHARED_ITEMS_MAX = 256
"""Requests with more items get a transaction of their own."""

LARGE_MAX = 4
"""Maximum number of large requests at a time."""
_LARGE_WAIT_SECONDS = 2.0
_ATTEMPTS = 4

BACKLOG_MAX = 128
"""Ingests are refused while more requests than this wait for a worker, since the waiting bodies use memory."""

CONCURRENT_MAX = WORKERS - 8
"""Maximum number of concurrent ingests. The other workers stay free for reads and health checks."""
_PROGRESS_SECONDS = 0.25
"""At the maximum, an ingest is refused when no other one has finished for this long; a commit takes less."""


class Ingestion:
    """Call ``start`` once; ``stop`` may be called repeatedly."""

    def __init__(self, pool: Pool, served: ServedVersion, metrics: Metrics, backlog: Callable[[], int]) -> None:
        self._pool = pool
        self._served = served
        self._metrics = metrics
        self._backlog = backlog
        self._slots = threading.Semaphore(CONCURRENT_MAX)
        self._progress_at = 0.0
        self._large = threading.Semaphore(LARGE_MAX)
        self._group_commit: GroupCommit[Item, Outcome] = GroupCommit(self._apply)

    def start(self) -> None:
        self._group_commit.start()

    def stop(self, timeout: float = 5.0) -> None:
        self._group_commit.stop(timeout)

    @property
    def depth(self) -> int:
        """The number of items that wait for a transaction."""
        return self._group_commit.depth

    def store(self, items: Sequence[Item]) -> Sequence[Outcome]:
        """Apply the items in their order; they are durable on return. :class:`Saturated` when a limit is reached."""
        if self._backlog() > BACKLOG_MAX:
            raise Saturated("too many requests are waiting; send the request again later, or send batches")
        self._take_slot()
        try:
            outcomes = self._group_commit.submit(items) if len(items) <= SHARED_ITEMS_MAX else self._store_alone(items)
        finally:
            self._progress_at = monotonic()
            self._slots.release()
        if len(outcomes) == 1:
            self._metrics.ingested(outcomes[0], 1)
        else:
            for outcome, count in Counter(outcomes).items():
                self._metrics.ingested(outcome, count)
        return outcomes

    def _take_slot(self) -> None:
        """Wait for a slot while other ingests finish; :class:`Saturated` when none has finished for a while."""
        timeout = self._progress_at + _PROGRESS_SECONDS - monotonic()
        if not self._slots.acquire(timeout=max(timeout, 0.0)):
            raise Saturated("storing ticks has stalled and too many requests wait for it; send the request again later")
        self._progress_at = monotonic()

    def _store_alone(self, items: Sequence[Item]) -> Sequence[Outcome]:
        if not self._large.acquire(timeout=_LARGE_WAIT_SECONDS):
            raise Saturated("too many large batches are being stored; send the batch again later")
        try:
            return self._apply(items)
        finally:
            self._large.release()

    def _apply(self, items: Sequence[Item]) -> Sequence[Outcome]:
        version = self._served.version()
        for _ in range(_ATTEMPTS - 1):
            try:
                with self._pool.connection(fresh_seconds=0.0) as connection:
                    return ticks.ingest(connection, version, items)
            except Contended:
                continue  # nothing was stored, so it can be tried again
        with self._pool.connection(fresh_seconds=0.0) as connection:
            return ticks.ingest(connection, version, items)
