"""``bin/marketdata-alias``: other names of symbols, which every version shares.

The name of a symbol with stored data cannot be an alias, because the alias would hide these data. An alias stands for a
symbol and not for another alias, because names are looked up once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from psycopg import sql

from marketdata.errors import StateError, UsageError
from marketdata.store import migrations, shards
from marketdata.store.pool import Connection
from marketdata.store.version import Version
from marketdata.tick import SYMBOL

_LOCK_S = 10
_WORDING = "1 to 64 of the characters A-Z a-z 0-9 : . _ / -"


def add(connection: Connection, alias: str, symbol: str) -> bool:
    """Add the alias. Returns False if it already stands for this symbol. Raises UsageError, and changes nothing, if the
    alias is not allowed."""
    _check_name("ALIAS", alias)
    _check_name("SYMBOL", symbol)
    if alias == symbol:
        raise UsageError(f"ALIAS and SYMBOL are both {symbol}: an alias is another name of the symbol")
    with _nothing_stored_meanwhile(connection) as tables:
        aliases = all_of(connection)
        if aliases.get(alias) == symbol:
            return False
        _check_free(aliases, alias, symbol)
        for table in tables:
            if _has(connection, table, alias):
                raise UsageError(
                    f"ALIAS {alias} is already a symbol in {table}; the alias would hide its data: choose another alias"
                )
        connection.execute("INSERT INTO market_aliases (alias, symbol) VALUES (%s, %s)", (alias, symbol))
    return True


def remove(connection: Connection, alias: str) -> str:
    """Remove the alias and return its symbol. Raises UsageError if there is no such alias."""
    with connection.transaction():
        _hold_shard_writers(connection)
        row = connection.execute("DELETE FROM market_aliases WHERE alias = %s RETURNING symbol", (alias,)).fetchone()
    if row is None:
        raise UsageError(f"ALIAS {alias[:80]!r}: there is no such alias; bin/marketdata-alias list shows all")
    return str(row[0])


def remove_all(connection: Connection, symbol: str) -> list[str]:
    """Remove the aliases of the symbol, and return them."""
    with connection.transaction():
        _hold_shard_writers(connection)
        rows = connection.execute("DELETE FROM market_aliases WHERE symbol = %s RETURNING alias", (symbol,))
    return sorted(alias for (alias,) in rows)


def of(connection: Connection, symbol: str) -> list[str]:
    """The aliases of the symbol."""
    return [alias for alias, stored in all_of(connection).items() if stored == symbol]


def all_of(connection: Connection) -> dict[str, str]:
    """The symbol of each alias, by alias."""
    return dict(connection.execute("SELECT alias, symbol FROM market_aliases ORDER BY alias").fetchall())


def versions_with(connection: Connection, symbol: str) -> list[Version]:
    """The versions that have the symbol, for all prefixes."""
    return [each for each in _versions(connection) if _has(connection, each.name("symbols"), symbol)]


def _check_name(field: str, name: str) -> None:
    if not SYMBOL.fullmatch(name):
        raise UsageError(f"{field} {name[:80]!r}: a name has {_WORDING}")


def _check_free(aliases: dict[str, str], alias: str, symbol: str) -> None:
    if alias in aliases:
        raise UsageError(
            f"ALIAS {alias} stands for {aliases[alias]}: remove it first with bin/marketdata-alias remove {alias}"
        )
    if symbol in aliases:
        raise UsageError(f"SYMBOL {symbol} is itself an alias: name its symbol, {aliases[symbol]}")
    if alias in aliases.values():
        raise UsageError(f"ALIAS {alias} is a symbol with aliases: bin/marketdata-alias list shows these")


@contextmanager
def _nothing_stored_meanwhile(connection: Connection) -> Iterator[list[str]]:
    """Run the block in a transaction that locks the symbols table of every version, so that no new symbol is stored
    meanwhile. Yields the names of these tables."""
    with connection.transaction():
        migrations.lock(connection)
        tables = [each.name("symbols") for each in _versions(connection)]
        _hold_writers(connection, tables)
        yield tables


def _hold_shard_writers(connection: Connection) -> None:
    """Let no symbol of a distributed version be stored until the transaction ends. A writer looks an alias up twice,
    first to find its shard and then on the shard. Both must give the same symbol."""
    _hold_writers(connection, [each.name("symbols") for each in _versions(connection) if each.shards is not None])


def _hold_writers(connection: Connection, tables: Sequence[str]) -> None:
    shards.limit_lock_waits(connection, _LOCK_S)
    for table in tables:
        try:
            connection.execute(sql.SQL("LOCK TABLE {} IN SHARE ROW EXCLUSIVE MODE").format(sql.Identifier(table)))
        except shards.LOCK_WAIT_ENDED as error:
            raise StateError(
                f"{table} has been written to by one transaction for over {_LOCK_S} s; nothing was changed: try again"
            ) from error


def _versions(connection: Connection) -> list[Version]:
    """All registered versions, for all prefixes."""
    rows = connection.execute(
        "SELECT ticks_table, candles_function, shards FROM market_versions ORDER BY prefix, n"
    ).fetchall()
    return [replace(Version.from_names(*names), shards=count) for *names, count in rows]


def _has(connection: Connection, table: str, symbol: str) -> bool:
    statement = sql.SQL("SELECT FROM {} WHERE symbol = %s").format(sql.Identifier(table))
    return connection.execute(statement, (symbol,)).fetchone() is not None
