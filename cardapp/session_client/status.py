"""The status of the chosen session, cached for a moment, so that ``GET /api/state`` need not call the session."""

from __future__ import annotations

import threading
from typing import Any

from cardapp.errors import CardAppError
from cardapp.session_client.link import SessionLink, binding_of
from cardapp.unix_socket import identity

MAX_AGE_SECONDS = 0.5


class SessionStatus:
    """What ``GET /api/state`` shows of the session.

    The session is called again when the choice or the socket has changed, or when the cached status is older than
    ``max_age`` seconds.
    """

    def __init__(self, link: SessionLink, monotonic: Any, max_age: float = MAX_AGE_SECONDS) -> None:
        self._link = link
        self._monotonic = monotonic
        self._max_age = max_age
        self._lock = threading.Lock()
        self._cached: tuple[Any, float, dict[str, Any]] | None = None

    def describe(self) -> dict[str, Any]:
        return self._link.describe()

    def brief(self) -> dict[str, Any]:
        """``{available, name, binding, reason}``; never raises."""
        try:
            choice = self._link.choice()
        except CardAppError as error:
            return {"available": False, "name": None, "binding": None, "reason": error.detail}
        target = (choice, identity(choice.socket))
        cached = self._cached
        old = cached if cached is not None and cached[0] == target else None
        if old is not None and self._monotonic() - old[1] <= self._max_age:
            return old[2]
        # One thread calls the session. The others use the old status, and wait only if there is none.
        if not self._lock.acquire(blocking=old is None):
            assert old is not None
            return old[2]
        try:
            if self._cached is cached:
                fresh = self._read(choice.name)
                self._cached = (target, self._monotonic(), fresh)
            assert self._cached is not None
            return self._cached[2]
        finally:
            self._lock.release()

    def _read(self, name: str) -> dict[str, Any]:
        try:
            binding = binding_of(self._link.binding(seconds=MAX_AGE_SECONDS))
        except CardAppError as error:
            return {"available": False, "name": name, "binding": None, "reason": error.detail}
        return {"available": True, "name": name, "binding": binding, "reason": None}
