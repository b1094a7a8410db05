"""Finds the days on which one of two versions has changed.

Every transaction that stores or removes a tick writes the symbol's row of that day in the level 1d. This changes the
row's ``xmin``. If the ``xmin`` of both versions are the same as before, nothing has changed on that day, unless its
ticks were pruned. So one row per day is enough to find changes. A shard that moves to another node gets new rows, so
all of its days count as changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import groupby
from typing import LiteralString, NamedTuple

from marketdata.operations.pair_access import Both
from marketdata.operations.version_pair import CHANGED_BY, SOURCE_SYMBOLS, TARGET_SYMBOLS, Rows

CHUNK = 31
"""Maximum days of one statement."""


class Day(NamedTuple):
    """A UTC day of a symbol; ``start`` is midnight."""

    symbol: str
    start: datetime


class DayState(NamedTuple):
    """The transactions that changed the day in source and target (``CHANGED_BY``), None for a version without a tick.
    ``is_pruned``: its ticks were pruned in one of them, or will be."""

    source: str | None
    target: str | None
    is_pruned: bool


DayStates = dict[Day, DayState]


def read_days(both: Both) -> DayStates:
    """The state of each day that has a tick in one of both versions. It needs the rows ``DAY_ROWS``."""
    return {Day(symbol, start): DayState(*state) for symbol, start, *state in both.execute(_DAYS)}


def changed_days(before: DayStates, after: DayStates) -> list[Day]:
    """The days that differ between ``before`` and ``after``, or are missing in one; by symbol, oldest first."""
    return sorted({*(day for day, state in after.items() if before.get(day) != state), *(before.keys() - after.keys())})


def day_chunks(days: Iterable[Day]) -> Iterator[tuple[str, list[datetime]]]:
    """Split sorted days into chunks: a symbol with at most ``CHUNK`` of its days."""
    for symbol, group in groupby(days, lambda day: day.symbol):
        starts = [day.start for day in group]
        yield from ((symbol, starts[at : at + CHUNK]) for at in range(0, len(starts), CHUNK))


_SOURCE_DAYS, _TARGET_DAYS = (
    Rows(name, f"SELECT symbol, bucket, {CHANGED_BY} AS state FROM {{rollups_1d}}", is_of_target)
    for name, is_of_target in (("source_all_days", False), ("target_all_days", True))
)
DAY_ROWS = (SOURCE_SYMBOLS, TARGET_SYMBOLS, _SOURCE_DAYS, _TARGET_DAYS)
_DAYS: LiteralString = """
    SELECT symbol, bucket, s.state, t.state,
           bucket < greatest(of_source.pruned_until, of_target.pruned_until) IS TRUE
    FROM {source_all_days} s FULL JOIN {target_all_days} t USING (symbol, bucket)
    LEFT JOIN {source_all_symbols} of_source USING (symbol) LEFT JOIN {target_all_symbols} of_target USING (symbol)
    ORDER BY symbol, bucket"""
