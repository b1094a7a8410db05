"""Finds symbols as the clients of an exchange name them, their assets, and the decimals of their prices and sizes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Sequence
from functools import partial
from itertools import chain
from typing import LiteralString, NamedTuple

from marketdata.errors import FieldError, InvalidValue
from marketdata.store import prepared
from marketdata.store.placement import ReadNamed
from marketdata.store.pool import Connection
from marketdata.store.postgres_errors import translated
from marketdata.store.symbols import unknown_symbol
from marketdata.store.version import Version

SAMPLE = 20
"""The newest ticks of a symbol whose decimals are counted."""
AMBIGUOUS = "ambiguous"
"""The ``rule`` of a FieldError about a joined name that several symbols have."""
_SHOWN = 5
"""Symbols that the refusal of an ambiguous name lists."""
_SUFFIXED = "^(?:[^:]*:)?([^-]+)-([^-]+)-(?:[0-9a-f]{6}|[0-9a-f]{12}|[0-9a-f]{24}|[0-9a-f]{40})$"
"""A symbol with a pool's suffix: the end of its address, because BASE-QUOTE was taken
(:func:`marketdata.source.tokens.free_name`). Python and PostgreSQL read this expression alike."""


class Market(NamedTuple):
    """A symbol, and the greatest number of decimals among the prices and among the sizes of its newest :data:`SAMPLE`
    ticks, and of the newest minutes whose ticks were pruned."""

    symbol: str
    price_decimals: int
    size_decimals: int


_EXACT: LiteralString = """
    SELECT wanted.name, s.symbol FROM jsonb_array_elements_text(%(names)s::jsonb) AS wanted (name)
    LEFT JOIN {aliases} a ON a.alias = wanted.name
    JOIN {symbols} s ON s.symbol = coalesce(a.symbol, wanted.name)"""

# The joined name is BASEQUOTE of CHAIN:BASE-QUOTE. A pool with a suffix has no joined name, so that it makes no other
# pool's joined name ambiguous.
_JOINED: LiteralString = """
    SELECT DISTINCT wanted.name, s.symbol FROM jsonb_array_elements_text(%(names)s::jsonb) AS wanted (name)
    JOIN {symbols} s
    ON upper(wanted.name) = upper(regexp_replace(regexp_replace(s.symbol, '^[^:]*:', ''), '-([^-]*)$', '\\1'))
    WHERE s.symbol !~ %(suffixed)s::text"""

_ALL: LiteralString = "{symbols} s"
_NAMED: LiteralString = """
    jsonb_array_elements_text(%(symbols)s::jsonb) WITH ORDINALITY AS wanted (symbol, place)
    JOIN {symbols} s ON s.symbol = wanted.symbol"""

_DECIMALS: LiteralString = f"""
    SELECT s.symbol, k.price, k.size FROM CHOSEN CROSS JOIN LATERAL (
        SELECT max(min_scale(price)) AS price, max(min_scale(size)) AS size FROM (
            (SELECT price, size FROM {{ticks}} WHERE symbol = s.symbol AND ts >= s.pruned_until
             ORDER BY ts DESC, seq DESC, id DESC LIMIT {SAMPLE})
            UNION ALL
            (SELECT close, volume FROM {{rollups_1m}}
             WHERE symbol = s.symbol AND res = 60 AND bucket < s.pruned_until ORDER BY bucket DESC LIMIT {SAMPLE})
        ) t
    ) k WHERE k.price IS NOT NULL ORDER BY ORDERED"""

_PRICES: LiteralString = """
    SELECT s.symbol, last.price FROM CHOSEN LEFT JOIN LATERAL (
        (SELECT trim_scale(price) AS price, ts FROM {ticks}
         WHERE symbol = s.symbol AND ts <= now() AND ts >= s.pruned_until ORDER BY ts DESC, seq DESC, id DESC LIMIT 1)
        UNION ALL
        (SELECT close, last_ts FROM {rollups_1d}
         WHERE symbol = s.symbol AND res = 86400 AND bucket < s.pruned_until ORDER BY bucket DESC LIMIT 1)
        ORDER BY ts DESC LIMIT 1
    ) last ON true ORDER BY ORDERED"""


def has_suffix(symbol: str) -> bool:
    """Whether NAME of ``CHAIN:NAME`` is BASE-QUOTE with the end of a pool's address."""
    return re.search(_SUFFIXED, symbol) is not None


