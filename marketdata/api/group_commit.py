"""Group commit: small ingests of many requests in one transaction.

Each commit costs a disk flush, and current ticks all update the same few candles, so concurrent writers of single ticks
would wait for each other. One thread takes all queued items, stores them in one transaction, and wakes the requests
after the commit. The queue is bounded: beyond its capacity requests get :class:`Saturated`.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from marketdata.errors import DatabaseDefect, DatabaseUnavailable, InvalidValue, Saturated

_log = logging.getLogger(__name__)

CAPACITY = 4096
"""Maximum items in the queue; less than a second of work at the slowest rate measured."""

LARGEST = 1024
"""Maximum items of a transaction; more would delay the first of them."""

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")


class _Submission(Generic[Item, Outcome]):
    """The items of a request. ``done`` is held until ``outcomes`` or ``error`` is set: a lock is the fastest event."""

    __slots__ = ("done", "error", "items", "outcomes")

    def __init__(self, items: Sequence[Item]) -> None:
        self.items = items
        self.outcomes: Sequence[Outcome] = ()
        self.error: Exception | None = None
        self.done = threading.Lock()
        self.done.acquire()


class GroupCommit(Generic[Item, Outcome]):
    """``apply`` stores items in one transaction and returns their outcomes in the same order."""

    def __init__(
        self,
        apply: Callable[[Sequence[Item]], Sequence[Outcome]],
        *,
        capacity: int = CAPACITY,
        largest: int = LARGEST,
    ) -> None:
        self._apply = apply
        self._capacity = capacity
        self._largest = largest
        self._queue: deque[_Submission[Item, Outcome]] = deque()
        self._queued = 0
        self._changed = threading.Condition()
        self._stopping = False
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

    def submit(self, items: Sequence[Item]) -> Sequence[Outcome]:
        """Store ``items`` and return after their commit; :class:`Saturated` when the queue is full."""
        submission: _Submission[Item, Outcome] = _Submission(items)
        with self._changed:
            if self._stopping or self._thread is None:
                raise DatabaseUnavailable("the service is stopping; the request was not stored")
            if self._queued + len(items) > self._capacity:
                raise Saturated("too many ticks are queued; send the request again later, or send batches")
            self._queue.append(submission)
            self._queued += len(items)
            self._changed.notify()
        submission.done.acquire()
        if submission.error is not None:
            raise submission.error
        return submission.outcomes

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._queue and not self._stopping:
                    self._changed.wait()
                if not self._queue:
                    return
                group = self._take()
            self._store(group)

    def _take(self) -> list[_Submission[Item, Outcome]]:
        """The oldest submissions that fit into one transaction, at least one."""
        group = [self._queue.popleft()]
        size = len(group[0].items)
        while self._queue and size + len(self._queue[0].items) <= self._largest:
            size += len(self._queue[0].items)
            group.append(self._queue.popleft())
        self._queued -= size
        return group

    def _store(self, group: list[_Submission[Item, Outcome]]) -> None:
        try:
            outcomes = self._apply([item for submission in group for item in submission.items])
            place = 0
            for submission in group:
                submission.outcomes = outcomes[place : place + len(submission.items)]
                place += len(submission.items)
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
