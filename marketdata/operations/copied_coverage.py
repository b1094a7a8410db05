"""The part of a copy that carries coverage from one version to another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import LiteralString, NamedTuple

from marketdata.operations.pair_access import Both
from marketdata.operations.version_pair import Pair
from marketdata.store.coverage import UNREAD, Range, record
from marketdata.store.pool import Connection


class Coverage(NamedTuple):
    """A symbol whose coverage changed: the ranges ``carried`` by earlier passes, and those in the source ``now``."""

    carried: list[Range]
    now: list[Range]


def changed(both: Both) -> dict[str, Coverage]:
    """Read the coverage of each symbol whose coverage in the source has changed since it was copied. Unchanged coverage
    is not copied again, because an ingestor may have recorded other coverage in the target meanwhile."""
    found: dict[str, Coverage] = {}
    for symbol, is_now, start, end, state in both.execute(_CHANGED_COVERAGE, both.pair.tables):
        coverage = found.setdefault(symbol, Coverage([], []))
        (coverage.now if is_now else coverage.carried).append(Range(start, end, state))
    return found


def apply(connection: Connection, pair: Pair, coverage: dict[str, Coverage]) -> None:
    for symbol, (carried, now) in coverage.items():
        values = {"symbol": symbol, **pair.tables}
        with connection.transaction():
            for part in _changed_ranges(now, carried):
                record(connection, pair.target, [symbol], part._replace(state=UNREAD))
            for part in _changed_ranges(carried, now):
                record(connection, pair.target, [symbol], part)
            connection.execute(_FORGET_COVERAGE, values)
            with connection.cursor() as cursor:
                cursor.executemany(pair.query(_REMEMBER_COVERAGE), [{**values, **each._asdict()} for each in now])


def _changed_ranges(before: Sequence[Range], now: Sequence[Range]) -> Iterator[Range]:
    """The parts of ``now`` whose times had a different state in ``before``, or no state. Both are in order."""
    for each in now:
        start = each.start
        for old in before:
            if old.state == each.state and old.end > start and old.start < each.end:
                if old.start > start:
                    yield Range(start, old.start, each.state)
                start = old.end
        if start < each.end:
            yield Range(start, each.end, each.state)


_CHANGED_COVERAGE: LiteralString = """
    WITH now AS (SELECT symbol, "from", "to", state FROM {source_coverage}),
    carried AS (
        SELECT symbol, "from", "to", state FROM market_copied_coverage
        WHERE source = %(source)s AND target = %(target)s),
    differing AS (
        SELECT symbol FROM (TABLE now EXCEPT TABLE carried) a
        UNION SELECT symbol FROM (TABLE carried EXCEPT TABLE now) b)
    SELECT symbol, is_now, (extract(epoch FROM "from") * 1000000)::bigint,
           (extract(epoch FROM "to") * 1000000)::bigint, state
    FROM (SELECT *, true AS is_now FROM now UNION ALL SELECT *, false FROM carried) each
    WHERE symbol IN (TABLE differing) ORDER BY symbol, "from"
"""
_FORGET_COVERAGE = (
    "DELETE FROM market_copied_coverage WHERE source = %(source)s AND target = %(target)s AND symbol = %(symbol)s"
)
_REMEMBER_COVERAGE: LiteralString = """
    INSERT INTO market_copied_coverage (source, target, symbol, state, "from", "to")
    VALUES (%(source)s, %(target)s, %(symbol)s, %(state)s, {target_instant}(%(start)s), {target_instant}(%(end)s))
"""
