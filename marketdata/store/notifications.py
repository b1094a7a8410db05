"""Notifications from the database: revoked tokens, and changes of stored candles. Each transaction that writes ticks
sends a notification of its changes (``sql/rollups.sql``)."""

from __future__ import annotations

import select
import socket
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, Self

import psycopg
from psycopg import Connection

from marketdata.store.tokens import REVOKED

CHANGED = "market_changes"


Kind = Literal["stored", "removed", "final", "chain_final"]


@dataclass(frozen=True, slots=True)
class Change:
    """A change of ``symbol`` between the times ``first`` and ``last`` (microseconds, inclusive). ``kind`` says whether
    ticks were stored, ticks were removed, or candles became final. For ``chain_final``, the candles of all symbols of a
    chain became final, and ``symbol`` is the chain. ``table`` is the quoted name of the ticks table."""

    table: str
    symbol: str
    first: int
    last: int
    kind: Kind

    @classmethod
    def parsed(cls, payload: str) -> Self:
        """Parse the payload that the SQL function ``changed`` wrote."""
        table, symbol, first, last, kind = payload.split(" ")
        return cls(table, symbol, int(first), int(last), kind)  # type: ignore[arg-type]

    @property
    def is_of_ticks(self) -> bool:
        """Whether ticks were stored or removed."""
        return self.kind in ("stored", "removed")

    def is_of(self, ticks_table: str) -> bool:
        return self.table == f'"{ticks_table}"'


class Notifications:
    """A connection that listens. Call ``wait`` in one thread, ``wake`` and ``close`` in any."""

    def __init__(self, conn: Connection[Any], channels: Sequence[str] = (REVOKED, CHANGED)) -> None:
        """``conn`` must be in autocommit mode; this object closes it."""
        self._conn = conn
        self._pending: list[tuple[str, str]] = []
        # For notifications that arrive during a statement on this connection.
        conn.add_notify_handler(lambda each: self._pending.append((each.channel, each.payload)))
        for channel in channels:
            self._conn.execute(f"LISTEN {channel}")
        self._wake_writer, self._wake_reader = socket.socketpair()
        self._poll = select.poll()
        self._poll.register(conn.fileno(), select.POLLIN)
        self._poll.register(self._wake_reader, select.POLLIN)

    def wait(self, seconds: float) -> tuple[list[str], list[Change]]:
        """Wait up to ``seconds`` for notifications. Returns the ids of revoked tokens, and the changes, since the
        previous call. Raises OSError when the connection is lost."""
        try:
            found = self._received()
            if not found:
                self._poll.poll(seconds * 1000)
                found = self._received()
        except (psycopg.Error, ValueError) as error:
            raise OSError("the connection that listens for notifications was lost") from error
        revoked = [payload for channel, payload in found if channel == REVOKED]
        return revoked, [Change.parsed(payload) for channel, payload in found if channel == CHANGED]

    def _received(self) -> list[tuple[str, str]]:
        """The channels and payloads that have arrived. They are read from libpq directly: the driver's generator takes
        several times as long, and gives up the GIL several times."""
        pgconn = self._conn.pgconn
        pgconn.consume_input()
        while (each := pgconn.notifies()) is not None:
            self._pending.append((each.relname.decode(), each.extra.decode()))
        found, self._pending = self._pending, []
        return found

    def wake(self) -> None:
        """Make a running ``wait`` return."""
        with suppress(OSError):
            self._wake_writer.send(b".")

    def close(self) -> None:
        """Close the connection; may be called repeatedly."""
        with suppress(psycopg.Error):
            self._conn.close()
        self._wake_writer.close()
        self._wake_reader.close()
