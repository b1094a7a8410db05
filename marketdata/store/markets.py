"""Finds symbols as the clients of an exchange name them, and how many decimals their prices and sizes have."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import LiteralString, NamedTuple

from marketdata.store import prepared
from marketdata.store.pool import Connection
from marketdata.store.postgres_errors import translated
from marketdata.store.symbols import unknown_symbol
from marketdata.store.version import Version

SAMPLE = 20
"""The newest ticks of a symbol whose decimals are counted."""


class Market(NamedTuple):
    """A symbol, and the greatest number of decimals among the prices and among the sizes of its newest :data:`SAMPLE`
    ticks."""

    symbol: str
    price_decimals: int
    size_decimals: int


_EXACT: LiteralString = """
    SELECT wanted.name, s.symbol FROM jsonb_array_elements_text(%(names)s::jsonb) AS wanted (name)
    LEFT JOIN market_aliases a ON a.alias = wanted.name
    JOIN {symbols} s ON s.symbol = coalesce(a.symbol, wanted.name)"""

# The joined name is BASEQUOTE of CHAIN:BASE-QUOTE.
_JOINED: LiteralString = """
    SELECT wanted.name, min(s.symbol) FROM jsonb_array_elements_text(%(names)s::jsonb) AS wanted (name)
    JOIN {symbols} s
    ON upper(wanted.name) = upper(regexp_replace(regexp_replace(s.symbol, '^[^:]*:', ''), '-([^-]*)$', '\\1'))
    GROUP BY wanted.name HAVING count(DISTINCT s.symbol) = 1"""

_ALL: LiteralString = "{symbols} s"
_NAMED: LiteralString = """
    jsonb_array_elements_text(%(symbols)s::jsonb) WITH ORDINALITY AS wanted (symbol, place)
    JOIN {symbols} s ON s.symbol = wanted.symbol"""

_DECIMALS: LiteralString = f"""
    SELECT s.symbol, k.price, k.size FROM CHOSEN CROSS JOIN LATERAL (
        SELECT max(min_scale(price)) AS price, max(min_scale(size)) AS size FROM (
            SELECT price, size FROM {{ticks}} WHERE symbol = s.symbol
            ORDER BY ts DESC, seq DESC, id DESC LIMIT {SAMPLE}
        ) t
    ) k WHERE k.price IS NOT NULL ORDER BY ORDERED"""

_PRICES: LiteralString = """
    SELECT s.symbol, last.price FROM CHOSEN LEFT JOIN LATERAL (
        SELECT trim_scale(price) AS price FROM {ticks} WHERE symbol = s.symbol AND ts <= now()
        ORDER BY ts DESC, seq DESC, id DESC LIMIT 1
    ) last ON true ORDER BY ORDERED"""


def resolved(conn: Connection, version: Version, names: Sequence[str]) -> list[str]:
    """The symbols of these names, in this order. A name is a symbol, an alias, or the base and the quote of only one
    symbol, joined without a hyphen, in any case. Raises NotFound (``unknown_symbol``) for another name."""
    found: dict[str, str] = {}
    for statement in (_EXACT, _JOINED):
        missing = [name for name in names if name not in found]
        if missing:
            with translated():
                rows = prepared.rows(conn, version.query(statement), {"names": json.dumps(missing)})
            found |= {name.decode(): symbol.decode() for name, symbol in rows}
    for name in names:
        if name not in found:
            raise unknown_symbol(name)
    return [found[name] for name in names]


def read(conn: Connection, version: Version, symbols: Sequence[str] | None = None) -> list[Market]:
    """The markets of all symbols by name, or of ``symbols`` in their order. Symbols without ticks are left out."""
    found = _rows(conn, version, _DECIMALS, symbols)
    return [Market(symbol.decode(), int(price), int(size)) for symbol, price, size in found]


def last_prices(conn: Connection, version: Version, symbols: Sequence[str] | None = None) -> dict[str, str | None]:
    """The price of the last tick up to now, of all symbols by name, or of ``symbols`` in their order. It is None if no
    such tick exists; of all symbols, those without a price are left out."""
    found = _rows(conn, version, _PRICES, symbols)
    return {
        symbol.decode(): price and price.decode() for symbol, price in found if price is not None or symbols is not None
    }


def _rows(
    conn: Connection, version: Version, statement: LiteralString, symbols: Sequence[str] | None
) -> list[prepared.Row]:
    chosen, order = (_ALL, "s.symbol") if symbols is None else (_NAMED, "wanted.place")
    query = version.query(statement.replace("CHOSEN", chosen).replace("ORDERED", order))
    with translated():
        return prepared.rows(conn, query, {"symbols": json.dumps(list(symbols or ()))})
