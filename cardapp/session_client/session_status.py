"""The chosen session's status: whether it answers, its card, and the differences of its copy of the sources."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from cardapp.card.model import Identity
from cardapp.card_loader import CardLoader
from cardapp.errors import CardAppError, SessionUnavailable
from cardapp.session_client.link import SessionLink, Target
from cardapp.session_client.session_sources import Change, SessionSources
from cardapp.session_client.session_tools import Binding, BindingResult, card_difference, card_of

MAX_AGE_SECONDS = 0.5
"""The maximum age of a cached status of the session."""
LOOK_SECONDS = 0.2
"""The time after which a new choice is noticed."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Reading:
    """What a session answered. ``result`` is None if it did not answer; ``reason`` says why.

    ``target`` and ``served`` are the session and the card that the service served then. ``changes`` are the changes in
    the session's copy of the sources.
    """

    target: Target
    served: Identity
    result: BindingResult | None
    reason: str | None
    changes: list[Change] | None
    at: float

    def card(self) -> dict[str, Any] | None:
        """The session's card with its title."""
        if self.result is None:
            return None
        return card_of(self.result).as_json() | {"title": self.result["card"]["title"]}

    def mismatch(self) -> dict[str, str] | None:
        """``{code, detail}`` if the session's card is not the served one, or is another revision of it."""
        name = self.target[0].name
        detail = card_difference(name, self.result, self.served) if self.result is not None else None
        if self.result is None or detail is None:
            return None
        is_other = self.result["card"]["uuid"] != self.served.uuid
        return {"code": "other_card" if is_other else "other_revision", "detail": detail}


class SessionStatus:
    """The session's status for ``GET /api/session``, ``GET /api/state`` and the control state.

    The last answer of the session is kept. :meth:`brief` calls the session again when another session is chosen or
    another card served, or when the answer is older than ``max_age`` seconds.
    """

    def __init__(
        self,
        link: SessionLink,
        card_loader: CardLoader,
        sources: SessionSources,
        monotonic: Callable[[], float] = time.monotonic,
        max_age: float = MAX_AGE_SECONDS,
    ) -> None:
        self._link = link
        self._card_loader = card_loader
        self._sources = sources
        self._monotonic = monotonic
        self._max_age = max_age
        self._lock = threading.Lock()
        self._last: Reading | None = None

    def describe(self) -> dict[str, Any]:
        """The body of ``GET /api/session``."""
        target, served = self._subject()
        found = self._link.binding()
        reading = self._answered(target, served, found)
        return {
            "name": target[0].name,
            "binding": Binding.of(found).as_json(),
            "runtime": found["runtime"],
            "mcp_socket": target[0].socket,
            "card": reading.card(),
            "mismatch": reading.mismatch(),
            "changes": reading.changes,
        }

    def brief(self) -> dict[str, Any]:
        """``{available, name, binding, reason, card, mismatch, changes}``; never raises."""
        try:
            reading = self.read()
        except SessionUnavailable as error:
            nothing = dict.fromkeys(("name", "binding", "card", "mismatch", "changes"))
            return {"available": False, "reason": error.detail, **nothing}
        found = reading.result
        return {
            "available": found is not None,
            "name": reading.target[0].name,
            "binding": Binding.of(found).as_json() if found is not None else None,
            "reason": reading.reason,
            "card": reading.card(),
            "mismatch": reading.mismatch(),
            "changes": reading.changes,
        }

    def restore(self) -> list[dict[str, Any]]:
        """Restore the session's copy of the sources; see :meth:`SessionSources.restore`."""
        restored = self._sources.restore()
        with self._lock:
            self._last = self._last and replace(self._last, at=-math.inf)
        return restored

    def known(self) -> dict[str, Any]:
        """``{name, card, mismatch}`` without a call to the session. ``card`` is None until it has answered."""
        try:
            subject = self._subject()
        except SessionUnavailable:
            return {"name": None, "card": None, "mismatch": None}
        last = self._last
        if last is None or (last.target, last.served) != subject:
            return {"name": subject[0][0].name, "card": None, "mismatch": None}
        card = last.card()
        shown = card and {member: card[member] for member in ("id", "uuid", "title")}
        return {"name": subject[0][0].name, "card": shown, "mismatch": last.mismatch()}

    def read(self) -> Reading:
        """The session's answer, at most ``max_age`` seconds old. Raises :class:`SessionUnavailable` if no session is
        chosen."""
        subject = self._subject()
        last = self._last
        old = last if last is not None and (last.target, last.served) == subject else None
        if old is not None and self._monotonic() - old.at <= self._max_age:
            return old
        # One thread calls the session. The others use the old answer, and wait only if there is none.
        if not self._lock.acquire(blocking=old is None):
            assert old is not None
            return old
        try:
            if self._last is last:
                self._last = self._asked(*subject)
            assert self._last is not None
            return self._last
        finally:
            self._lock.release()

    def _subject(self) -> tuple[Target, Identity]:
        return self._link.target(), self._card_loader.current().identity

    def _asked(self, target: Target, served: Identity) -> Reading:
        try:
            found = self._link.binding(seconds=MAX_AGE_SECONDS)
        except CardAppError as error:
            return Reading(target, served, None, error.detail, None, self._monotonic())
        return self._answered(target, served, found)

    def _answered(self, target: Target, served: Identity, found: BindingResult) -> Reading:
        changes = self._sources.changes(found["card"]["uuid"])
        return Reading(target, served, found, None, changes, self._monotonic())


class SessionWatch:
    """Calls a newly chosen session at once, so that the control state says which card it has, and ``on_change`` then.

    Call ``start`` once; ``stop`` may be called repeatedly.
    """

    def __init__(self, status: SessionStatus, on_change: Callable[[], None]) -> None:
        self._status = status
        self._on_change = on_change
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="session-watch", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout: float = 5.0) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(timeout)

    def _loop(self) -> None:
        shown: dict[str, Any] = {}
        while not self._stopping.is_set():
            try:
                shown = self._look(shown)
            except Exception:
                # The thread must continue; otherwise no other choice would be noticed.
                _log.exception("internal error in the watch of the chosen session")
            self._stopping.wait(LOOK_SECONDS)

    def _look(self, shown: dict[str, Any]) -> dict[str, Any]:
        """Compare the status with ``shown``, the last one. Returns the status."""
        known = self._status.known()
        if known["name"] is not None and known["card"] is None:
            with suppress(SessionUnavailable):  # the choice was just removed
                self._status.read()
            known = self._status.known()
        if known != shown:
            self._on_change()
        return known
