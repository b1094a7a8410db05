"""The symbols of a version, and the SQL that all statements about one symbol share."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import LiteralString, NamedTuple

from psycopg.rows import class_row

from marketdata.errors import NotFound
from marketdata.store import prepared
from marketdata.store.pool import Connection
from marketdata.store.version import Version
from marketdata.tick import chain_of

IS_SYMBOL: LiteralString = (
    "s.symbol = coalesce((SELECT a.symbol FROM {aliases} a WHERE a.alias = %(symbol)s), %(symbol)s)"
)
"""Selects the row ``s`` of the symbols table for the parameter ``symbol``, a name or an alias."""

COUNTER_COLUMNS: LiteralString = """
    s.symbol, concat_ws('.', current_setting('marketdata.cluster', true), s.tableoid,
        (date_part('epoch', s.written_at) * 1000000)::bigint) AS origin, s.version"""
"""Columns of the row ``s``: the symbol, the origin of its counter, and the counter. The counter increases with every
transaction that writes to the symbol.

Counters start at 1 in every table, and start again after the table was emptied. So two equal counters may belong to
different data. The origin (cluster, table, and the time when the row was written) tells them apart. The number of the
transaction would not: after a failover that lost writes, a later transaction gets the same number.
"""


class StoredCounter(NamedTuple):
    """The symbol that a name stands for, and its counter: 0 if nothing was ever stored."""

    symbol: str
    counter: int


def cut(needs_pruned: LiteralString) -> LiteralString:
    """A column of the row ``s``: the line below which ticks of the symbol were pruned (microseconds), or NULL if none
    was. The statement raises the error ``pruned`` if ticks were pruned and the condition is true that the request needs
    them."""
    return f"""
        CASE WHEN s.pruned_until > '-infinity' THEN
            (extract(epoch FROM {{cut_at}}(s.symbol, s.pruned_until, {needs_pruned})) * 1000000)::bigint END"""


@dataclass(frozen=True)
class Symbol:
    """``first`` and ``last`` are the times of the symbol's first and last tick in milliseconds."""

    symbol: str
    aliases: list[str]
    first: int
    last: int
    finalized_block: int | None


_LIST = """
    SELECT s.symbol, ARRAY(SELECT a.alias FROM {aliases} a WHERE a.symbol = s.symbol ORDER BY 1) AS aliases,
           floor(extract(epoch FROM earliest.first_ts) * 1000)::bigint AS first,
           floor(extract(epoch FROM latest.last_ts) * 1000)::bigint AS last,
           CASE WHEN s.final_until < 'infinity' THEN greatest(s.finalized_block, h.finalized_block) END
               AS finalized_block
    FROM {symbols} s
    LEFT JOIN {chains} h ON h.chain = {chain_of}(s.symbol)
    CROSS JOIN LATERAL (
        SELECT r.first_ts FROM {rollups} r WHERE r.symbol = s.symbol AND r.res = 86400 ORDER BY r.bucket LIMIT 1
    ) earliest
    CROSS JOIN LATERAL (
        SELECT r.last_ts FROM {rollups} r WHERE r.symbol = s.symbol AND r.res = 86400 ORDER BY r.bucket DESC LIMIT 1
    ) latest
    ORDER BY s.symbol
"""
_COUNTERS: LiteralString = """
    SELECT wanted.name, coalesce(a.symbol, wanted.name), coalesce(s.version, 0)
    FROM jsonb_array_elements_text(%(names)s::jsonb) AS wanted (name)
    LEFT JOIN {aliases} a ON a.alias = wanted.name
    LEFT JOIN {symbols} s ON s.symbol = coalesce(a.symbol, wanted.name)"""
_ERASE: tuple[LiteralString, ...] = (
    "DELETE FROM {retracted} WHERE symbol = ANY (%s)",
    "DELETE FROM {pruned} WHERE symbol = ANY (%s)",
    "DELETE FROM {symbols} WHERE symbol = ANY (%s)",
)
_ERASE_CHAINS: tuple[LiteralString, ...] = (
    "DELETE FROM {chains} WHERE chain = ANY (%s)",
    "DELETE FROM {coverage} WHERE symbol = ANY (SELECT chain || ':*' FROM unnest(%s::text[]) AS chain)",
)
_REMOVED: LiteralString = """
    SELECT {changed}(symbol, min(first_ts), max(last_ts), 'removed') FROM {rollups_1d}
    WHERE symbol = ANY (%s) AND res = 86400 GROUP BY symbol"""
# If a copy still remembered a retraction of the symbol, it would treat the block as restored in the other version.
_FORGET: tuple[LiteralString, ...] = (
    "DELETE FROM market_copied_retracted WHERE %(table)s IN (source, target) AND symbol = ANY (%(symbols)s)",
    "DELETE FROM market_copied_coverage WHERE %(table)s IN (source, target) AND symbol = ANY (%(symbols)s)",
)


def list_all(conn: Connection, version: Version, _names: object = None) -> list[Symbol]:
    """The symbols that have ticks, by name. A symbol has none if all were retracted."""
    with conn.cursor(row_factory=class_row(Symbol)) as cursor:
        return cursor.execute(version.query(_LIST)).fetchall()


