"""Candles as text: PostgreSQL makes the rows in the form that is answered, and they are passed through as they are."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, LiteralString

from marketdata.interval import WIDTHS
from marketdata.store.lookup import OF_SYMBOL, unknown, within
from marketdata.store.pool import Connection, translated
from marketdata.store.version import Version, braced

Format = Literal["object", "columns", "binance", "ccxt", "csv", "udf"]

_T = "(extract(epoch FROM c.t)::bigint * 1000)"
_T_END = "(extract(epoch FROM c.t_end)::bigint * 1000 - 1)"
_VWAP = """coalesce('"' || c.vwap || '"', 'null')"""


def _rows(expression: str, separator: str = "','") -> str:
    return f"string_agg(concat({expression}), {separator} ORDERED) KEPT"


def _columns(**columns: str) -> str:
    parts = (f"""'"{name}":[', string_agg({value}, ',' ORDERED) KEPT, ']'""" for name, value in columns.items())
    return f"""concat({", ',', ".join(parts)})"""


def _quoted(column: str) -> str:
    return f"""'"' || c.{column} || '"'"""


# What is made of the rows c of the candles function. Binance tells takers' volumes too, which are not kept: 0.
_BODIES: dict[Format, str] = {
    "object": _rows(
        f"""'{{"t":', {_T}, ',"T":', {_T_END}, ',"o":"', c.open, '","h":"', c.high, '","l":"', c.low,
        '","c":"', c.close, '","v":"', c.volume, '","q":"', c.quote, '","n":', c.n, ',"vwap":', {_VWAP},
        ',"closed":', c.closed::text, ',"finalized":', c.finalized::text, '}}'"""
    ),
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
        t="extract(epoch FROM c.t)::bigint::text",
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

_STATE = """
    s.symbol, s.version,
    extract(epoch FROM {bucket_of}(now(), %(width)s::interval, make_interval(mins => %(shift)s)))::bigint,
    floor(extract(epoch FROM now()) * 1000)::bigint
"""
_PEEK: LiteralString = f"SELECT {_STATE} FROM {{symbols}} s WHERE {OF_SYMBOL}"


@dataclass(frozen=True, slots=True)
class State:
    """What an answer depends on beside its parameters: the symbol's ``counter``, and ``clock``, the opening time
    (seconds) of the bucket that is open now. ``as_of`` is the database's time in milliseconds, ``symbol`` no alias."""

    symbol: str
    counter: int
    clock: int
    as_of: int


@dataclass(frozen=True, slots=True)
class Chart:
    """The answer's text is ``head``, then ``as_of`` and ``}`` where the format tells it: :attr:`body` is all of it.

    ``more``: the limit left candles out. ``count`` is how many are in it.
    """

    state: State
    head: str
    count: int
    more: bool
    tells_time: bool

    @property
    def body(self) -> str:
        return f"{self.head}{self.state.as_of}}}" if self.tells_time else self.head


def peek(conn: Connection, version: Version, symbol: str, interval: str, shift: int = 0) -> State:
    """The state alone, for what was answered before. NotFound (``unknown_symbol``) as :func:`read`."""
    with translated():
        values = {"symbol": symbol, "shift": shift, "width": _width(interval)}
        row = conn.execute(version.query(_PEEK), values).fetchone()
    if row is None:
        raise unknown(symbol)
    return State(*row)


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
    with translated():
        row = conn.execute(
            version.query(_statement(format, is_reversed=(sort == "desc") == (start is not None))),
            {
                "symbol": symbol, "interval": interval, "start": within(start), "end": within(end), "limit": limit,
                "fill": fill, "shift": shift, "current": current, "width": _width(interval),
            },
        ).fetchone()  # fmt: skip
    if row is None:
        raise unknown(symbol)
    *state, found, rows = row
    before, after = _ENVELOPES[format]
    told: dict[str, Any] = {"symbol": state[0], "interval": interval, "more": "true" if found > limit else "false"}
    head = f"{before.format(**told)}{rows or ''}{after.format(**told)}"
    return Chart(State(*state), head, min(found, limit), found > limit, format in ("object", "columns"))


@lru_cache
def _statement(format: Format, *, is_reversed: bool) -> LiteralString:
    """One row more than wanted is asked for; it tells whether there is more. The function's order needs no sorting."""
    body = _BODIES[format].replace("ORDERED", "ORDER BY c.ord DESC" if is_reversed else "")
    body = body.replace("KEPT", "FILTER (WHERE c.ord <= %(limit)s)")
    return f"""
        SELECT {_STATE}, k.found, k.body FROM {{symbols}} s CROSS JOIN LATERAL (
            SELECT count(*) AS found, {braced(body)} AS body
            FROM {{candles}}(s.symbol, %(interval)s, {{instant}}(%(start)s::bigint), {{instant}}(%(end)s::bigint),
                             %(limit)s::integer + 1, %(fill)s, %(shift)s::integer, %(current)s) WITH ORDINALITY
                 AS c (symbol, bucket, t, t_end, open, high, low, close, volume, quote, n, vwap, closed, finalized, ord)
        ) k WHERE {OF_SYMBOL}"""


def _width(interval: str) -> str:
    width = WIDTHS[interval]
    return "1 month" if width is None else f"{width} seconds"
