"""The monitor of SYNC: a thread that switches SYNC off when the program has left the published snapshot.

That is when the session is restarted or another one is chosen, when the source changes, and when the target is reset or
runs on. The session tells at once that the target has moved or that the session ends; the rest is checked periodically.
"""

from __future__ import annotations

import logging
import threading
import time
from contextlib import suppress
from typing import Any

from cardapp.card_loader import CardLoader
from cardapp.errors import CardAppError, SessionUnavailable, TooSlow
from cardapp.session_client.checkpoint import Checkpoints
from cardapp.session_client.link import SessionLink
from cardapp.session_client.sync_state import Control
from cardapp.state import publication
from cardapp.state.database import Database
from cardapp.state.publication import Publication

PERIOD_SECONDS = 0.5

_log = logging.getLogger(__name__)


class SyncMonitor:
    """Call ``start`` once; ``stop`` may be called any number of times."""

    def __init__(
        self,
        *,
        card_loader: CardLoader,
        link: SessionLink,
        checkpoints: Checkpoints,
        control: Control,
        database: Database,
    ) -> None:
        self._card_loader = card_loader
        self._link = link
        self._checkpoints = checkpoints
        self._control = control
        self._database = database
        self._logged = ""
        self._stopping = threading.Event()
        self._woken = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="sync-monitor", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        """Check soon: an activation has begun or ended."""
        self._woken.set()

    def stop(self, timeout: float = 5.0) -> None:
        self._stopping.set()
        self.wake()
        if self._thread.is_alive():
            self._thread.join(timeout)

    def check(self) -> str | None:
        """Check once: the reason why SYNC was switched off now, None if it was not."""
        published = self._published()
        if published is None or published.sync != "on":
            return None
        reason = self._difference(published)
        if reason is None or self._checkpoints.active() is not None:
            return None  # a replay moves the program itself, and its end decides
        with self._control.reset_lock, self._database.write() as tx:
            return reason if self._control.switch_off(tx, published.operation_id, reason) else None

    def _published(self) -> Publication | None:
        with self._database.read() as conn:
            return publication.load(conn, self._card_loader.current().identity.uuid)

    def _difference(self, published: Publication) -> str | None:
        if self._card_loader.source_digest() != published.source_sha256:
            return "source_changed"
        try:
            if self._link.choice().socket != published.socket:
                return "session_changed"
            state = self._link.debugger_state()
        except TooSlow:
            # A session that is busy only is checked again.
            return "session_paused" if self._link.is_paused() else None
        except SessionUnavailable:
            return "session_lost"
        except CardAppError as error:
            return error.code
        if state["instance"] != published.instance:
            return "session_restarted"
        if state["stop_id"] != published.stop_id:
            return _moved(state)
        return None

    def _await_move(self) -> None:
        """Wait until the published snapshot may have been left, at most a period."""
        published = self._published()
        if published is None or published.sync != "on" or self._checkpoints.active() is not None:
            return
        with suppress(CardAppError):  # the check that follows finds out what has happened to the session
            self._link.await_move(published.stop_id, PERIOD_SECONDS, self._stopping)

    def _loop(self) -> None:
        while not self._stopping.is_set():
            begun = time.monotonic()
            try:
                self._await_move()
                self.check()
                self._logged = ""
            except CardAppError as error:
                if error.detail != self._logged:  # the same error may come back twice a second
                    _log.warning("SYNC cannot be checked: %s", error.detail)
                self._logged = error.detail
            except Exception:
                # The thread must go on, or SYNC would stay on forever.
                _log.exception("internal error in the monitor of SYNC")
            self._woken.wait(max(0.0, PERIOD_SECONDS - (time.monotonic() - begun)))
            self._woken.clear()


def _moved(state: dict[str, Any]) -> str:
    """The reason why the program is not at the published stop any more."""
    if not state["alive"]:
        return "debugger_lost"
    return "target_reset" if state["state"] == "none" else "target_ran_on"