def merged(lists: Collection[list[Symbol]]) -> list[Symbol]:
    """The symbols of all shards, by name."""
    return sorted(chain.from_iterable(lists), key=lambda each: each.symbol)


def with_ticks(conn: Connection, version: Version, _names: object = None) -> set[str]:
    """The names of the symbols that have ticks."""
    found = conn.execute(
        version.query(
            "SELECT s.symbol FROM {symbols} s"
            " WHERE EXISTS (SELECT FROM {rollups_1d} r WHERE r.symbol = s.symbol AND r.res = 86400)"
        )
    )
    return {symbol for (symbol,) in found}


def unknown(conn: Connection, version: Version, symbols: Collection[str]) -> set[str]:
    """Returns the symbols of which nothing is stored."""
    found = conn.execute(
        version.query("SELECT unnest(%s::text[]) EXCEPT SELECT symbol FROM {symbols} WHERE symbol = ANY (%s)"),
        (list(symbols), list(symbols)),
    )
    return {symbol for (symbol,) in found}


class Erased(NamedTuple):
    """Numbers of deleted ticks and stored candles."""

    ticks: int
    candles: int


def erase(conn: Connection, version: Version, symbols: Sequence[str], *, with_chains: bool = False) -> Erased:
    """Delete everything stored about the symbols, in one transaction. Meanwhile the writers of these symbols wait.
    ``with_chains`` also deletes what is stored about their chains."""
    with conn.transaction():
        erased = erase_data(conn, version, symbols)
        forget(conn, version, symbols)
        chains = list(filter(None, map(chain_of, symbols)))
        for statement in _ERASE_CHAINS if with_chains else ():
            conn.execute(version.query(statement), (chains,))
    return erased


def erase_data(conn: Connection, version: Version, symbols: Sequence[str]) -> Erased:
    """Delete the ticks and candles of the symbols, and the symbols: what is in the shard of a distributed version."""
    with conn.transaction():
        conn.execute("SELECT set_config('marketdata.writer', 'pruning', true)")
        conn.execute(version.query("SELECT {lock}(%s)"), (symbols,))
        conn.execute(version.query(_REMOVED), (symbols,))
        erased = Erased(
            conn.execute(version.query("DELETE FROM {ticks} WHERE symbol = ANY (%s)"), (symbols,)).rowcount,
            conn.execute(version.query("DELETE FROM {rollups} WHERE symbol = ANY (%s)"), (symbols,)).rowcount,
        )
        for statement in _ERASE:
            conn.execute(version.query(statement), (symbols,))
    return erased


def forget(conn: Connection, version: Version, symbols: Sequence[str]) -> None:
    """Delete what else is stored about the symbols: what the coordinator writes for a distributed version."""
    with conn.transaction():
        conn.execute(version.query("DELETE FROM {coverage} WHERE symbol = ANY (%s)"), (symbols,))
        # An import would go on after the rows that it has stored. So all files are read from their beginning again.
        conn.execute(version.query("DELETE FROM {imports}"))
        for statement in _FORGET:
            conn.execute(statement, {"table": version.ticks_table, "symbols": symbols})


def counters(conn: Connection, version: Version, names: Collection[str]) -> dict[str, StoredCounter]:
    """The counters of these symbols or aliases, by the given name."""
    found = prepared.rows(conn, version.query(_COUNTERS), {"names": json.dumps(list(names))})
    return {name.decode(): StoredCounter(symbol.decode(), int(counter)) for name, symbol, counter in found}


def resolve(conn: Connection, version: Version, symbol: str) -> str:
    """The symbol that this name or alias means. Raises NotFound if nothing was ever stored of it."""
    statement = version.query("SELECT s.symbol FROM {symbols} s WHERE " + IS_SYMBOL)
    row = conn.execute(statement, {"symbol": symbol}).fetchone()
    if row is None:
        raise unknown_symbol(symbol)
    return str(row[0])


def pruned_until(conn: Connection, version: Version, symbol: str) -> int:
    """The line of this symbol or alias in milliseconds: the ticks before it were pruned, or will be. Raises NotFound if
    no tick was."""
    line: LiteralString = "SELECT (extract(epoch FROM s.pruned_until) * 1000)::bigint FROM {symbols} s WHERE "
    row = conn.execute(
        version.query(line + IS_SYMBOL + " AND s.pruned_until > '-infinity'"), {"symbol": symbol}
    ).fetchone()
    if row is None:
        raise unknown_symbol(symbol)
    return int(row[0])


def is_known(conn: Connection, version: Version, symbol: str) -> bool:
    """Whether anything was ever stored for this symbol or alias."""
    row = conn.execute(version.query("SELECT FROM {symbols} WHERE symbol = {canonical}(%s)"), (symbol,)).fetchone()
    return row is not None


def unknown_symbol(symbol: str) -> NotFound:
    """The error for a symbol for which nothing was ever stored."""
    return NotFound(f"there is no symbol {symbol}; /v1/symbols lists all symbols", code="unknown_symbol")