def assets(symbol: str) -> tuple[str, str]:
    """Base and quote: the first two parts of a NAME with a pool's suffix, else NAME split at its last hyphen. Without a
    hyphen, the quote is empty."""
    suffixed = re.search(_SUFFIXED, symbol)
    if suffixed:
        return suffixed[1], suffixed[2]
    base, _, quote = (symbol.partition(":")[2] or symbol).rpartition("-")
    return (base, quote) if base else (quote, "")


Matches = list[tuple[str, str]]
"""Names, each with a symbol that has the name."""


def resolved(
    names: Sequence[str],
    read_each: Callable[[Collection[str] | None, ReadNamed[Matches]], list[Matches]],
) -> list[str]:
    """The symbols of these names, in this order. A name is a symbol, an alias, or the base and the quote of only one
    symbol, joined without a hyphen, in any case. Raises InvalidValue if several symbols have a joined name, NotFound
    (``unknown_symbol``) for another name. ``read_each`` calls a read on each shard that has some of these names, or
    with None on each shard."""
    found: dict[str, list[str]] = {}
    for matches in read_each(names, _exact):
        for name, symbol in matches:
            found[name] = [symbol]
    missing = [name for name in names if name not in found]
    if missing:
        for name, symbol in sorted(chain.from_iterable(read_each(None, partial(_joined, missing)))):
            found.setdefault(name, []).append(symbol)
    return [_only(name, found.get(name, [])) for name in names]


def _exact(conn: Connection, version: Version, names: Collection[str] | None) -> Matches:
    return _matches(conn, version, _EXACT, names or ())


def _joined(names: Collection[str], conn: Connection, version: Version, _all: Collection[str] | None) -> Matches:
    return _matches(conn, version, _JOINED, names)


def _matches(conn: Connection, version: Version, statement: LiteralString, names: Collection[str]) -> Matches:
    values = {"names": json.dumps(list(names)), "suffixed": _SUFFIXED}
    with translated():
        rows = prepared.rows(conn, version.query(statement), values)
    return [(name.decode(), symbol.decode()) for name, symbol in rows]


def _only(name: str, symbols: Sequence[str]) -> str:
    if not symbols:
        raise unknown_symbol(name)
    if len(symbols) > 1:
        listed = ", ".join(symbols[:_SHOWN]) + (", …" if len(symbols) > _SHOWN else "")
        message = f"{name} has several meanings; name one of them: {listed}"
        raise InvalidValue(message, errors=(FieldError("/symbol", message, AMBIGUOUS),))
    return symbols[0]


def read(conn: Connection, version: Version, symbols: Collection[str] | None = None) -> list[Market]:
    """The markets of all symbols by name, or of ``symbols`` in their order. Symbols without ticks are left out."""
    found = _rows(conn, version, _DECIMALS, symbols)
    return [Market(symbol.decode(), int(price), int(size)) for symbol, price, size in found]


def last_prices(conn: Connection, version: Version, symbols: Collection[str] | None = None) -> dict[str, str | None]:
    """The price of the last tick up to now, of all symbols by name, or of ``symbols`` in their order. It is None if no
    such tick exists; of all symbols, those without a price are left out."""
    found = _rows(conn, version, _PRICES, symbols)
    return {
        symbol.decode(): price and price.decode() for symbol, price in found if price is not None or symbols is not None
    }


def _rows(
    conn: Connection, version: Version, statement: LiteralString, symbols: Collection[str] | None
) -> list[prepared.Row]:
    chosen, order = (_ALL, "s.symbol") if symbols is None else (_NAMED, "wanted.place")
    query = version.query(statement.replace("CHOSEN", chosen).replace("ORDERED", order))
    with translated():
        return prepared.rows(conn, query, {"symbols": json.dumps(list(symbols or ()))})
