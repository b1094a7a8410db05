"""SQL and arguments that all statements about one symbol share."""

from __future__ import annotations

from typing import LiteralString, overload

from marketdata.errors import NotFound
from marketdata.interval import DAY
from marketdata.tick import EARLIEST, LATEST

IS_SYMBOL: LiteralString = (
    "s.symbol = coalesce((SELECT a.symbol FROM market_aliases a WHERE a.alias = %(symbol)s), %(symbol)s)"
)
"""Selects the row ``s`` of the symbols table for the parameter ``symbol``, a name or an alias."""

COUNTER_COLUMNS: LiteralString = """
    s.symbol, concat_ws('.', current_setting('marketdata.cluster', true), s.tableoid, s.xmin) AS origin, s.version"""
"""Of that row: the symbol, the origin of its counter, and the counter. A counter starts at 1 in every table, and again
after the table was emptied; the cluster, the table and the transaction that wrote the row tell equal numbers apart."""


@overload
def clamped(bound: int) -> int: ...
@overload
def clamped(bound: None) -> None: ...
@overload
def clamped(bound: int | None) -> int | None: ...
def clamped(bound: int | None) -> int | None:
    """A bound (microseconds) limited to 40 days around the times that ticks can have. It selects the same ticks and
    candles, and is in the range of PostgreSQL's timestamps."""
    return None if bound is None else max(EARLIEST - 40 * DAY, min(bound, LATEST + 40 * DAY))


def unknown_symbol(symbol: str) -> NotFound:
    """The error for a symbol of which nothing was ever stored."""
    return NotFound(f"there is no symbol {symbol}; /v1/symbols lists all symbols", code="unknown_symbol")
