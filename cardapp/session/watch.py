"""The watch over SYNC: a thread that notices when program and page no longer stand together.

SYNC goes off when the session restarts or changes, the source changes, or the target is reset or seen to have run on.
The watch also keeps what the last look told of the session, so that the composite state need not ask it each time.
"""

from __future__ import annotations

import logging
import threading
from typing import Any

from cardapp.errors import CardAppError, SessionUnavailable, TooSlow
from cardapp.session.checkpoint import Checkpoints
from cardapp.session.choice import mark
from cardapp.session.control import Control
from cardapp.session.link import SessionLink, binding_of
from cardapp.shelf import Shelf
from cardapp.state import publication
from cardapp.state.database import Database
from cardapp.state.publication import Publication

PERIOD_SECONDS = 0.5

_log = logging.getLogger(__name__)


class SyncWatch:
    """Owned by the service: ``start`` once, ``stop`` any number of times."""

    def __init__(
        self, *, shelf: Shelf, link: SessionLink, checkpoints: Checkpoints, control: Control, database: Database
    ) -> None:
        self._shelf = shelf
        self._link = link
        self._checkpoints = checkpoints
        self._control = control
        self._database = database
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="sync-watch", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout: float = 5.0) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(timeout)

    def look(self) -> str | None:
        """Look once: the reason why SYNC was switched off now, or None when nothing changed."""
        published = self._published()
        if published is None or published.sync != "on":
            return None
        reason = self._difference(published)
        if reason is None or self._checkpoints.active() is not None:
            return None  # a replay under way moves the target itself; its ending decides
        with self._database.write() as tx:
            return reason if self._control.switch_off(tx, published.operation_id, reason) else None

    def _published(self) -> Publication | None:
        with self._database.read() as conn:
            return publication.load(conn, self._shelf.current().identity.uuid)

    def _difference(self, published: Publication) -> str | None:
        if self._shelf.source_digest() != published.source_sha256:
            return "source_changed"
        try:
            if self._link.choice().socket != published.socket:
                return "session_changed"
            told = self._link.debugger_state()
        except TooSlow:
            return None  # a busy session is no changed one; the next look decides
        except SessionUnavailable:
            return "session_lost"
        except CardAppError as error:
            return error.code
        if told["instance"] != published.instance:
            return "session_restarted"
        if told["stop_id"] != published.stop_id:
            return "target_ran_on" if told["alive"] else "debugger_lost"
        return None

    def _loop(self) -> None:
        while not self._stopping.is_set():
            try:
                self.look()
            except Exception:
                # The watch must outlive any surprise, or SYNC would stay on for ever.
                _log.exception("the watch over SYNC met a surprise")
            self._stopping.wait(PERIOD_SECONDS)


class SessionView:
    """What ``GET /api/state`` shows of the session: asked again only when the choice or the socket changed, or when
    the last answer is older than ``max_age`` seconds."""

    def __init__(self, link: SessionLink, monotonic: Any, max_age: float = PERIOD_SECONDS) -> None:
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
        sign = (choice, mark(choice.socket))
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
            binding = binding_of(self._link.binding(seconds=PERIOD_SECONDS))
        except CardAppError as error:
            return {"available": False, "name": name, "binding": None, "reason": error.detail}
        return {"available": True, "name": name, "binding": binding, "reason": None}
