"""Stores checked items. Small requests share a transaction (group commit), and each large request has its own.

Each commit costs a disk flush, and current ticks all update the same few candles, so concurrent writers of single ticks
would wait for each other. One thread takes all queued items, stores them in one transaction, and wakes the requests
after the commit. The queue and the number of concurrent requests are limited. Requests beyond a limit get
:class:`Saturated`.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from time import monotonic
from typing import Generic, NamedTuple, TypeVar

from marketdata.api.metrics import Metrics
from marketdata.api.served_version import ServedVersion
from marketdata.errors import Contended, DatabaseDefect, DatabaseUnavailable, InvalidValue, MarketError, Saturated
from marketdata.http.listener import WORKERS
from marketdata.store import ticks
from marketdata.store.placement import Placement
from marketdata.store.pool import Pool
from marketdata.store.shard_ingest import Results, ShardIngest
from marketdata.store.ticks import Outcome
from marketdata.store.version import Version
from marketdata.tick import FinalizeChain, Item

MAX_SHARED_ITEMS = 256
"""Requests with more items get a transaction of their own."""

MAX_LARGE = 4
"""Maximum number of large requests that are stored at the same time."""
_LARGE_WAIT_SECONDS = 2.0
_PART_WAIT_SECONDS = 30.0
_ATTEMPTS = 4

MAX_BACKLOG = 128
"""Ingests are refused while more requests than this wait for a worker, because the waiting bodies use memory."""

MAX_CONCURRENT = WORKERS - 8
"""Maximum number of concurrent ingests. The other workers stay free for reads and health checks."""
_PROGRESS_SECONDS = 0.25
"""While ``MAX_CONCURRENT`` ingests are running, another one is refused if none has finished for this long. A commit
takes less."""

MAX_QUEUED_ITEMS = 4096
"""Maximum number of queued items. At the slowest rate measured, they are less than a second of work."""

MAX_TRANSACTION_ITEMS = 1024
"""Maximum number of items in a shared transaction. In a larger one, the first requests would wait longer for the
commit."""

GATHER_SECONDS = 0.003
"""Longest time that a transaction waits for further requests. Most of its cost does not depend on its ticks."""

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")

_log = logging.getLogger(__name__)


class _Submission(Generic[ItemT, ResultT]):
    """The items of a request. ``done`` is locked until ``result`` or ``error`` is set, because a lock is faster than
    an event."""

    __slots__ = ("done", "error", "items", "result")

    def __init__(self, items: Sequence[ItemT]) -> None:
        self.items = items
        self.result: ResultT
        self.error: Exception | None = None
        self.done = threading.Lock()
        self.done.acquire()


class GroupCommit(Generic[ItemT, ResultT]):
    """Stores the items of several requests in one transaction. ``apply`` stores the items of these requests in one
    transaction and returns a result or an error for each request, in the same order."""

    def __init__(
        self,
        apply: Callable[[Sequence[Sequence[ItemT]]], Sequence[ResultT | MarketError]],
        *,
        capacity: int = MAX_QUEUED_ITEMS,
        largest: int = MAX_TRANSACTION_ITEMS,
    ) -> None:
        self._apply = apply
        self._capacity = capacity
        self._largest = largest
        self._queue: deque[_Submission[ItemT, ResultT]] = deque()
        self._queued = 0
        self._changed = threading.Condition()
        self._stopping = False
        self._expected = 0
        """The number of requests in the last transaction. Their clients probably send the next ones soon."""
        self._thread: threading.Thread | None = None

    @property
    def depth(self) -> int:
        """The number of queued items."""
        return self._queued

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="ingest-group-commit", daemon=True)
        self._thread.start()

    def stop(self, timeout: float = 5.0) -> None:
        """Refuse new items, store the queued ones, and end the thread."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(timeout)

    def submit(self, items: Sequence[ItemT]) -> ResultT:
        """Store ``items`` and return after their commit. Raises :class:`Saturated` when the queue is full."""
        submission: _Submission[ItemT, ResultT] = _Submission(items)
        with self._changed:
            if self._stopping or self._thread is None:
                raise DatabaseUnavailable("the service is stopping; the request was not stored")
            if self._queued + len(items) > self._capacity:
                raise Saturated("too many ticks are queued; send the request again later, or send batches")
            self._queue.append(submission)
            self._queued += len(items)
            if len(self._queue) in (1, self._expected):
                self._changed.notify()
        submission.done.acquire()
        if submission.error is not None:
            raise submission.error
        return submission.result

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._queue and not self._stopping:
                    self._changed.wait()
                if not self._queue:
                    return
                self._gather()
                group = self._take()
            self._expected = len(group)
            self._store(group)

    def _gather(self) -> None:
        """Wait a moment for as many requests as the last transaction had. Otherwise the first client that sends again
        would get a transaction of its own, and the others would wait for it."""
        until = monotonic() + GATHER_SECONDS
        while len(self._queue) < self._expected and not self._stopping and (left := until - monotonic()) > 0:
            self._changed.wait(left)

    def _take(self) -> list[_Submission[ItemT, ResultT]]:
        """The oldest submissions that fit into one transaction, at least one."""
        group = [self._queue.popleft()]
        size = len(group[0].items)
        while self._queue and size + len(self._queue[0].items) <= self._largest:
            size += len(self._queue[0].items)
            group.append(self._queue.popleft())
        self._queued -= size
        return group

    def _store(self, group: list[_Submission[ItemT, ResultT]]) -> None:
        try:
            results = self._apply([submission.items for submission in group])
            for submission, result in zip(group, results, strict=True):
                if isinstance(result, MarketError):
                    submission.error = result
                else:
                    submission.result = result
        except (InvalidValue, DatabaseDefect) as error:
            # The data of one request must not make the others fail: store each separately.
            if len(group) > 1:
                for submission in group:
                    self._store([submission])
                return
            group[0].error = error
        except Exception as error:
            for submission in group:
                submission.error = error
        for submission in group:
            submission.done.release()


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
    ) -> None:
        self._pool = pool
        self._served = served
        self._metrics = metrics
        self._backlog = backlog
        self._note = note
        self._shard_ingest = ShardIngest(placement, pool)
        self._slots = threading.Semaphore(MAX_CONCURRENT)
        self._progress_at = 0.0
        self._large = threading.Semaphore(large)
        self._group_commit: GroupCommit[Item, Stored] = GroupCommit(self._apply)

    def start(self) -> None:
        self._group_commit.start()

    def stop(self, timeout: float = 5.0) -> None:
        self._group_commit.stop(timeout)

    @property
    def depth(self) -> int:
        """The number of items that wait for a transaction."""
        return self._group_commit.depth

    def store(self, items: Sequence[Item]) -> Stored:
        """Store the items in their order; on return they are durable. Raises :class:`Saturated` when a limit is
        reached."""
        if self._backlog() > MAX_BACKLOG:
            raise Saturated("too many requests are waiting; send the request again later, or send batches")
        if len(items) <= MAX_SHARED_ITEMS:
            return self._stored(self._group_commit.submit, items, 0.0)
        return self._stored(partial(self._store_alone, patience=_LARGE_WAIT_SECONDS), items, 0.0)

    def store_part(self, items: Sequence[Item]) -> Stored:
        """Store a part of a large body in a transaction of its own, like :meth:`store`. This waits longer for its turn,
        because an error would end the whole request."""
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
        timeout = self._progress_at + _PROGRESS_SECONDS - monotonic()
        if not self._slots.acquire(timeout=max(timeout, patience)):
            raise Saturated("storing ticks has stalled and too many requests wait for it; send the request again later")
        self._progress_at = monotonic()

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

    def _apply(self, requests: Sequence[Sequence[Item]]) -> list[Stored | MarketError]:
        version = self._served.version()
        ingest = self._ingested if version.shards is None else self._shard_ingest.ingest
        results, counters = ingest(version, requests)
        self._note(version, counters)
        stored: list[Stored | MarketError] = []
        for items, outcomes in zip(requests, results, strict=True):
            if isinstance(outcomes, MarketError):
                stored.append(outcomes)
            else:
                symbols = {item.symbol for item in items if not isinstance(item, FinalizeChain)}
                stored.append(Stored(outcomes, max((counters[symbol] for symbol in symbols), default=0)))
        return stored

    def _ingested(self, version: Version, requests: Sequence[Sequence[Item]]) -> Results:
        """Store the items of all requests in one transaction."""
        outcomes, counters = self._store_together(version, [item for items in requests for item in items])
        results: list[Sequence[Outcome] | MarketError] = []
        place = 0
        for items in requests:
            results.append(outcomes[place : place + len(items)])
            place += len(items)
        return results, counters

    def _store_together(self, version: Version, items: Sequence[Item]) -> ticks.Ingested:
        for _ in range(_ATTEMPTS - 1):
            try:
                with self._pool.connection(fresh_seconds=0.0) as connection:
                    return ticks.ingest(connection, version, items)
            except Contended:
                continue  # nothing was stored, so the items can be stored again
        with self._pool.connection(fresh_seconds=0.0) as connection:
            return ticks.ingest(connection, version, items)
