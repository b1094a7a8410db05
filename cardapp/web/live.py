"""Gives the control state to any number of subscribers whenever it changes (``/api/live``).

One thread computes the state after each change and stores it in every subscription. A subscription keeps only the
newest state, so a slow client skips states and no queue can grow. Commits of the database and stages of a replay wake
the thread. A change of the card's files does not wake the thread, so it also computes the state every ``LOOK_SECONDS``.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from cardapp.errors import CardAppError

LOOK_SECONDS = 1.0

_log = logging.getLogger(__name__)


class Subscription:
    """Keeps the newest state until the subscriber takes it."""

    def __init__(self, state: dict[str, Any]) -> None:
        self._changed = threading.Condition()
        self._newest: dict[str, Any] | None = state
        self._last = state

    def put(self, state: dict[str, Any]) -> None:
        """Store ``state`` for the subscriber, unless it equals the state that was stored last."""
        with self._changed:
            if state != self._last:
                self._newest = self._last = state
                self._changed.notify()

    def take(self, timeout: float) -> dict[str, Any] | None:
        """The newest state, or None if no new state came within ``timeout`` seconds."""
        with self._changed:
            if self._newest is None:
                self._changed.wait(timeout)
            state, self._newest = self._newest, None
            return state


class LiveFeed:
    """Gives every subscription the result of ``state`` after each change.

    Call ``start`` once, ``stop`` any number of times, ``wake`` from any thread.
    """

    def __init__(self, state: Callable[[], dict[str, Any]]) -> None:
        self._state = state
        self._wake = threading.Event()
        self._stopping = False
        self._lock = threading.Lock()  # held while a state is computed, so that subscriptions get states in order
        self._subscriptions: set[Subscription] = set()
        self._thread = threading.Thread(target=self._loop, name="live-feed", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout: float = 5.0) -> None:
        self._stopping = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(timeout)

    def wake(self) -> None:
        """Make the thread compute the state again, because the state may have changed."""
        self._wake.set()

    @contextmanager
    def subscribe(self) -> Iterator[Subscription]:
        """A context manager that gives a subscription. Its first state is the current state."""
        with self._lock:
            subscription = Subscription(self._state())
            self._subscriptions.add(subscription)
        try:
            yield subscription
        finally:
            with self._lock:
                self._subscriptions.discard(subscription)

    def _loop(self) -> None:
        while not self._stopping:
            self._wake.wait(LOOK_SECONDS)
            self._wake.clear()
            with self._lock:
                if self._subscriptions and not self._stopping:
                    self._feed()

    def _feed(self) -> None:
        try:
            state = self._state()
        except CardAppError as error:
            _log.warning("the live state cannot be read: %s", error.detail)
            return
        except Exception:
            # The thread must continue; otherwise no client would get another state.
            _log.exception("internal error in the live state")
            return
        for subscription in self._subscriptions:
            subscription.put(state)
