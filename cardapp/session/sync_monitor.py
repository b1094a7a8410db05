"""The watch over SYNC: a thread that notices when program and page no longer stand together.

SYNC goes off when the session restarts or changes, the source changes, or the target is reset or seen to have run on.
"""

from __future__ import annotations

import logging
import threading

from cardapp.card_loader import CardLoader
from cardapp.errors import CardAppError, SessionUnavailable, TooSlow
from cardapp.session.checkpoint import Checkpoints
from cardapp.session.control import Control
from cardapp.session.link import SessionLink
from cardapp.state import publication
from cardapp.state.database import Database
from cardapp.state.publication import Publication

PERIOD_SECONDS = 0.5

_log = logging.getLogger(__name__)


class SyncMonitor:
    """Owned by the service: ``start`` once, ``stop`` any number of times."""

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
        self._told = ""
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="sync-monitor", daemon=True)

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
            return publication.load(conn, self._card_loader.current().identity.uuid)

    def _difference(self, published: Publication) -> str | None:
        if self._card_loader.source_digest() != published.source_sha256:
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
                self._told = ""
            except CardAppError as error:
                if error.detail != self._told:  # a full disk would fill the log as well, twice a second
                    _log.warning("the watch over SYNC cannot look: %s", error.detail)
                self._told = error.detail
            except Exception:
                # The watch must outlive any surprise, or SYNC would stay on for ever.
                _log.exception("the watch over SYNC met a surprise")
            self._stopping.wait(PERIOD_SECONDS)
