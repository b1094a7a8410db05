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


# The joined name is BASEQUOTE of CHAIN:BASE-QUOTE.
_RESOLVE: LiteralString = """
    SELECT coalesce(s.symbol, (
        SELECT min(symbol) FROM {symbols}
        WHERE upper(regexp_replace(regexp_replace(symbol, '^[^:]*:', ''), '-([^-]*)$', '\\1')) = upper(wanted.name)
        HAVING count(*) = 1))
    FROM jsonb_array_elements_text(%(names)s::jsonb) WITH ORDINALITY AS wanted (name, place)
    LEFT JOIN market_aliases a ON a.alias = wanted.name
    LEFT JOIN {symbols} s ON s.symbol = coalesce(a.symbol, wanted.name)
    ORDER BY wanted.place"""

_MARKETS: LiteralString = f"""
    SELECT s.symbol, k.price, k.size FROM {{symbols}} s CROSS JOIN LATERAL (
        SELECT max(min_scale(price)) AS price, max(min_scale(size)) AS size FROM (
            SELECT price, size FROM {{ticks}} WHERE symbol = s.symbol
            ORDER BY ts DESC, seq DESC, id DESC LIMIT {SAMPLE}
        ) t
    ) k WHERE k.price IS NOT NULL CHOSEN ORDER BY s.symbol"""


def resolved(conn: Connection, version: Version, names: Sequence[str]) -> list[str]:
    """The symbols of these names, in this order. A name is a symbol, an alias, or the base and the quote of only one
    symbol, joined without a hyphen, in any case. Raises NotFound (``unknown_symbol``) for another name."""
    with translated():
        found = prepared.rows(conn, version.query(_RESOLVE), {"names": json.dumps(list(names))})
    for name, (symbol,) in zip(names, found, strict=True):
        if symbol is None:
            raise unknown_symbol(name)
    return [symbol.decode() for (symbol,) in found]


def read(conn: Connection, version: Version, symbols: Sequence[str] | None = None) -> list[Market]:
    """All symbols that have ticks, or those of ``symbols``, by name."""
    chosen = "" if symbols is None else "AND s.symbol IN (SELECT jsonb_array_elements_text(%(symbols)s::jsonb))"
    statement = version.query(_MARKETS.replace("CHOSEN", chosen))
    with translated():
        found = prepared.rows(conn, statement, {"symbols": json.dumps(list(symbols or ()))})
    return [Market(symbol.decode(), int(price), int(size)) for symbol, price, size in found]
