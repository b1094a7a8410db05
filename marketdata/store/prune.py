"""Prunes a symbol: deletes its ticks before a midnight (UTC), its *line*, and keeps their candles.

The line is drawn first. From then on nobody changes a tick below it, and every answer leaves these ticks out, so it
does not matter when they are deleted (``sql/rollups.sql``). A line is never lowered.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, LiteralString, NamedTuple

from marketdata.store.placement import Work
from marketdata.store.pool import Connection
from marketdata.store.version import Version

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Line(NamedTuple):
    """The line of a symbol as it is ``now``, and as it may be: up to ``until``, where finality may limit it. None: no
    tick is pruned."""

    symbol: str
    now: datetime | None
    until: datetime | None


class Below(NamedTuple):
    """A symbol with stored ticks below its line, and the greatest number of them that there may be."""

    symbol: str
    line: datetime
    most: int


class Deleted(NamedTuple):
    """The number of ticks that a transaction deleted, and the time of the last of them."""

    number: int
    last: datetime


def lines(conn: Connection, version: Version, before: datetime, symbols: Sequence[str] | None = None) -> list[Line]:
    """The lines of these symbols, or of all, for a wanted line ``before``, which is a midnight."""
    rows = conn.execute(version.query(_LINES), {"before": before, "symbols": symbols and list(symbols)})
    return [Line(*row) for row in rows]


def draw_where_final(conn: Connection, version: Version, before: datetime, symbol: str) -> Line:
    """Move the line of a symbol up to ``before``, or to where finality limits it. Returns the line as it was, and as it
    is. Finality is read under the symbol's lock, because its first block may arrive at any moment."""
    with conn.transaction():
        conn.execute(version.query("SELECT {lock}(%s)"), ([symbol],))
        (line,) = lines(conn, version, before, [symbol])
        if line.until is not None:
            conn.execute(version.query(_DRAW), line._asdict())
        return line


def draw(conn: Connection, version: Version, line: Line) -> None:
    """Move the line of a symbol up to ``line.until``. This waits for the other writers of the symbol. A symbol that was
    dropped meanwhile stays absent."""
    conn.execute(version.query(_DRAW), line._asdict())


def below(conn: Connection, version: Version, symbols: Collection[str]) -> list[Below]:
    """The symbols that have stored ticks below their lines, by name."""
    return [Below(*row) for row in conn.execute(version.query(_BELOW), (list(symbols),))]


def delete(conn: Connection, version: Version, of: Below, batch: int) -> Iterator[int]:
    """Delete the ticks below the line, the oldest first, ``batch`` of them per transaction. Yields the number of
    deleted ticks after each commit. What is left when the process is killed is deleted by the next call."""
    return delete_by(lambda work: work(conn, version), of, batch)


def delete_by(write: Callable[[Work[Deleted]], Deleted], of: Below, batch: int) -> Iterator[int]:
    """Like :func:`delete`. ``write`` runs each transaction where the symbol is stored."""
    since, count = EPOCH, batch
    while count == batch:
        values = {"symbol": of.symbol, "since": since, "line": of.line, "batch": batch}
        count, since = write(partial(_delete, values=values))
        yield count


def _delete(conn: Connection, version: Version, values: Mapping[str, Any]) -> Deleted:
    with conn.transaction():
        conn.execute(_SESSION)
        if version.shards is not None:
            conn.execute(version.query("SELECT {keep_here}(ARRAY[%(symbol)s])"), values)
        row = conn.execute(version.query(_DELETE), values).fetchone()
    assert row is not None
    return Deleted(*row)


_LINES: LiteralString = """
    SELECT s.symbol, nullif(s.pruned_until, '-infinity'), nullif(least(
        %(before)s::timestamptz, date_bin('1 day', greatest(s.final_until, h.final_until), '1970-01-01Z')), '-infinity')
    FROM {symbols} s LEFT JOIN {chains} h ON h.chain = {chain_of}(s.symbol)
    WHERE %(symbols)s::text[] IS NULL OR s.symbol = ANY (%(symbols)s)
    ORDER BY s.symbol"""
_DRAW: LiteralString = """
    UPDATE {symbols} SET version = version + 1, written_at = clock_timestamp(),
        pruned_until = greatest(pruned_until, %(until)s::timestamptz)
    WHERE symbol = %(symbol)s"""
_BELOW: LiteralString = """
    SELECT s.symbol, s.pruned_until, (
        SELECT sum(n)::bigint FROM {rollups_1d} r
        WHERE r.symbol = s.symbol AND r.res = 86400 AND r.bucket >= date_bin('1 day', first.ts, '1970-01-01Z')
          AND r.bucket < s.pruned_until)
    FROM {symbols} s CROSS JOIN LATERAL (
        SELECT t.ts FROM {ticks} t WHERE t.symbol = s.symbol AND t.ts < s.pruned_until ORDER BY t.ts LIMIT 1
    ) first
    WHERE s.symbol = ANY (%s::text[]) ORDER BY s.symbol"""
# A crash of PostgreSQL may lose the latest commits, but it never loses one and keeps a later one. So no deletion is
# kept without its line.
_SESSION = "SELECT set_config('marketdata.writer', 'pruning', true), set_config('synchronous_commit', 'off', true)"
# Each batch begins at the time of the last deleted tick. If it began at the symbol's first tick, it would pass the
# index entries of all ticks deleted before.
_DELETE: LiteralString = """
    WITH deleted AS (
        DELETE FROM {ticks} WHERE symbol = %(symbol)s AND ctid = ANY (ARRAY(
            SELECT ctid FROM {ticks} WHERE symbol = %(symbol)s AND ts >= %(since)s AND ts < %(line)s
            ORDER BY ts, seq, id LIMIT %(batch)s))
        RETURNING ts, block_number, block_hash
    ), blocks AS (
        INSERT INTO {pruned} AS p (symbol, since, max_block, blocks)
        SELECT %(symbol)s, min(ts), max(coalesce(block_number, 9223372036854775807)),
               array_agg(DISTINCT hashtextextended(block_hash, 0))
        FROM deleted WHERE block_hash IS NOT NULL GROUP BY date_bin('1 day', ts, '1970-01-01Z')
        ON CONFLICT (symbol, since) DO UPDATE
        SET max_block = greatest(p.max_block, excluded.max_block), blocks = p.blocks || excluded.blocks
    )
    SELECT count(*), max(ts) FROM deleted"""
