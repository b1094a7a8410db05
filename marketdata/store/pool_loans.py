"""The connections that a pool has lent, and the thread that ends statements which the database does not answer.

A server that is stopped, or a machine that hangs, keeps its connections open: a statement would wait for ever. Nobody
but the client can end it then, so its socket is shut down here, which the waiting thread sees as a lost connection.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import threading
from collections.abc import Callable
from time import monotonic
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus

Connection = psycopg.Connection[tuple[Any, ...]]

OVERDUE_SECONDS = 35.0
"""The longest time for a statement: more than ``statement_timeout``, with which a server that works ends it itself."""
STALL_SECONDS = 5.0
"""The same once the database has answered nothing for so long, neither a statement nor a new connection."""
_TURN_SECONDS = 0.5

_log = logging.getLogger(__name__)


class ConnectionWatchdog:
    """``answers`` says whether new connections are answered. ``close`` may be called repeatedly. Thread-safe."""

    def __init__(self, name: str, answers: Callable[[], bool]) -> None:
        self._answers = answers
        self._lent: dict[Connection, float] = {}
        self._lock = threading.Lock()  # a connection that was returned must not be shut down
        self._answered_at = monotonic()
        self._closing = threading.Event()
        self.is_suspended = False
        """Whether the database has stalled: no connection should be lent until it answers again."""
        self._thread = threading.Thread(target=self._run, name=f"{name}-loans", daemon=True)
        self._thread.start()

    def __bool__(self) -> bool:
        return bool(self._lent)

    def begin(self, connection: Connection) -> None:
        """Note that the connection was lent now, or that a holder begins its next statement."""
        self._lent[connection] = monotonic()

    def end(self, connection: Connection) -> bool:
        """Note that the connection was returned; False when it was shut down meanwhile."""
        with self._lock:
            is_intact = self._lent.pop(connection, None) is not None
        if is_intact and not connection.closed:
            self._answered_at = monotonic()
        return is_intact

    def has_stalled(self) -> bool:
        """Whether a statement has been waiting, and none was answered, for ``STALL_SECONDS``, nor a new connection."""
        since = monotonic() - STALL_SECONDS
        return self._answered_at < since and bool(self._waiting_since(since)) and not self._answers()

    def close(self, timeout: float = 5.0) -> None:
        self._closing.set()
        self._thread.join(timeout)

    def _run(self) -> None:
        while not self._closing.wait(_TURN_SECONDS):
            try:
                self._suspend_or_resume()
                self._shut_down_overdue()
            except Exception:
                _log.exception("internal error while looking for overdue statements")

    def _suspend_or_resume(self) -> None:
        if self.is_suspended:
            if self._answers():
                _log.warning("the database answers again")
                self.is_suspended = False
        elif self.has_stalled():
            _log.error("the database has answered nothing for %g s: requests fail until it does", STALL_SECONDS)
            self.is_suspended = True

    def _shut_down_overdue(self) -> None:
        since = monotonic() - (STALL_SECONDS if self.is_suspended else OVERDUE_SECONDS)
        for connection, began in self._waiting_since(since):
            with self._lock:
                if self._lent.get(connection) == began:
                    del self._lent[connection]
                    _shut_down(connection)

    def _waiting_since(self, since: float) -> list[tuple[Connection, float]]:
        """The connections whose statement began before. One whose holder waits for a slow client is idle."""
        lent = list(self._lent.items())
        return [(each, began) for each, began in lent if began < since and _is_active(each)]


def _is_active(connection: Connection) -> bool:
    return connection.pgconn.transaction_status == TransactionStatus.ACTIVE


def _shut_down(connection: Connection) -> None:
    with (
        contextlib.suppress(OSError, psycopg.Error),  # closed meanwhile
        socket.socket(fileno=os.dup(connection.fileno())) as duplicate,
    ):
        duplicate.shutdown(socket.SHUT_RDWR)
