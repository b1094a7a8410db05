"""The chosen session as a page sees it, kept for a moment so that the composite state need not ask it each time."""

from __future__ import annotations

import threading
from typing import Any

from cardapp.errors import CardAppError
from cardapp.session.link import SessionLink, binding_of
from cardapp.unix_socket import identity

FRESH_SECONDS = 0.5


class SessionStatus:
    """What ``GET /api/state`` shows of the session: asked again only when the choice or the socket changed, or when
    the last answer is older than ``max_age`` seconds."""

    def __init__(self, link: SessionLink, monotonic: Any, max_age: float = FRESH_SECONDS) -> None:
        self._link = link
        self._monotonic = monotonic
        self._max_age = max_age
        self._lock = threading.Lock()
        self._seen: tuple[Any, float, dict[str, Any]] | None = None

    def describe(self) -> dict[str, Any]:
        return self._link.describe()

    def brief(self) -> dict[str, Any]:
        """``{available, name, binding, reason}``; never raises."""
        try:
            choice = self._link.choice()
        except CardAppError as error:
            return {"available": False, "name": None, "binding": None, "reason": error.detail}
        sign = (choice, identity(choice.socket))
        seen = self._seen
        old = seen if seen is not None and seen[0] == sign else None
        if old is not None and self._monotonic() - old[1] <= self._max_age:
            return old[2]
        # One asks. The others are answered by what was seen last, and wait only where nothing was seen yet.
        if not self._lock.acquire(blocking=old is None):
            assert old is not None
            return old[2]
        try:
            if self._seen is seen:
                told = self._ask(choice.name)
                self._seen = (sign, self._monotonic(), told)
            assert self._seen is not None
            return self._seen[2]
        finally:
            self._lock.release()

    def _ask(self, name: str) -> dict[str, Any]:
        try:
            binding = binding_of(self._link.binding(seconds=FRESH_SECONDS))
        except CardAppError as error:
            return {"available": False, "name": name, "binding": None, "reason": error.detail}
        return {"available": True, "name": name, "binding": binding, "reason": None}
