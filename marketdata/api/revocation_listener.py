"""The database monitor: a thread with a connection of its own that receives revocations of tokens, records which
tokens were used, and knows whether the database answers.

A revocation is received when its transaction commits. Those missed while the connection was down are covered by
emptying the token cache on every new connection; no entry is older than :data:`marketdata.api.auth.CACHE_SECONDS`.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import closing
from time import monotonic

from marketdata.api.auth import Authenticator
from marketdata.errors import MarketError
from marketdata.store import tokens
from marketdata.store.pool import Connection, connect
from marketdata.store.tokens import Revocations

_log = logging.getLogger(__name__)

TURN_SECONDS = 5.0
NOTE_SECONDS = 60.0
_RETRY_SECONDS = 1.0


class RevocationListener:
    """``start`` once, ``stop`` any number of times. ``refresh`` is called with the connection at least every
    ``TURN_SECONDS``."""

    def __init__(self, conninfo: str, authenticator: Authenticator, refresh: Callable[[Connection], None]) -> None:
        self._conninfo = conninfo
        self._authenticator = authenticator
        self._refresh = refresh
        self._stopping = threading.Event()
        self._revocations: Revocations | None = None
        self._thread: threading.Thread | None = None
        self.reason: str | None = "the database has not been queried yet"
        """Why the database is not usable; None while it answers."""

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="api-revocations", daemon=True)
        self._thread.start()

    def stop(self, timeout: float = 5.0) -> None:
        self._stopping.set()
        revocations = self._revocations
        if revocations is not None:
            revocations.wake()
        if self._thread is not None:
            self._thread.join(timeout)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                with connect(self._conninfo, application_name="marketdata-api-revocations") as connection:
                    self._listen(connection)
            except (MarketError, OSError) as error:
                if self.reason is None:
                    _log.warning("the database is not reachable: %s", error)
                self.reason = error.detail if isinstance(error, MarketError) else str(error)
            except Exception:
                _log.exception("internal error in the database monitor")
                self.reason = "internal error in the database monitor; see the log"
            self._revocations = None
            self._stopping.wait(_RETRY_SECONDS)

    def _listen(self, connection: Connection) -> None:
        with closing(Revocations(connection)) as revocations:
            self._revocations = revocations
            self._authenticator.forget()
            note_at = monotonic() + NOTE_SECONDS
            while not self._stopping.is_set():
                self._refresh(connection)
                if self.reason is not None:
                    _log.info("the database answers")
                    self.reason = None
                for identity in revocations.wait(TURN_SECONDS):
                    self._authenticator.forget(identity)
                if monotonic() >= note_at or self._stopping.is_set():
                    tokens.touch(connection, self._authenticator.take_used())
                    note_at = monotonic() + NOTE_SECONDS
