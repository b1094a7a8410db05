"""``bin/marketdata-prune``: deletes ticks before a midnight (UTC), and keeps their candles.

First the line of each symbol is drawn. Then the ticks below the lines are deleted, one symbol after the other, in small
transactions with pauses, so that readers and writers are not slowed down. A prune may be killed at any moment. The next
one also deletes what an earlier one has left below its lines.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from itertools import chain
from time import monotonic

from marketdata.errors import NotFound, UsageError
from marketdata.operations.advisory_lock import exclusive
from marketdata.operations.drop_symbol import unknown
from marketdata.operations.symbol_access import SymbolAccess
from marketdata.store import prune, symbols
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

    def __init__(self, access: SymbolAccess, version: Version, before: datetime, names: Sequence[str] = ()) -> None:
        self._access = access
        self._version = version
        self._before = before
        self._symbols = [_stored(access, version, name) for name in names] or None
        self._below: list[Below] = []
        self.lines: list[Line] = []
        """The lines before this run, and the highest lines that finality allows."""
        self.most = 0
        """The greatest number of ticks that may have to be deleted."""
        self.deleted = 0

    def draw(self) -> None:
        """Draw the lines. From now on nothing is stored below them."""
        access, version, before = self._access, self._version, self._before
        lines = access.read_each(version, self._symbols, lambda c, v, names: prune.lines(c, v, before, names))
        self.lines = sorted(chain.from_iterable(lines))
        for at, line in enumerate(self.lines):
            if line.until is not None and (line.now is None or line.now < line.until):
                draw = partial(prune.draw_where_final, before=before, symbol=line.symbol)
                self.lines[at] = access.write(version, [line.symbol], draw)
        below = access.read_each(version, [line.symbol for line in self.lines], prune.below)
        self._below = sorted(chain.from_iterable(below))
        self.most = sum(each.most for each in self._below)

    def delete(self) -> Iterator[float]:
        """Delete the ticks below the lines. After each batch, yields the seconds that the caller must wait."""
        for each in self._below:
            began = monotonic()
            write = partial(self._access.write, self._version, [each.symbol])
            for count in prune.delete_by(write, each, BATCH):
                self.deleted += count
                yield (monotonic() - began) * (1 / _WORK_SHARE - 1)
                began = monotonic()


def _stored(access: SymbolAccess, version: Version, name: str) -> str:
    """The symbol of a name. Raises UsageError if the version has no such symbol."""
    try:
        return access.read(version, [name], partial(symbols.resolve, symbol=name))
    except NotFound as error:
        raise unknown(access, version, name) from error


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
