"""A thread pool with one queue, and one more thread for urgent tasks."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import Protocol

_log = logging.getLogger(__name__)


class Task(Protocol):
    """A worker calls ``service``. If the task is dropped from the queue, ``cancel`` is called instead. An urgent task
    does not block; it is run before all others."""

    @property
    def is_urgent(self) -> bool: ...

    def service(self) -> None: ...

    def cancel(self) -> None: ...


class Workers:
    """The constructor starts the threads; ``end`` stops them and may be called repeatedly."""

    def __init__(self, count: int, name: str = "api") -> None:
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._ended = threading.Condition(self._lock)
        self._queue: deque[Task] = deque()
        self._urgent: deque[Task] = deque()
        self._urgent_added = threading.Condition(self._lock)
        self._running = count + 1
        self._idle = 0
        self._is_ending = False
        for number in range(count):
            threading.Thread(target=self._run, args=(self._next,), name=f"{name}-{number}", daemon=True).start()
        self._reserved = threading.Thread(
            target=self._run, args=(self._next_urgent,), name=f"{name}-urgent", daemon=True
        )
        self._reserved.start()

    @property
    def has_pending(self) -> bool:
        """Whether a task is queued or the threads should end."""
        return bool(self._queue) or bool(self._urgent) or self._is_ending

    @property
    def has_idle(self) -> bool:
        """Whether a thread waits for a task."""
        return self._idle > 0

    @property
    def backlog(self) -> int:
        """The number of queued tasks."""
        return len(self._queue)

    def is_reserved_thread(self) -> bool:
        """Whether this is the thread for urgent tasks, which must not take anything else."""
        return threading.get_ident() == self._reserved.ident

    def add_task(self, task: Task) -> None:
        with self._lock:
            if not task.is_urgent:
                self._queue.append(task)
                self._changed.notify()
                return
            self._urgent.append(task)
            # Both: a thread that was idle may have been woken for another task already.
            self._changed.notify()
            self._urgent_added.notify()

    def end(self, timeout: float) -> None:
        """Wait up to ``timeout`` seconds for running tasks; cancel the queued ones."""
        deadline = monotonic() + timeout
        with self._lock:
            self._is_ending = True
            self._changed.notify_all()
            self._urgent_added.notify_all()
            while self._running and (left := deadline - monotonic()) > 0:
                self._ended.wait(left)
            for queue in (self._urgent, self._queue):
                while queue:
                    queue.popleft().cancel()

    def _run(self, next_task: Callable[[], Task | None]) -> None:
        while (task := next_task()) is not None:
            try:
                task.service()
            except BaseException:  # an error of one task must not end the thread
                _log.exception("internal error in a worker")

    def _next(self) -> Task | None:
        with self._lock:
            while not self._queue and not self._urgent and not self._is_ending:
                self._idle += 1
                self._changed.wait()
                self._idle -= 1
            return self._taken(self._urgent or self._queue)

    def _next_urgent(self) -> Task | None:
        with self._lock:
            while not self._urgent and not self._is_ending:
                self._urgent_added.wait()
            return self._taken(self._urgent)

    def _taken(self, queue: deque[Task]) -> Task | None:
        if self._is_ending:
            self._running -= 1
            self._ended.notify()
            return None
        return queue.popleft()
