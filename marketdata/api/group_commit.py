"""Group commit: several requests share a transaction.

Each commit costs a disk flush, and current ticks all update the same few candles, so concurrent writers of single ticks
would wait for each other. One thread takes all queued items, stores them in one transaction, and wakes the requests
after the commit.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Generic, TypeVar

from marketdata.errors import DatabaseDefect, DatabaseUnavailable, InvalidValue, MarketError, Saturated

MAX_SHARED_ITEMS = 256
"""Maximum number of items that a request may have to share a transaction with others. In a distributed version this
holds for its items in each shard."""

MAX_QUEUED_ITEMS = 4096
"""Maximum number of queued items. At the slowest rate measured, they are less than a second of work."""

MAX_TRANSACTION_ITEMS = 1024
"""Maximum number of items in a shared transaction. In a larger one, the first requests would wait longer for the
commit."""

GATHER_SECONDS = 0.003
"""Longest time that a transaction waits for further requests. Most of its cost does not depend on its ticks."""

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")


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

    def wait(self) -> ResultT:
        """The result, after the commit. Call this once."""
        self.done.acquire()
        if self.error is not None:
            raise self.error
        return self.result


class GroupCommit(Generic[ItemT, ResultT]):
    """Stores the items of several requests in one transaction. ``apply`` stores the items of these requests in one
    transaction and returns a result or an error for each request, in the same order."""

    def __init__(
        self,
        apply: Callable[[Sequence[Sequence[ItemT]]], Sequence[ResultT | MarketError]],
        *,
        capacity: int = MAX_QUEUED_ITEMS,
        largest: int = MAX_TRANSACTION_ITEMS,
        gather_seconds: float = GATHER_SECONDS,
    ) -> None:
        self._apply = apply
        self._capacity = capacity
        self._largest = largest
        self._gather_seconds = gather_seconds
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
        return self.begin(items)()

    def begin(self, items: Sequence[ItemT]) -> Callable[[], ResultT]:
        """Queue ``items``. Returns a function that waits for their commit, to be called once. Raises like
        :meth:`submit`."""
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
        return submission.wait

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
        until = monotonic() + self._gather_seconds
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
