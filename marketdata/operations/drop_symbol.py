"""``bin/marketdata-symbol drop S``: removes a symbol from the served version, with all that is stored of it.

One transaction removes everything. Writers of the symbol wait for it, those of other symbols do not. All versions share
the aliases. So the aliases of the symbol are removed too, unless another version has the symbol: then they still stand
for it there. A distributed version takes two transactions: the last one removes the symbol on its node. If the command
is killed between them, the symbol is still there, and the command can be repeated.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from difflib import get_close_matches
from functools import partial
from itertools import chain
from typing import LiteralString

from marketdata.errors import AlreadyRunning, UsageError
from marketdata.operations import aliases
from marketdata.operations.copy import is_copying
from marketdata.operations.symbol_access import SymbolAccess
from marketdata.store import leases, symbols
from marketdata.store.pool import Connection
from marketdata.store.symbols import Erased
from marketdata.store.version import Version

_CONTENTS: LiteralString = """
    SELECT (SELECT count(*) FROM {ticks} WHERE symbol = s.symbol), count(r.symbol),
           min(r.first_ts), max(r.last_ts)
    FROM {symbols} s LEFT JOIN {rollups} r ON r.symbol = s.symbol WHERE s.symbol = %s GROUP BY s.symbol"""


@dataclass(frozen=True)
class Contents:
    """What a version has of a symbol. ``first`` and ``last`` are the times of its first and last tick. ``tables`` names
    the ticks table of each version that has the symbol. ``holder`` is the ingestor that writes to this version."""

    ticks: int
    candles: int
    first: datetime | None
    last: datetime | None
    aliases: list[str]
    tables: list[str]
    holder: str | None


def contents(access: SymbolAccess, version: Version, symbol: str) -> Contents:
    """What ``drop`` would remove. Raises UsageError if the version does not have the symbol. The error names a similar
    symbol."""
    connection = access.connection
    row = access.read(version, [symbol], lambda c, v: c.execute(v.query(_CONTENTS), (symbol,)).fetchone())
    if row is None:
        raise unknown(access, version, symbol)
    counted, candles, first, last = row
    lease = leases.current(connection, f"ingestor-{version.ticks_table}")
    return Contents(
        ticks=counted,
        candles=candles,
        first=first,
        last=last,
        aliases=aliases.of(connection, symbol),
        tables=[each.ticks_table for each in aliases.versions_with(connection, symbol)],
        holder=lease.holder if lease else None,
    )


def drop(access: SymbolAccess, version: Version, symbol: str) -> tuple[Erased, list[str]]:
    """Remove the symbol. Returns what was removed, and the removed aliases. Raises AlreadyRunning during a copy, which
    could bring back a part."""
    connection = access.connection
    with connection.transaction():
        _refuse_copy(connection, version)
        if version.shards is None:
            erased = symbols.erase(connection, version, [symbol])
        else:
            symbols.forget(connection, version, [symbol])
        others = {each.ticks_table for each in aliases.versions_with(connection, symbol)} - {version.ticks_table}
        removed = [] if others else aliases.remove_all(connection, symbol)
    if version.shards is not None:
        erased = _erase_on_shard(access, version, symbol)
    return erased, removed


def _erase_on_shard(access: SymbolAccess, version: Version, symbol: str) -> Erased:
    """Remove the data. If this fails or is killed, the symbol is still listed, and can be dropped again."""
    with access.connection.transaction():
        _refuse_copy(access.connection, version)
        return access.write(version, [symbol], partial(symbols.erase_data, symbols=[symbol]))


def _refuse_copy(connection: Connection, version: Version) -> None:
    """No copy runs or begins until the transaction ends."""
    if is_copying(connection, version.prefix):
        raise AlreadyRunning(f"a copy of versions with the prefix {version.prefix} runs: wait for it, or stop it")


def unknown(access: SymbolAccess, version: Version, symbol: str) -> UsageError:
    """The error for a symbol of which nothing was ever stored. It names a similar one."""
    named = aliases.all_of(access.connection)
    if symbol in named:
        return UsageError(f"SYMBOL {symbol} is an alias: name its symbol, {named[symbol]}")
    lists = access.read_each(version, None, lambda c, v, _all: c.execute(v.query("SELECT symbol FROM {symbols}")))
    stored = {name.lower(): name for (name,) in chain.from_iterable(lists)}
    close = get_close_matches(symbol.lower(), stored, 1)
    nearest = f"; did you mean {stored[close[0]]}?" if close else ""
    return UsageError(
        f"SYMBOL {symbol[:80]!r}: version {version.n} ({version.ticks_table}) has no such symbol{nearest}"
    )
