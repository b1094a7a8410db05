"""Which days of a symbol have changed in one of two versions.

Every transaction that stores or removes a tick writes the symbol's row of that day in the level 1d, and so gives the
row another ``xmin``. Two equal pairs of ``xmin`` say that nothing changed in between, at the cost of a row per day.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import groupby
from typing import NamedTuple

from marketdata.operations.version_pair import Pair
from marketdata.store.pool import Connection

CHUNK = 31
"""Days that one statement looks at."""


class Day(NamedTuple):
    """A UTC day of a symbol; ``start`` is midnight."""

    symbol: str
    start: datetime


State = dict[Day, tuple[str | None, str | None]]
"""Of each day the ``xmin`` in source and target; None where there is no tick."""

_DAYS = """
    SELECT symbol, bucket, s.xmin::text, t.xmin::text
    FROM {source_rollups_1d} s FULL JOIN {target_rollups_1d} t USING (symbol, bucket) ORDER BY symbol, bucket
"""


def read(connection: Connection, pair: Pair) -> State:
    rows = connection.execute(pair.query(_DAYS))
    return {Day(symbol, start): (source, target) for symbol, start, source, target in rows}


def changed(before: State, after: State) -> list[Day]:
    """The days of ``after`` that are not as they were, and those that are gone; by symbol, oldest first."""
    return sorted({*(day for day, state in after.items() if before.get(day) != state), *(before.keys() - after.keys())})


def chunks(days: Iterable[Day]) -> Iterator[tuple[str, list[datetime]]]:
    """Sorted days as a symbol and at most ``CHUNK`` of its days."""
    for symbol, group in groupby(days, lambda day: day.symbol):
        starts = [day.start for day in group]
        yield from ((symbol, starts[at : at + CHUNK]) for at in range(0, len(starts), CHUNK))
