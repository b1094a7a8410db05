"""A fixed number of threads that take their work from one queue."""

from __future__ import annotations

import logging
import threading
from collections import deque
from time import monotonic
from typing import Protocol

_log = logging.getLogger(__name__)


class Task(Protocol):
    """``service`` does the work, ``cancel`` is called of work that is dropped."""

    def service(self) -> None: ...

    def cancel(self) -> None: ...


class Workers:
    """Started when made; ``end`` any number of times."""

    def __init__(self, count: int) -> None:
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._ended = threading.Condition(self._lock)
        self._queue: deque[Task] = deque()
        self._running = count
        self._idle = 0
        self._is_ending = False
        for number in range(count):
            threading.Thread(target=self._run, name=f"api-{number}", daemon=True).start()

    @property
    def is_wanted(self) -> bool:
        """Whether work is queued, or the threads are to end."""
        return bool(self._queue) or self._is_ending

    @property
    def has_idle(self) -> bool:
        """Whether a thread waits for work."""
        return self._idle > 0

    @property
    def backlog(self) -> int:
        """How much work is queued."""
        return len(self._queue)

    def add_task(self, task: Task) -> None:
        with self._lock:
            self._queue.append(task)
            self._changed.notify()

    def end(self, timeout: float) -> None:
        """Let the threads finish what they do for at most ``timeout`` seconds, and drop what is queued."""
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
            except BaseException:  # the thread is needed for the next task
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
