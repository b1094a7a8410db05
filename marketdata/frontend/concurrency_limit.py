"""Limits how many requests do one kind of work at a time, so that workers stay free for other requests."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from marketdata.frontend.problems import Busy


class ConcurrencyLimit:
    """At most ``running`` requests work, and at most ``waiting`` wait, each for at most ``seconds``."""

    def __init__(self, running: int, waiting: int, seconds: float) -> None:
        self._entered = threading.Semaphore(running + waiting)
        self._running = threading.Semaphore(running)
        self._seconds = seconds

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Hold a place in the queue while the block runs. Raises :class:`Busy` if the queue is full."""
        if not self._entered.acquire(blocking=False):
            raise _busy()
        try:
            yield
        finally:
            self._entered.release()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Wait until the request may work, and count it as working while the block runs. Call this within ``entered``.
        Raises :class:`Busy` after ``seconds``."""
        if not self._running.acquire(timeout=self._seconds):
            raise _busy()
        try:
            yield
        finally:
            self._running.release()


def _busy() -> Busy:
    return Busy("too many requests are waiting: send the request again a little later")
