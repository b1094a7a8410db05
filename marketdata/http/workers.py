"""A thread pool that keeps one thread free for urgent tasks."""

from __future__ import annotations

import logging
import threading
from collections import deque
from time import monotonic
from typing import Protocol

_log = logging.getLogger(__name__)


class Task(Protocol):
    """A thread calls ``service``. ``is_reserved`` says whether it is the thread that is kept for urgent tasks. If the
    pool ends before the task has started, ``close`` is called instead."""

    def service(self, *, is_reserved: bool) -> None: ...

    def close(self) -> None: ...


class Workers:
    """The constructor starts the threads; ``end`` stops them and may be called repeatedly."""

    def __init__(self, count: int, name: str) -> None:
        """At most ``count`` tasks run at the same time, and one urgent task beside them."""
        lock = threading.Lock()
        self._changed, self._ended = threading.Condition(lock), threading.Condition(lock)
        self._queue: deque[Task] = deque()
        self._urgent: deque[Task] = deque()
        self._free = count
        self._running = count + 1
        self._is_ending = False
        for number in range(count + 1):
            threading.Thread(target=self._run, name=f"{name}-{number}", daemon=True).start()

    @property
    def backlog(self) -> int:
        """The number of queued tasks."""
        return len(self._queue)

    @property
    def can_wait(self) -> bool:
        """Whether a thread may wait for a client: nothing is queued, and other threads are free."""
        return self._free > 0 and not (self._queue or self._urgent or self._is_ending)

    def add(self, task: Task, *, is_urgent: bool = False) -> None:
        """Queue ``task``. With ``is_urgent`` it runs before all others and must not block."""
        with self._changed:
            (self._urgent if is_urgent else self._queue).append(task)
            self._changed.notify()

    def end(self, timeout: float) -> None:
        """Wait up to ``timeout`` seconds for running tasks; close the queued ones."""
        deadline = monotonic() + timeout
        with self._changed:
            self._is_ending = True
            self._changed.notify_all()
            while self._running and (left := deadline - monotonic()) > 0:
                self._ended.wait(left)
            dropped = [*self._urgent, *self._queue]
            self._urgent.clear()
            self._queue.clear()
        for task in dropped:
            task.close()

    def _run(self) -> None:
        while (taken := self._next()) is not None:
            task, is_reserved = taken
            try:
                task.service(is_reserved=is_reserved)
            except BaseException:  # an error of one task must not end the thread
                _log.exception("internal error in a worker")
            with self._changed:
                self._free += not is_reserved

    def _next(self) -> tuple[Task, bool] | None:
        with self._changed:
            while not self._is_ending:
                if self._free and (queue := self._urgent or self._queue):
                    self._free -= 1
                    return queue.popleft(), False
                if self._urgent:
                    return self._urgent.popleft(), True
                self._changed.wait()
            self._running -= 1
            self._ended.notify()
            return None
