"""What the database notifies: changes of stored candles, by the transaction that makes them (``sql/rollups.sql``), and
revoked tokens."""

from __future__ import annotations

import select
import socket
from contextlib import suppress
from typing import Any

import psycopg
from psycopg import Connection

from marketdata.store.change import Change
from marketdata.store.tokens import REVOKED

CHANGED = "market_changes"


class Notifications:
    """A connection that listens. Call ``wait`` in one thread, ``wake`` and ``close`` in any."""

    def __init__(self, conn: Connection[Any]) -> None:
        """``conn`` must be in autocommit mode; this object closes it."""
        self._conn = conn
        for channel in (REVOKED, CHANGED):
            self._conn.execute(f"LISTEN {channel}")
        self._wake_writer, self._wake_reader = socket.socketpair()
        self._poll = select.poll()
        self._poll.register(conn.fileno(), select.POLLIN)
        self._poll.register(self._wake_reader, select.POLLIN)

    def wait(self, seconds: float) -> tuple[list[str], list[Change]]:
        """Wait up to ``seconds``; the ids of tokens revoked since the last call, and the changes. OSError when the
        connection is lost."""
        try:
            found = list(self._conn.notifies(timeout=0))
            if not found:
                self._poll.poll(seconds * 1000)
                found = list(self._conn.notifies(timeout=0))
        except (psycopg.Error, ValueError) as error:
            raise OSError("the connection that listens for notifications was lost") from error
        revoked = [each.payload for each in found if each.channel == REVOKED]
        return revoked, [Change.parsed(each.payload) for each in found if each.channel == CHANGED]

    def wake(self) -> None:
        """Make a running ``wait`` return."""
        with suppress(OSError):
            self._wake_writer.send(b".")

    def close(self) -> None:
        """May be called repeatedly."""
        with suppress(psycopg.Error):
            self._conn.close()
        self._wake_writer.close()
        self._wake_reader.close()
