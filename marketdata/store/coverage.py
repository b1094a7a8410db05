"""Coverage: the time ranges [from, to) of a symbol that were read from a source; they never overlap."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from marketdata.store.pool import Connection
from marketdata.store.version import Version


class Range(NamedTuple):
    """Microseconds since 1970; ``state`` is indexed or failed, or no_trades, which is computed and never stored."""

    start: int
    end: int
    state: str


_MICROSECONDS = "(extract(epoch FROM {}) * 1000000)::bigint"
_BOUNDS = ", ".join(_MICROSECONDS.format(f'c."{name}"') for name in ("from", "to"))


def record(conn: Connection, version: Version, symbol: str, new: Range) -> None:
    """Store ``new`` in place of what was stored for those times; adjacent ranges of one state are merged."""
    with conn.transaction():
        # Without the lock, two writers that split the same range at once would both read the unsplit one.
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
    """The ranges in order, where ``new`` replaces what it overlaps of ``old``; adjacent ones with equal state merge."""
    kept = [new]
    for each in old:
        if each.start < new.start:
            kept.append(Range(each.start, min(each.end, new.start), each.state))
        if each.end > new.end:
            kept.append(Range(max(each.start, new.end), each.end, each.state))
    return merged(sorted(kept))


def merged(ranges: Iterable[Range]) -> list[Range]:
    """Ordered ranges, with adjacent ones of one state merged."""
    found: list[Range] = []
    for each in ranges:
        if found and found[-1].state == each.state and found[-1].end == each.start:
            found[-1] = Range(found[-1].start, each.end, each.state)
        else:
            found.append(each)
    return found


def ranges(conn: Connection, version: Version, symbol: str) -> tuple[str, list[Range]]:
    """The symbol (not an alias) and its ranges in order. UTC days of an indexed range without a tick, or parts of days
    at its ends, have the state ``no_trades``."""
    row = conn.execute(version.query("SELECT {canonical}(%s)"), (symbol,)).fetchone()
    assert row is not None
    found = conn.execute(version.query(_RANGES), {"symbol": row[0]}).fetchall()
    return row[0], merged(Range(*each) for each in found)


def lags(conn: Connection, version: Version) -> dict[str, float]:
    """For each symbol with an indexed range: seconds since the end of the newest one."""
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
