"""The coverage that a copy carries: what changed in the source since the copy looked last, and nothing else, since the
target's own ingestor records coverage there, too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import LiteralString

from marketdata.operations.version_pair import Pair
from marketdata.store.coverage import Range, record
from marketdata.store.pool import Connection

Coverage = dict[str, tuple[list[Range], list[Range]]]
"""Of each symbol whose coverage changed: what was carried before, and what it is now."""

_CHANGED: LiteralString = """
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
_FORGET = "DELETE FROM market_copied_coverage WHERE source = %(source)s AND target = %(target)s AND symbol = %(symbol)s"
_REMEMBER: LiteralString = """
    INSERT INTO market_copied_coverage (source, target, symbol, state, "from", "to")
    VALUES (%(source)s, %(target)s, %(symbol)s, %(state)s, {target_instant}(%(start)s), {target_instant}(%(end)s))
"""


def read_coverage(connection: Connection, pair: Pair) -> Coverage:
    found: Coverage = {}
    for symbol, is_now, start, end, state in connection.execute(pair.query(_CHANGED), pair.tables):
        found.setdefault(symbol, ([], []))[is_now].append(Range(start, end, state))
    return found


def apply_coverage(connection: Connection, pair: Pair, coverage: Coverage) -> None:
    for symbol, (carried, now) in coverage.items():
        values = {"symbol": symbol, **pair.tables}
        with connection.transaction():
            for part in changed(carried, now):
                record(connection, pair.target, symbol, part)
            connection.execute(_FORGET, values)
            with connection.cursor() as cursor:
                cursor.executemany(pair.query(_REMEMBER), [{**values, **each._asdict()} for each in now])


def changed(before: Sequence[Range], now: Sequence[Range]) -> Iterator[Range]:
    """The parts of ``now`` whose times had another state before, or none; both are ordered."""
    for each in now:
        start = each.start
        for old in before:
            if old.state == each.state and old.end > start and old.start < each.end:
                if old.start > start:
                    yield Range(start, old.start, each.state)
                start = old.end
        if start < each.end:
            yield Range(start, each.end, each.state)
