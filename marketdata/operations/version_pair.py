"""Two versions of a prefix: builds statements over the tables of both, and finds the days on which one has changed.

Every transaction that stores or removes a tick writes the symbol's row of that day in the level 1d. This changes the
row's ``xmin``. If the ``xmin`` of both versions are the same as before, nothing has changed on that day, unless its
ticks were pruned. So one row per day is enough to find changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from itertools import groupby
from typing import LiteralString, NamedTuple, Self

from psycopg import sql

from marketdata.errors import UsageError
from marketdata.store.pool import Connection
from marketdata.store.version import Registered, Version, registered

CHUNK = 31
"""Maximum days of one statement."""

_PARTS = (
    "ticks", "rollups", "rollups_1m", "rollups_1d", "symbols", "chains", "retracted", "pruned", "coverage", "changed",
    "instant", "vwap", "finalize_chain", "is_pruned", "pause",
)  # fmt: skip


@dataclass(frozen=True)
class Pair:
    """Two versions. ``source`` is copied to ``target``, or compared with it."""

    source: Version
    target: Version

    @classmethod
    def of(cls, connection: Connection, prefix: str, source: int, target: int) -> Self:
        """Check and pair two registered versions. Raises UsageError if a number is not registered."""
        known = registered(connection, prefix)
        pair = cls(find(known, prefix, source).version, find(known, prefix, target).version)
        for each in (pair.source, pair.target):
            each.check(connection)
        return pair

    @lru_cache(maxsize=64)  # noqa: B019 - a command has one pair
    def query(self, text: LiteralString) -> bytes:
        """A statement in which names like ``{source_ticks}`` are replaced by the names of the versions."""
        names: dict[str, sql.Composable] = {}
        for side, version in (("source", self.source), ("target", self.target)):
            names |= {f"{side}_{part}": sql.Identifier(version.name(part)) for part in _PARTS}
        return sql.SQL(text).format(**names).as_bytes(None)

    @property
    def tables(self) -> dict[str, str]:
        """The names of the ticks tables. The tables ``market_copied_…`` identify versions by these names."""
        return {"source": self.source.ticks_table, "target": self.target.ticks_table}


def find(known: Sequence[Registered], prefix: str, n: int) -> Registered:
    """Return the version with this number. If there is none, raises UsageError with the numbers that exist."""
    for each in known:
        if each.n == n:
            return each
    numbers = ", ".join(str(each.n) for each in known) or "none"
    raise UsageError(
        f"version {n}: there is no such version with the prefix {prefix} (existing versions: {numbers}); "
        f"give the number of one of them, or create it with bin/marketdata-version {n}"
    )


class Day(NamedTuple):
    """A UTC day of a symbol; ``start`` is midnight."""

    symbol: str
    start: datetime


class DayState(NamedTuple):
    """The ``xmin`` in source and target; None if there is no tick. ``is_pruned``: its ticks were pruned in one of
    them, or will be."""

    source: str | None
    target: str | None
    is_pruned: bool


DayStates = dict[Day, DayState]

_DAYS = """
    SELECT symbol, bucket, s.xmin::text, t.xmin::text,
           bucket < greatest(of_source.pruned_until, of_target.pruned_until) IS TRUE
    FROM {source_rollups_1d} s FULL JOIN {target_rollups_1d} t USING (symbol, bucket)
    LEFT JOIN {source_symbols} of_source USING (symbol) LEFT JOIN {target_symbols} of_target USING (symbol)
    ORDER BY symbol, bucket
"""


def read_days(connection: Connection, pair: Pair) -> DayStates:
    rows = connection.execute(pair.query(_DAYS))
    return {Day(symbol, start): DayState(*state) for symbol, start, *state in rows}


def changed_days(before: DayStates, after: DayStates) -> list[Day]:
    """The days that differ between ``before`` and ``after``, or are missing in one; by symbol, oldest first."""
    return sorted({*(day for day, state in after.items() if before.get(day) != state), *(before.keys() - after.keys())})


def day_chunks(days: Iterable[Day]) -> Iterator[tuple[str, list[datetime]]]:
    """Split sorted days into chunks: a symbol with at most ``CHUNK`` of its days."""
    for symbol, group in groupby(days, lambda day: day.symbol):
        starts = [day.start for day in group]
        yield from ((symbol, starts[at : at + CHUNK]) for at in range(0, len(starts), CHUNK))


@contextmanager
def writing(connection: Connection, pair: Pair, symbol: str) -> Iterator[None]:
    """A transaction that locks the symbol in the target, like the functions of ``store/sql/ingest.sql``."""
    with connection.transaction():
        connection.execute(SESSION)
        connection.execute(pair.query(_LOCK), {"symbol": symbol})
        yield


SESSION = "SELECT set_config('marketdata.writer', 'locked', true), set_config('marketdata.pause', 'passed', true)"
"""Begins a transaction that locks what it writes, and writes during the pause after a switch, too."""
_LOCK: LiteralString = """
    INSERT INTO {target_symbols} AS s (symbol, version) VALUES (%(symbol)s, 1)
    ON CONFLICT (symbol) DO UPDATE SET version = s.version + 1, written_at = clock_timestamp()"""
