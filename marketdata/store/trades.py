"""Reads ticks as trades with integers as ids (:mod:`marketdata.store.trade_numbers`), in the formats of Binance."""

from __future__ import annotations

from functools import cache
from typing import Any, Literal, LiteralString, NamedTuple

from marketdata.interval import clamped
from marketdata.store import prepared
from marketdata.store.pool import Connection
from marketdata.store.postgres_errors import translated
from marketdata.store.symbols import COUNTER_COLUMNS, IS_SYMBOL, cut, unknown_symbol
from marketdata.store.trade_numbers import MINUTE_OF_NUMBER, NUMBERING, count_before
from marketdata.store.version import Version
from marketdata.tick import LATEST

Format = Literal["trade", "aggregate"]
_Place = Literal["newest", "start", "number"]

_TIME = "{ms}(date_trunc('milliseconds', t.ts))"
_IS_SALE = "CASE t.side WHEN 'buy' THEN 'false' WHEN 'sell' THEN 'true' ELSE 'null' END"
# If the taker sold, the maker bought.
_ROWS: dict[Format, LiteralString] = {
    "trade": f"""
        '{{{{"id":', t.number, ',"price":"', trim_scale(t.price), '","qty":"', trim_scale(t.size),
        '","quoteQty":"', trim_scale(t.price * t.size), '","time":', {_TIME}, ',"isBuyerMaker":', {_IS_SALE},
        ',"isBestMatch":true}}}}'""",
    "aggregate": f"""
        '{{{{"a":', t.number, ',"p":"', trim_scale(t.price), '","q":"', trim_scale(t.size), '","f":', t.number,
        ',"l":', t.number, ',"T":', {_TIME}, ',"m":', {_IS_SALE}, ',"M":true}}}}'""",
}


class Trades(NamedTuple):
    """``body`` is a JSON array, the oldest trade first. :class:`marketdata.store.candles.Counter` describes the other
    members."""

    body: bytes
    symbol: str
    origin: str
    counter: int


def read(
    conn: Connection,
    version: Version,
    symbol: str,
    *,
    start: int | None = None,
    end: int | None = None,
    number: int | None = None,
    limit: int,
    format: Format,
) -> Trades:
    """Read ``limit`` trades: the first ones with this number or a greater one, or the first ones of [start, end), or
    without ``number`` and ``start`` the newest ones before ``end`` (microseconds). Raises NotFound (``unknown_symbol``)
    when nothing was ever stored of the symbol, and Pruned when the first of the trades is below the line of pruned
    ticks, or all are."""
    place: _Place = "number" if number is not None else "start" if start is not None else "newest"
    values: dict[str, Any] = {
        "symbol": symbol, "start": clamped(start), "end": clamped(LATEST if end is None else end), "number": number,
        "limit": limit,
    }  # fmt: skip
    with translated():
        answer = prepared.rows(conn, version.query(_statement(place, format)), values)
    if not answer:
        raise unknown_symbol(symbol)
    stored, origin, counter, body, _ = answer[0]
    return Trades(b"[%b]" % (body or b""), stored.decode(), origin.decode(), int(counter))


_FORWARD, _BACKWARD = "t.ts, t.seq, t.id", "t.ts DESC, t.seq DESC, t.id DESC"
_FROM_START = "t.ts >= {instant}(%(start)s::bigint)"
_BEFORE_END = "t.ts < {instant}(%(end)s::bigint)"
_FROM_LINE = "t.ts >= s.pruned_until"
_FROM_NUMBER = "t.ts >= minute.bucket AND (NOT numbering.by_seq OR t.seq >= %(number)s::bigint)"


def _page(
    conditions: LiteralString, order: LiteralString, counted: LiteralString, skipped: LiteralString = "0"
) -> LiteralString:
    """The ticks of a page. ``counted`` is their number where they are counted; ``place`` in it is 1 for the first tick
    that meets the conditions. ``skipped`` is how many of these come before the page."""
    number = counted.replace("place", f"row_number() OVER (ORDER BY {order})")
    return f"""LATERAL (
        SELECT t.*, CASE WHEN numbering.by_seq THEN t.seq ELSE {number} END AS number
        FROM {{ticks}} t WHERE t.symbol = s.symbol AND {conditions}
        ORDER BY {order} OFFSET {skipped} LIMIT %(limit)s::integer
    ) t"""


def _base(bound: LiteralString) -> LiteralString:
    """The count of ticks before a bound, where it is needed."""
    before = count_before(f"{{instant}}(%({bound})s::bigint)")
    return f"(SELECT CASE WHEN numbering.by_seq THEN 0 ELSE {before} END AS base) c CROSS JOIN"


_SKIPPED = "CASE WHEN numbering.by_seq THEN 0 ELSE %(number)s::bigint - minute.base END"

_PAGES: dict[_Place, LiteralString] = {
    "newest": f"{_base('end')} {_page(f'{_BEFORE_END} AND {_FROM_LINE}', _BACKWARD, 'c.base - place')}",
    "start": f"{_base('start')} {_page(f'{_FROM_START} AND {_BEFORE_END}', _FORWARD, 'c.base + place - 1')}",
    "number": f"{MINUTE_OF_NUMBER} CROSS JOIN {_page(_FROM_NUMBER, _FORWARD, 'minute.base + place - 1', _SKIPPED)}",
}

_ENDS_BELOW = "{instant}(%(end)s::bigint) <= s.pruned_until"
_NEEDS_PRUNED: dict[_Place, LiteralString] = {
    "newest": f"{_ENDS_BELOW} OR k.body IS NULL",
    "start": f"{_ENDS_BELOW} OR {{instant}}(%(start)s::bigint) < s.pruned_until",
    "number": f"coalesce((SELECT minute.bucket < s.pruned_until FROM {MINUTE_OF_NUMBER}), false)",
}


@cache
def _statement(place: _Place, format: Format) -> LiteralString:
    return f"""
        SELECT {COUNTER_COLUMNS}, k.body, {cut(_NEEDS_PRUNED[place])}
        FROM {{symbols}} s {NUMBERING} CROSS JOIN LATERAL (
            SELECT string_agg(concat({_ROWS[format]}), ',' ORDER BY t.ts, t.seq, t.id) AS body FROM {_PAGES[place]}
        ) k WHERE {IS_SYMBOL}"""
