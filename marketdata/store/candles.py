"""Candles as text: PostgreSQL makes the rows in the form that is answered, and they are passed through as they are."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, LiteralString, Self

from marketdata.interval import SECOND, bucket_open
from marketdata.store import prepared
from marketdata.store.lookup import AS_IT_STANDS, OF_SYMBOL, unknown, within
from marketdata.store.pool import Connection, translated
from marketdata.store.version import Version

Format = Literal["object", "columns", "binance", "ccxt", "csv", "udf"]

_T = "{ms}(c.t)"
_T_END = "({ms}(c.t_end) - 1)"
_VWAP = """coalesce('"' || c.vwap || '"', 'null')"""


def _rows(expression: str, separator: str = "','") -> str:
    return f"string_agg(concat({expression}), {separator} ORDERED) KEPT"


def _columns(**columns: str) -> str:
    parts = (f"""'"{name}":[', string_agg({value}, ',' ORDERED) KEPT, ']'""" for name, value in columns.items())
    return f"""concat({", ',', ".join(parts)})"""


def _quoted(column: str) -> str:
    return f"""'"' || c.{column} || '"'"""


# SQL with the store's own names in braces: what is made of the rows c of the candles function.
# Binance tells takers' volumes too, which are not kept: 0.
_BODIES: dict[Format, str] = {
    # One concatenation of ready texts: where json_prefix is kept, all else of the query costs more than this.
    "object": f"""string_agg(
        coalesce(c.json_prefix, concat(
            '{{{{"t":', {_T}, ',"T":', {_T_END}, ',"o":"', c.open, '","h":"', c.high, '","l":"', c.low,
            '","c":"', c.close, '","v":"', c.volume, '","q":"', c.quote, '","n":', c.n, ',"vwap":', {_VWAP}))
        || CASE WHEN c.finalized THEN ',"closed":true,"finalized":true'
                WHEN c.closed THEN ',"closed":true,"finalized":false'
                ELSE ',"closed":false,"finalized":false' END || '}}}}', ',' ORDERED) KEPT""",
    "columns": _columns(
        t=f"{_T}::text",
        T=f"{_T_END}::text",
        o=_quoted("open"),
        h=_quoted("high"),
        l=_quoted("low"),
        c=_quoted("close"),
        v=_quoted("volume"),
        q=_quoted("quote"),
        n="c.n::text",
        vwap=_VWAP,
        closed="c.closed::text",
        finalized="c.finalized::text",
    ),
    "binance": _rows(
        f"""'[', {_T}, ',"', c.open, '","', c.high, '","', c.low, '","', c.close, '","', c.volume, '",', {_T_END}, ',"',
        c.quote, '",', c.n, ',"0","0","0"]'"""
    ),
    "ccxt": _rows(f"'[', {_T}, ',', c.open, ',', c.high, ',', c.low, ',', c.close, ',', c.volume, ']'"),
    "csv": _rows(
        f"""{_T}, ',', {_T_END}, ',', c.open, ',', c.high, ',', c.low, ',', c.close, ',', c.volume, ',', c.quote, ',',
        c.n, ',', c.vwap, ',', c.closed::text, ',', c.finalized::text, chr(10)""",
        "''",
    ),
    "udf": _columns(
        t="({ms}(c.t) / 1000)::text",
        o="c.open::text",
        h="c.high::text",
        l="c.low::text",
        c="c.close::text",
        v="c.volume::text",
    ),
}

_ENVELOPES: dict[Format, tuple[str, str]] = {
    "object": ('{{"symbol":"{symbol}","interval":"{interval}","candles":[', '],"more":{more},"as_of":'),
    "columns": ('{{"symbol":"{symbol}","interval":"{interval}","candles":{{', '}},"more":{more},"as_of":'),
    "binance": ("[", "]"),
    "ccxt": ("[", "]"),
    "csv": ("t,T,o,h,l,c,v,q,n,vwap,closed,finalized\n", ""),
    "udf": ('{{"s":"ok",', "}}"),
}

_NOW = "(date_part('epoch', now() AT TIME ZONE 'UTC') * 1000000)::bigint"  # a double tells these microseconds exactly
_COUNTERS: LiteralString = f"""
    SELECT asked.name, {AS_IT_STANDS}, {_NOW} FROM jsonb_array_elements_text(%(names)s::jsonb) AS asked (name)
    LEFT JOIN market_aliases a ON a.alias = asked.name
    JOIN {{symbols}} s ON s.symbol = coalesce(a.symbol, asked.name)"""


@dataclass(frozen=True, slots=True)
class Counter:
    """The version counter of ``symbol`` (no alias), as it stood at ``now`` by the database's clock (microseconds);
    ``origin`` tells it from the same number of another table or database."""

    symbol: str
    origin: str
    counter: int
    now: int


@dataclass(frozen=True, slots=True)
class State:
    """What an answer depends on beside its parameters: ``symbol`` (no alias), the ``counter`` of that ``origin``, and
    ``clock``, the opening time (seconds) of the bucket that is open now. ``as_of`` is the database's time in
    milliseconds."""

    symbol: str
    origin: str
    counter: int
    clock: int
    as_of: int

    @classmethod
    def of(cls, counter: Counter, interval: str, shift: int) -> Self:
        """What ``counter`` says of candles of ``interval``, their buckets moved by ``shift`` minutes."""
        clock = bucket_open(counter.now, interval, shift) // SECOND
        return cls(counter.symbol, counter.origin, counter.counter, clock, counter.now // 1000)


@dataclass(frozen=True, slots=True)
class Chart:
    """The answer's text is ``head``, then ``as_of`` and ``}`` where the format tells it: :attr:`body` is all of it.

    ``more``: the limit left candles out. ``count`` is how many are in it.
    """

    state: State
    head: bytes
    count: int
    more: bool
    has_as_of: bool

    @property
    def body(self) -> bytes:
        return b"%b%d}" % (self.head, self.state.as_of) if self.has_as_of else self.head


_LEVELS: dict[str, LiteralString] = {
    "1m": "60",
    "15m": "900",
    "30m": "1800",
    "1h": "3600",
    "4h": "14400",
    "1d": "86400",
}
"""The stored intervals, and the seconds by which the rows of each are marked."""


def counters(conn: Connection, version: Version, names: Collection[str]) -> dict[str, Counter]:
    """The counter of every symbol or alias that something was ever stored of."""
    with translated():
        found = prepared.rows(conn, version.query(_COUNTERS), {"names": json.dumps(list(names))})
    return {str(name, "utf-8"): _counter(counter) for name, *counter in found}


def read(
    conn: Connection,
    version: Version,
    symbol: str,
    interval: str,
    *,
    start: int | None = None,
    end: int | None = None,
    limit: int = 500,
    sort: Literal["asc", "desc"] = "asc",
    fill: Literal["none", "previous"] = "none",
    shift: int = 0,
    current: Literal["include", "exclude"] = "include",
    format: Format = "object",
) -> Chart:
    """Candles whose opening time lies in [start, end] (microseconds): the first ``limit`` from ``start`` on, without it
    the newest. ``sort`` is the order they are told in, ``shift`` minutes (:func:`marketdata.interval.time_zone_shift`).

    State and rows are of one statement. NotFound (``unknown_symbol``) for a symbol that nothing was ever stored of.
    """
    asked = {
        "symbol": symbol, "interval": interval, "start": within(start), "end": within(end), "limit": limit,
        "fill": fill, "shift": shift, "current": current,
    }  # fmt: skip
    with translated():
        answer = prepared.rows(conn, version.query(_chosen(version, asked, format, sort)), asked)
    if not answer:
        raise unknown(symbol)
    *counter, found, rows = answer[0]
    state = State.of(_counter(counter), interval, shift)
    count = int(found or 0)
    before, after = _ENVELOPES[format]
    told = {"symbol": state.symbol, "interval": interval, "more": "true" if count > limit else "false"}
    head = b"%b%b%b" % (before.format(**told).encode(), rows or b"", after.format(**told).encode())
    return Chart(state, head, min(count, limit), count > limit, format in ("object", "columns"))


def _counter(row: Sequence[Any]) -> Counter:
    symbol, origin, counter, now = row
    return Counter(str(symbol, "utf-8"), str(origin, "utf-8"), int(counter), int(now))


def _chosen(version: Version, asked: Mapping[str, Any], format: Format, sort: str) -> LiteralString:
    """The statement for what is asked. Both give one row: a :class:`Counter`, how many candles, and their text."""
    interval, is_forward, is_descending = asked["interval"], asked["start"] is not None, sort == "desc"
    is_plain = format == "object" and asked["fill"] == "none" and asked["current"] == "include"
    if is_plain and version.has_own_candles and _is_stored(interval, asked["shift"]):
        return _told(interval, is_forward=is_forward, is_descending=is_descending)
    return _statement(format, is_reversed=is_forward == is_descending)


@lru_cache
def _statement(format: Format, *, is_reversed: bool) -> LiteralString:
    """One row more than wanted is asked for; it tells whether there is more. The function's order needs no sorting."""
    body = _BODIES[format].replace("ORDERED", "ORDER BY c.ord DESC" if is_reversed else "")
    body = body.replace("KEPT", "FILTER (WHERE c.ord <= %(limit)s)")
    return f"""
        SELECT {AS_IT_STANDS}, {_NOW}, k.found, k.body FROM {{symbols}} s CROSS JOIN LATERAL (
            SELECT count(*) AS found, {body} AS body
            FROM {{candles}}(s.symbol, %(interval)s, {{instant}}(%(start)s::bigint), {{instant}}(%(end)s::bigint),
                             %(limit)s::integer + 1, %(fill)s, %(shift)s::integer, %(current)s) WITH ORDINALITY
                 AS c (symbol, bucket, t, t_end, open, high, low, close, volume, quote, n, vwap, closed, finalized,
                       json_prefix, ord)
        ) k WHERE {OF_SYMBOL}"""


