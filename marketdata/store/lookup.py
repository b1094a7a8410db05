"""What every statement about the data of one symbol shares: how it is found, and which bounds it is asked with."""

from __future__ import annotations

from typing import LiteralString, overload

from marketdata.errors import NotFound
from marketdata.interval import DAY
from marketdata.tick import EARLIEST, LATEST

OF_SYMBOL: LiteralString = (
    "s.symbol = coalesce((SELECT a.symbol FROM market_aliases a WHERE a.alias = %(symbol)s), %(symbol)s)"
)
"""The row ``s`` of the symbols table that the parameter ``symbol``, a name or an alias, stands for."""

AS_IT_STANDS: LiteralString = """
    s.symbol, concat_ws('.', current_setting('marketdata.cluster', true), s.tableoid, s.xmin) AS origin, s.version"""
"""Of that row: the symbol's own name, where its counter comes from, and the counter. Counters begin at 1 in every
table, and again in one that was emptied; cluster, table and the transaction that wrote the row tell them apart."""


@overload
def within(bound: int) -> int: ...
@overload
def within(bound: None) -> None: ...
@overload
def within(bound: int | None) -> int | None: ...
def within(bound: int | None) -> int | None:
    """A bound (microseconds) brought near to the times that ticks may have: it chooses the same ticks and candles, and
    PostgreSQL knows it as a time."""
    return None if bound is None else max(EARLIEST - 40 * DAY, min(bound, LATEST + 40 * DAY))


def unknown(symbol: str) -> NotFound:
    """The error for a symbol that nothing was ever stored of."""
    return NotFound(f"there is no symbol {symbol}; /v1/symbols lists those that there are", code="unknown_symbol")
