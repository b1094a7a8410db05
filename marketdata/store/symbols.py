"""Which symbols a version holds."""

from __future__ import annotations

from dataclasses import dataclass

from psycopg.rows import class_row

from marketdata.store.pool import Connection
from marketdata.store.version import Version


@dataclass(frozen=True)
class Symbol:
    """``first`` and ``last``: times of its ticks in milliseconds."""

    symbol: str
    aliases: list[str]
    first: int
    last: int
    finalized_block: int | None


_LIST = """
    SELECT s.symbol, ARRAY(SELECT a.alias FROM market_aliases a WHERE a.symbol = s.symbol ORDER BY 1) AS aliases,
           floor(extract(epoch FROM earliest.first_ts) * 1000)::bigint AS first,
           floor(extract(epoch FROM latest.last_ts) * 1000)::bigint AS last,
           s.finalized_block
    FROM {symbols} s
    CROSS JOIN LATERAL (
        SELECT r.first_ts FROM {rollups} r WHERE r.symbol = s.symbol AND r.res = 86400 ORDER BY r.bucket LIMIT 1
    ) earliest
    CROSS JOIN LATERAL (
        SELECT r.last_ts FROM {rollups} r WHERE r.symbol = s.symbol AND r.res = 86400 ORDER BY r.bucket DESC LIMIT 1
    ) latest
    ORDER BY s.symbol
"""


def list_all(conn: Connection, version: Version) -> list[Symbol]:
    """Every symbol that has a tick, by name. A block may be retracted before its first tick comes, and of a symbol that
    was mistyped none ever does."""
    with conn.cursor(row_factory=class_row(Symbol)) as cursor:
        return cursor.execute(version.query(_LIST)).fetchall()


def is_known(conn: Connection, version: Version, symbol: str) -> bool:
    """Whether something was ever stored of it; an alias counts as what it stands for."""
    row = conn.execute(version.query("SELECT FROM {symbols} WHERE symbol = {canonical}(%s)"), (symbol,)).fetchone()
    return row is not None
