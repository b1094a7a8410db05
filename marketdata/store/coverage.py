"""Coverage: the time ranges [from, to) of a symbol that were read from a source; they never overlap."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from marketdata.store.pool import Connection
from marketdata.store.version import Version


class Range(NamedTuple):
    """``start`` and ``end`` are microseconds since 1970. ``state`` is indexed, failed or no_trades; the last one is
    computed and never stored."""

    start: int
    end: int
    state: str


_MICROSECONDS = "(extract(epoch FROM {}) * 1000000)::bigint"
_BOUNDS = ", ".join(_MICROSECONDS.format(f'c."{name}"') for name in ("from", "to"))


def record(conn: Connection, version: Version, symbol: str, new: Range) -> None:
    """Store ``new``. It replaces the parts of stored ranges that it overlaps. Adjacent ranges with equal state are
    merged."""
    with conn.transaction():
        # Without the lock, two writers that change the same range at once would both read it unchanged, and would store
        # ranges that overlap.
        row = conn.execute(
            version.query(
                "SELECT name, pg_advisory_xact_lock(hashtextextended('coverage ' || name, 0)) "
                "FROM (SELECT {canonical}(%s) AS name) AS n"
            ),
            (symbol,),
        ).fetchone()
        assert row is not None
        name = row[0]
        touched = conn.execute(
            version.query(
                'DELETE FROM {coverage} AS c WHERE c.symbol = %s AND c."from" <= {instant}(%s) '
                'AND c."to" >= {instant}(%s) '
                f"RETURNING {_BOUNDS}, c.state"
            ),
            (name, new.end, new.start),
        ).fetchall()
        rows = [(each.start, each.end, name, each.state) for each in overlay([Range(*row) for row in touched], new)]
        with conn.cursor() as cursor:
            cursor.executemany(
                version.query(
                    'INSERT INTO {coverage} ("from", "to", symbol, state) VALUES ({instant}(%s), {instant}(%s), %s, %s)'
                ),
                rows,
            )


def overlay(old: Iterable[Range], new: Range) -> list[Range]:
    """The ranges of ``old``, with ``new`` in place of the parts that it overlaps. The result is in order, and adjacent
    ranges with equal state are merged."""
    kept = [new]
    for each in old:
        if each.start < new.start:
            kept.append(Range(each.start, min(each.end, new.start), each.state))
        if each.end > new.end:
            kept.append(Range(max(each.start, new.end), each.end, each.state))
    return merged(sorted(kept))


def merged(ranges: Iterable[Range]) -> list[Range]:
    """Merge adjacent ranges with equal state. The ranges must be in order."""
    found: list[Range] = []
    for each in ranges:
        if found and found[-1].state == each.state and found[-1].end == each.start:
            found[-1] = Range(found[-1].start, each.end, each.state)
        else:
            found.append(each)
    return found


def ranges(conn: Connection, version: Version, symbol: str) -> tuple[str, list[Range]]:
    """The symbol (not an alias) and its ranges in order.

    Within an indexed range, each UTC day without ticks has the state ``no_trades``. If the range covers only a part of
    its first or last day, only the ticks in this part count.
    """
    row = conn.execute(version.query("SELECT {canonical}(%s)"), (symbol,)).fetchone()
    assert row is not None
    found = conn.execute(version.query(_RANGES), {"symbol": row[0]}).fetchall()
    return row[0], merged(Range(*each) for each in found)


def lags(conn: Connection, version: Version) -> dict[str, float]:
    """The seconds since the end of the newest indexed range, for each symbol that has one."""
    statement = """SELECT symbol, extract(epoch FROM now() - max("to"))::float8 FROM {coverage}
                   WHERE state = 'indexed' GROUP BY symbol ORDER BY symbol"""
    return dict(conn.execute(version.query(statement)).fetchall())


_RANGES = """
    SELECT (extract(epoch FROM p.a) * 1000000)::bigint, (extract(epoch FROM p.b) * 1000000)::bigint,
           CASE WHEN c.state <> 'indexed' THEN c.state
                WHEN NOT EXISTS (
                     SELECT FROM {rollups} r WHERE r.symbol = c.symbol AND r.res = 86400 AND r.bucket = d.day)
                  OR p.b - p.a < interval '24 hours' AND NOT EXISTS (
                     SELECT FROM {ticks} t WHERE t.symbol = c.symbol AND t.ts >= p.a AND t.ts < p.b) THEN 'no_trades'
                ELSE 'indexed' END
    FROM {coverage} c
    CROSS JOIN LATERAL generate_series(
        date_bin('24 hours', c."from", '1970-01-01Z'), c."to" - interval '1 us', interval '24 hours') AS d (day)
    CROSS JOIN LATERAL (SELECT greatest(c."from", d.day) AS a, least(c."to", d.day + interval '24 hours') AS b) AS p
    WHERE c.symbol = %(symbol)s
    ORDER BY 1
"""