def _is_stored(interval: str, shift: int) -> bool:
    """Whether such buckets are those of a stored level."""
    return interval in _LEVELS and shift * 60 % int(_LEVELS[interval]) == 0


@lru_cache
def _told(interval: str, *, is_forward: bool, is_descending: bool) -> LiteralString:
    """The same of a stored level without the function, which costs more than the rows: their text is kept with them."""
    rows = f"{{rollups_{interval}}} WHERE symbol = s.symbol AND res = {_LEVELS[interval]}"
    order = "" if is_forward != is_descending else "ORDER BY c.bucket DESC" if is_descending else "ORDER BY c.bucket"
    taken, last, beyond = ("", "max", ">") if is_forward else ("DESC", "min", "<")
    return f"""
        SELECT {AS_IT_STANDS}, {_NOW}, k.found + EXISTS (
            SELECT FROM {rows} AND bucket {beyond} k.last AND bucket BETWEEN k.earliest AND k.latest)::integer, k.body
        FROM {{symbols}} s CROSS JOIN LATERAL (
            SELECT coalesce({{instant}}(%(start)s::bigint), '-infinity') AS earliest,
                   coalesce({{instant}}(%(end)s::bigint), 'infinity') AS latest
        ) b CROSS JOIN LATERAL (
            SELECT earliest, latest, count(*) AS found, {last}(c.bucket) AS last, string_agg(c.json_prefix || CASE
                WHEN c.bucket > now() - interval '{_LEVELS[interval]} s' THEN ',"closed":false,"finalized":false}}}}'
                WHEN c.max_block IS NULL OR c.max_block <= s.finalized_block THEN ',"closed":true,"finalized":true}}}}'
                ELSE ',"closed":true,"finalized":false}}}}' END, ',' {order}) AS body
            FROM (SELECT bucket, json_prefix, max_block FROM {rows} AND bucket BETWEEN b.earliest AND b.latest
                  ORDER BY bucket {taken} LIMIT %(limit)s) c
        ) k WHERE {OF_SYMBOL}"""
