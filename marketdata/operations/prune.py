"""``bin/marketdata-prune``: deletes ticks before a midnight (UTC), and keeps their candles.

First the line of each symbol is drawn. Then the ticks below the lines are deleted, a symbol after the other, in small
transactions with pauses, so that readers and writers are not slowed down. A prune may be killed at any moment. The next
one also deletes what an earlier one has left below its lines.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from time import monotonic

from marketdata.errors import UsageError
from marketdata.operations.advisory_lock import exclusive
from marketdata.operations.drop_symbol import unknown
from marketdata.store import prune
from marketdata.store.pool import Connection
from marketdata.store.prune import Below, Line
from marketdata.store.version import Version

BATCH = 2000
"""Ticks of a transaction."""
_WORK_SHARE = 0.5
"""The part of the time that is spent on deleting; the rest are pauses."""
_HOLDER = """
    SELECT a.application_name FROM pg_locks l JOIN pg_stat_activity a USING (pid)
    WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
      AND (l.classid::bigint << 32) | l.objid::bigint = hashtextextended(%(name)s, 0)
      AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())"""


class Prune:
    """Prunes the symbols of a version, or only those of the given names. ``before`` is a midnight in the past."""

    def __init__(self, connection: Connection, version: Version, before: datetime, names: Sequence[str] = ()) -> None:
        self._connection = connection
        self._version = version
        self._before = before
        self._symbols = [_stored(connection, version, name) for name in names] or None
        self._below: list[Below] = []
        self.lines: list[Line] = []
        """The lines before this run, and what they may be."""
        self.most = 0
        """The greatest number of ticks that may have to be deleted."""
        self.deleted = 0

    def draw(self) -> None:
        """Draw the lines. From now on nothing is stored below them."""
        connection, version = self._connection, self._version
        self.lines = prune.lines(connection, version, self._before, self._symbols)
        for at, line in enumerate(self.lines):
            if line.until is not None and (line.now is None or line.now < line.until):
                self.lines[at] = prune.draw_where_final(connection, version, self._before, line.symbol)
        self._below = prune.below(connection, version, [line.symbol for line in self.lines])
        self.most = sum(each.most for each in self._below)

    def delete(self) -> Iterator[float]:
        """Delete the ticks below the lines. After each batch, yields the seconds that the caller must wait."""
        for each in self._below:
            began = monotonic()
            for count in prune.delete(self._connection, self._version, each, BATCH):
                self.deleted += count
                yield (monotonic() - began) * (1 / _WORK_SHARE - 1)
                began = monotonic()


def _stored(connection: Connection, version: Version, name: str) -> str:
    """The symbol of a name. Raises UsageError if the version has no such symbol."""
    row = connection.execute(
        version.query("SELECT symbol FROM {symbols} WHERE symbol = {canonical}(%s)"), (name,)
    ).fetchone()
    if row is None:
        raise unknown(connection, version, name)
    return str(row[0])


def check_past(connection: Connection, moment: datetime) -> None:
    """Raise UsageError if the time is in the future, by the clock of the database."""
    row = connection.execute("SELECT now()").fetchone()
    assert row is not None
    if moment > row[0]:
        raise UsageError(f"--before {moment:%Y-%m-%dT%H:%M:%SZ} is in the future: give a time in the past")


@contextmanager
def pruning(connection: Connection, version: Version) -> Iterator[None]:
    """Hold the lock of prunes of this version during the block. Raises AlreadyRunning, which names the holder, if
    another prune has it."""
    holder = f"process {os.getpid()} on {socket.gethostname()}"[:63]
    connection.execute("SELECT set_config('application_name', %s, false)", (holder,))

    def held() -> str:
        row = connection.execute(_HOLDER, {"name": name}).fetchone()
        return f"another prune of {version.ticks_table} runs: {row[0] if row else 'a process that has just ended'}"

    name = f"marketdata prune {version.ticks_table}"
    with exclusive(connection, name, held):
        yield
