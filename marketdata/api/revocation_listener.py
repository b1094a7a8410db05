"""Receives the database's notifications of changed candles and revoked tokens, and records which tokens were used.

A thread with its own connection receives a notification when its transaction commits. Notifications are lost while the
connection is down. So after every new connection the token cache is emptied, and live connections get a message that
they may have missed changes.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import closing
from time import monotonic

from marketdata.api.auth import Authenticator
from marketdata.api.live.server import Live
from marketdata.errors import MarketError
from marketdata.store import tokens
from marketdata.store.notifications import Notifications
from marketdata.store.pool import Connection, connect

_log = logging.getLogger(__name__)

REFRESH_SECONDS = 5.0
RECORD_SECONDS = 60.0
_RETRY_SECONDS = 1.0
_UNWATCHED_SECONDS = 0.05
"""While nobody watches, changes are received at most once in this time. Else the thread would wake with each commit."""


class RevocationListener:
    """Receives the notifications in a thread. Call ``start`` once; ``stop`` may be called repeatedly. The thread also
    calls ``refresh`` with its connection every ``REFRESH_SECONDS``."""

    def __init__(
        self, conninfo: str, authenticator: Authenticator, live: Live, refresh: Callable[[Connection], None]
    ) -> None:
        self._conninfo = conninfo
        self._authenticator = authenticator
        self._live = live
        self._refresh = refresh
        self._stopping = threading.Event()
        self._notifications: Notifications | None = None
        self._thread: threading.Thread | None = None
        self.is_receiving = False
        """Whether the connection is up, so that notifications are received."""

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="api-revocations", daemon=True)
        self._thread.start()

    def stop(self, timeout: float = 5.0) -> None:
        self._stopping.set()
        notifications = self._notifications
        if notifications is not None:
            notifications.wake()
        if self._thread is not None:
            self._thread.join(timeout)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                with connect(self._conninfo, application_name="marketdata-api-revocations") as connection:
                    self._listen(connection)
            except (MarketError, OSError) as error:
                if self.is_receiving:
                    _log.warning("no changes are received from the database: %s", error)
            except Exception:
                _log.exception("internal error while receiving changes from the database")
            self.is_receiving = False
            self._notifications = None
            self._stopping.wait(_RETRY_SECONDS)

    def _listen(self, connection: Connection) -> None:
        with closing(Notifications(connection)) as notifications:
            self._notifications = notifications
            self._authenticator.forget()
            self._live.resync()
            refresh_at, record_at = monotonic(), monotonic() + RECORD_SECONDS
            while not self._stopping.is_set():
                if monotonic() >= refresh_at:
                    self._refresh(connection)
                    refresh_at = monotonic() + REFRESH_SECONDS
                if not self.is_receiving:
                    _log.info("changes are received from the database")
                    self.is_receiving = True
                revoked, changes = notifications.wait(max(refresh_at - monotonic(), 0.0))
                self._live.changed(changes)
                if changes and not self._live.connections:
                    self._stopping.wait(_UNWATCHED_SECONDS)
                for identity in revoked:
                    self._authenticator.forget(identity)
                    self._live.revoked(identity)
                if monotonic() >= record_at or self._stopping.is_set():
                    tokens.touch(connection, self._authenticator.take_used())
                    record_at = monotonic() + RECORD_SECONDS
