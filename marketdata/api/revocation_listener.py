"""Receives the database's notifications of changed candles and revoked tokens, and records which tokens were used.

A thread with its own connection receives a notification when its transaction commits. After every new connection the
token cache is emptied, and live connections get a message that they may have missed changes.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

from marketdata.api.auth import Authenticator
from marketdata.api.database_listener import DatabaseListener
from marketdata.api.live.server import Live
from marketdata.store import tokens
from marketdata.store.notifications import CHANGED, Notifications
from marketdata.store.pool import Connection

REFRESH_SECONDS = 5.0
RECORD_SECONDS = 60.0
UNWATCHED_SECONDS = 0.05
"""While no live client is connected, changes are received at most once in this time. Otherwise the thread would wake
with each commit."""


class RevocationListener(DatabaseListener):
    """The thread also calls ``refresh`` with its connection every ``REFRESH_SECONDS``."""

    def __init__(
        self, conninfo: str, authenticator: Authenticator, live: Live, refresh: Callable[[Connection], None]
    ) -> None:
        super().__init__("database", conninfo, "marketdata-api-revocations", (tokens.REVOKED, CHANGED))
        self._authenticator = authenticator
        self._live = live
        self._refresh = refresh

    def _receive(self, connection: Connection, notifications: Notifications) -> None:
        self._authenticator.forget()
        self._live.resync()
        refresh_at, record_at = monotonic(), monotonic() + RECORD_SECONDS
        while not self._stopping.is_set():
            if monotonic() >= refresh_at:
                self._refresh(connection)
                refresh_at = monotonic() + REFRESH_SECONDS
            self._begun()
            revoked, changes = notifications.wait(max(refresh_at - monotonic(), 0.0))
            self._live.changed(changes)
            if changes and not self._live.connections:
                self._stopping.wait(UNWATCHED_SECONDS)
            for identity in revoked:
                self._authenticator.forget(identity)
                self._live.revoked(identity)
            if monotonic() >= record_at or self._stopping.is_set():
                tokens.touch(connection, self._authenticator.take_used())
                record_at = monotonic() + RECORD_SECONDS
