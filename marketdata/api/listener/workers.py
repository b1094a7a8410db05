"""A thread pool with one queue."""

from __future__ import annotations

import logging
import threading
from collections import deque
from time import monotonic
from typing import Protocol

_log = logging.getLogger(__name__)


class Task(Protocol):
    """A worker calls ``service``. If the task is dropped from the queue, ``cancel`` is called instead."""

    def service(self) -> None: ...

    def cancel(self) -> None: ...


class Workers:
    """The constructor starts the threads; ``end`` stops them and may be called repeatedly."""

    def __init__(self, count: int, name: str = "api") -> None:
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._ended = threading.Condition(self._lock)
        self._queue: deque[Task] = deque()
        self._running = count
        self._idle = 0
        self._is_ending = False
        for number in range(count):
            threading.Thread(target=self._run, name=f"{name}-{number}", daemon=True).start()

    @property
    def has_pending(self) -> bool:
        """Whether a task is queued or the threads should end."""
        return bool(self._queue) or self._is_ending

    @property
    def has_idle(self) -> bool:
        """Whether a thread waits for a task."""
        return self._idle > 0

    @property
    def backlog(self) -> int:
        """The number of queued tasks."""
        return len(self._queue)

    def add_task(self, task: Task) -> None:
        with self._lock:
            self._queue.append(task)
            self._changed.notify()

    def end(self, timeout: float) -> None:
        """Wait up to ``timeout`` seconds for running tasks; cancel the queued ones."""
        deadline = monotonic() + timeout
        with self._lock:
            self._is_ending = True
            self._changed.notify_all()
            while self._running and (left := deadline - monotonic()) > 0:
                self._ended.wait(left)
            while self._queue:
                self._queue.popleft().cancel()

    def _run(self) -> None:
        while (task := self._next()) is not None:
            try:
                task.service()
            except BaseException:  # an error of one task must not end the thread
                _log.exception("internal error in a worker")

    def _next(self) -> Task | None:
        with self._lock:
            while not self._queue and not self._is_ending:
                self._idle += 1
                self._changed.wait()
                self._idle -= 1
            if self._is_ending:
                self._running -= 1
                self._ended.notify()
                return None
            return self._queue.popleft()
