"""A bound on how many requests do one kind of work, so that workers are left for all others."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from marketdata.frontend.failures import Busy


class Slots:
    """At most ``running`` hold a slot and at most ``waiting`` wait for one, each for at most ``seconds``."""

    def __init__(self, running: int, waiting: int, seconds: float) -> None:
        self._entered = threading.Semaphore(running + waiting)
        self._running = threading.Semaphore(running)
        self._seconds = seconds

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Be among those who run or wait; :class:`Busy` when there are too many."""
        if not self._entered.acquire(blocking=False):
            raise _busy()
        try:
            yield
        finally:
            self._entered.release()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Inside of ``entered``: hold a slot; :class:`Busy` when none became free in time."""
        if not self._running.acquire(timeout=self._seconds):
            raise _busy()
        try:
            yield
        finally:
            self._running.release()


def _busy() -> Busy:
    return Busy("too many requests are waiting: send the request again a little later")
