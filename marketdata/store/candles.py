"""Reads candles. PostgreSQL formats the rows as text in the response's format; this module passes it on unchanged."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import isfinite
from typing import Any, Literal, LiteralString, Self

from marketdata.interval import LEVELS, SECOND, UTC_ZONE, Zone, bucket_open, clamped
from marketdata.limits import DEFAULT_ROWS
from marketdata.store import prepared
from marketdata.store.pool import Connection
from marketdata.store.postgres_errors import translated
from marketdata.store.shards import Moved
from marketdata.store.symbols import COUNTER_COLUMNS, IS_SYMBOL, cut, unknown_symbol
from marketdata.store.version import Version

Format = Literal["object", "columns", "binance", "ccxt", "csv", "udf"]

Open = Literal["first", "previous"]

_T = "{ms}(c.t)"
_T_END = "({ms}(c.t_end) - 1)"
_VWAP = """coalesce('"' || c.vwap || '"', 'null')"""


def _rows(expression: str, separator: str = "','") -> str:
    return f"string_agg(concat({expression}), {separator} ORDERED) LIMITED"


def _columns(**columns: str) -> str:
    parts = (f"""'"{name}":[', string_agg({value}, ',' ORDERED) LIMITED, ']'""" for name, value in columns.items())
    return f"""concat({", ',', ".join(parts)})"""


def _quoted(column: str) -> str:
    return f"""'"' || c.{column} || '"'"""


# Each format has an SQL expression that aggregates the rows c of the candles function into the response's text. Names
# of the version's tables and functions are in braces. The last member of a row in Binance's format is always 0, because
# Binance gives it no meaning.
_BODIES: dict[Format, str] = {
    # One concatenation per row. If json_prefix is stored, the concatenation is the smaller part of the query's time.
    "object": f"""string_agg(
        coalesce(c.json_prefix, concat(
            '{{{{"t":', {_T}, ',"T":', {_T_END}, ',"o":"', c.open, '","h":"', c.high, '","l":"', c.low,
            '","c":"', c.close, '","v":"', c.volume, '","q":"', c.quote, '","n":', c.n, ',"vwap":', {_VWAP},
            ',"bv":"', c.buy_volume, '"'))
        || CASE WHEN c.finalized THEN ',"closed":true,"finalized":true'
                WHEN c.closed THEN ',"closed":true,"finalized":false'
                ELSE ',"closed":false,"finalized":false' END || '}}}}', ',' ORDERED) LIMITED""",
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
        bv=_quoted("buy_volume"),
        closed="c.closed::text",
        finalized="c.finalized::text",
    ),
    "binance": _rows(
        f"""'[', {_T}, ',"', c.open, '","', c.high, '","', c.low, '","', c.close, '","', c.volume, '",', {_T_END}, ',"',
        c.quote, '",', c.n, ',"', c.buy_volume, '","', c.buy_quote, '","0"]'"""
    ),
    "ccxt": _rows(f"'[', {_T}, ',', c.open, ',', c.high, ',', c.low, ',', c.close, ',', c.volume, ']'"),
    "csv": _rows(
        f"""{_T}, ',', {_T_END}, ',', c.open, ',', c.high, ',', c.low, ',', c.close, ',', c.volume, ',', c.quote, ',',
        c.n, ',', c.vwap, ',', c.buy_volume, ',', c.closed::text, ',', c.finalized::text, chr(10)""",
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
    "csv": ("t,T,o,h,l,c,v,q,n,vwap,bv,closed,finalized\n", ""),
    "udf": ('{{"s":"ok",', "}}"),
}

_CANDLES: LiteralString = """{candles}(s.symbol, %(interval)s, {instant}(%(start)s::bigint),
    {instant}(%(end)s::bigint), %(limit)s::integer + 1, %(fill)s, %(zone)s, %(current)s) WITH ORDINALITY
    AS c (symbol, bucket, t, t_end, open, high, low, close, volume, quote, n, vwap, closed, finalized,
          json_prefix, buy_volume, buy_quote, ord)"""
# The close before each candle is that of the row before it. For the first row in time, it is looked up: as the last
# tick of its minute before it, or the last candle of a minute before that. Where ticks were pruned, the candles of
# minutes remain.
_CONNECTED: LiteralString = f"""(
    SELECT c.t, c.t_end, coalesce(p.before, c.open) AS open, greatest(c.high, p.before) AS high,
           least(c.low, p.before) AS low, c.close, c.volume, c.quote, c.n, c.vwap, c.closed, c.finalized,
           NULL::text AS json_prefix, c.buy_volume, c.buy_quote, c.ord
    FROM (SELECT c.*, lag(c.close) OVER (ORDER BY c.t) AS before FROM {_CANDLES}) c CROSS JOIN LATERAL (SELECT coalesce(
        c.before,
        (SELECT trim_scale(price) FROM {{ticks}}
         WHERE symbol = s.symbol AND ts >= date_trunc('minute', c.t) AND ts < c.t
         ORDER BY ts DESC, seq DESC, id DESC LIMIT 1),
        (SELECT close FROM {{rollups_1m}}
         WHERE symbol = s.symbol AND res = 60 AND bucket < date_trunc('minute', c.t)
         ORDER BY bucket DESC LIMIT 1)) AS before) p
    ORDER BY c.ord) AS c"""

_FINAL_UNTIL: LiteralString = "greatest(s.final_until, h.final_until)"
_CHAIN: LiteralString = "LEFT JOIN {chains} h ON h.chain = {chain_of}(s.symbol)"
# The columns of a Counter. A double is exact for these microseconds, and takes the infinities of final_until.
_COUNTER: LiteralString = f"""{COUNTER_COLUMNS}, (date_part('epoch', now() AT TIME ZONE 'UTC') * 1000000)::bigint,
    date_part('epoch', {_FINAL_UNTIL} AT TIME ZONE 'UTC') * 1000000"""
_COUNTERS: LiteralString = f"""
    SELECT wanted.name, {_COUNTER}, {{is_placed}} FROM jsonb_array_elements_text(%(names)s::jsonb) AS wanted (name)
    LEFT JOIN {{aliases}} a ON a.alias = wanted.name
    JOIN {{symbols}} s ON s.symbol = coalesce(a.symbol, wanted.name) {_CHAIN}"""

_IS_CHAIN_FINAL: LiteralString = """
    SELECT EXISTS (SELECT FROM {chains} WHERE chain = %(chain)s AND final_until >= {instant}(%(until)s::bigint))"""


@dataclass(frozen=True, slots=True)
class Counter:
    """The version counter of ``symbol`` (not an alias) at the time ``now`` of the database (microseconds). ``origin``
    tells the counter apart from an equal number of another table or database.

    ``final`` is the time up to which candles are final. It is None if no block is final, or the symbol has no blocks.
    """

    symbol: str
    origin: str
    counter: int
    now: int
    final: int | None


@dataclass(frozen=True, slots=True)
class State:
    """The stored state that a response depends on, beside its parameters.

    ``symbol`` is the symbol (not an alias), ``counter`` and ``origin`` are those of :class:`Counter`. ``clock`` is the
    opening time (seconds) of the current bucket, ``as_of`` the database's time (milliseconds). ``final`` is the opening
    time (seconds) of the first bucket that is not final, or 0: the finality of a chain changes without the counter.
    """

    symbol: str
    origin: str
    counter: int
    clock: int
    final: int
    as_of: int

    @classmethod
    def of(cls, counter: Counter, interval: str, zone: Zone) -> Self:
        """The state for candles of ``interval`` in ``zone``."""
        clock = bucket_open(counter.now, interval, zone) // SECOND
        final = 0 if counter.final is None else bucket_open(counter.final, interval, zone) // SECOND
        return cls(counter.symbol, counter.origin, counter.counter, clock, final, counter.now // 1000)


@dataclass(frozen=True, slots=True)
class Chart:
    """A response. ``head`` is its text. If ``has_as_of`` is true, :attr:`body` appends ``as_of`` and ``}`` to ``head``.

    ``count`` is the number of candles. ``more`` says that further candles exist, beyond the limit or the line of pruned
    ticks.
    """

    state: State
    head: bytes
    count: int
    more: bool
    has_as_of: bool

    @property
    def body(self) -> bytes:
        return b"%b%d}" % (self.head, self.state.as_of) if self.has_as_of else self.head

    @property
    def rows(self) -> list[bytes]:
        """The JSON text of each candle. Only for the format ``object``, whose strings contain no bracket."""
        text = self.head[self.head.index(b"[") + 2 : self.head.rindex(b"]") - 1]
        return [b"{%b}" % row for row in text.split(b"},{")] if text else []


def check(conn: Connection, version: Version) -> None:
    """Call the version's candles function once, for any symbol, to show that it works."""
    conn.execute(
        version.query(
            "SELECT count(*) FROM {candles}(coalesce((SELECT symbol FROM {symbols} LIMIT 1), ''),"
            " '1d', NULL, NULL, 1, 'none', '+00:00', 'include')"
        ),
        prepare=False,
    )


def is_chain_final(conn: Connection, version: Version, chain: str, until: int) -> bool:
    """Whether the candles of a chain are final up to the time ``until`` (microseconds)."""
    with translated():
        found = prepared.rows(conn, version.query(_IS_CHAIN_FINAL), {"chain": chain, "until": until})
    return found == [(b"t",)]


def counters(conn: Connection, version: Version, names: Collection[str]) -> dict[str, Counter]:
    """The counters of these symbols or aliases, by the given name. Symbols of which nothing was ever stored are left
    out."""
    with translated():
        found = prepared.rows(conn, version.query(_COUNTERS), {"names": json.dumps(list(names))})
    if any(is_placed != b"t" for *_, is_placed in found):
        raise Moved()
    return {str(name, "utf-8"): _counter(counter) for name, *counter, _ in found}


def read(
    conn: Connection,
    version: Version,
    symbol: str,
    interval: str,
    *,
    start: int | None = None,
    end: int | None = None,
    limit: int = DEFAULT_ROWS,
    sort: Literal["asc", "desc"] = "asc",
    fill: Literal["none", "previous"] = "none",
    zone: Zone = UTC_ZONE,
    current: Literal["include", "exclude"] = "include",
    format: Format = "object",
    open: Open = "first",
) -> Chart:
    """Read candles whose opening time is in [start, end] (microseconds).

    With ``open`` as "previous", a candle opens at the close of the candle before it, and its high and low include that
    price. The first candle of all has none before it, and stays as it is.

    With ``start`` these are the first ``limit`` candles, without it the newest. ``sort`` is their order in the text.
    One statement reads both the state and the rows, and checks that the shard is on this node. Raises NotFound
    (``unknown_symbol``) when nothing was ever stored of the symbol, and Pruned when candles of a second below the line
    of pruned ticks are requested.
    """
    buckets = zone.for_buckets(interval)
    parameters = {
        "symbol": symbol, "interval": interval, "start": clamped(start), "end": clamped(end), "limit": limit,
        "fill": fill, "zone": buckets.name, "current": current,
    }  # fmt: skip
    with translated():
        statement = _statement(version, parameters, buckets, format, sort, open)
        answer = prepared.rows(conn, version.query(statement), parameters)
    if not answer:
        raise unknown_symbol(symbol)
    *counter, found, rows, line, is_placed = answer[0]
    if is_placed != b"t":
        raise Moved()
    state = State.of(_counter(counter), interval, buckets)
    count = int(found or 0)
    more = count > limit or (start is None and line is not None)
    before, after = _ENVELOPES[format]
    shown = {"symbol": state.symbol, "interval": interval, "more": "true" if more else "false"}
    head = b"%b%b%b" % (before.format(**shown).encode(), rows or b"", after.format(**shown).encode())
    return Chart(state, head, min(count, limit), more, format in ("object", "columns"))


def _counter(row: Sequence[Any]) -> Counter:
    symbol, origin, counter, now, final = row
    until = float(final)
    return Counter(
        str(symbol, "utf-8"), str(origin, "utf-8"), int(counter), int(now), int(until) if isfinite(until) else None
    )


def _statement(
    version: Version, parameters: Mapping[str, Any], zone: Zone, format: Format, sort: str, open: Open
) -> LiteralString:
    """The statement for these parameters. Its row has a :class:`Counter`, the number of candles, their text, the
    line of pruned ticks, if it hides older ones, and whether the shard is on this node."""
    interval, is_forward, is_descending = parameters["interval"], parameters["start"] is not None, sort == "desc"
    is_plain = format == "object" and parameters["fill"] == "none" and parameters["current"] == "include"
    is_connected = open == "previous"
    if is_plain and not is_connected and version.has_own_candles and _is_stored(interval, zone):
        return _stored_statement(interval, is_forward=is_forward, is_descending=is_descending)
    rows = _CONNECTED if is_connected else _CANDLES
    return _function_statement(rows, format, is_reversed=is_forward == is_descending, has_line=interval == "1s")


@lru_cache
def _function_statement(rows: LiteralString, format: Format, *, is_reversed: bool, has_line: bool) -> LiteralString:
    """The statement that calls the candles function. It requests one row more than the limit. This row shows whether
    further candles exist. The function returns its rows in order."""
    body = _BODIES[format].replace("ORDERED", "ORDER BY c.ord DESC" if is_reversed else "")
    body = body.replace("LIMITED", "FILTER (WHERE c.ord <= %(limit)s)")
    return f"""
        SELECT {_COUNTER}, k.found, k.body, {cut("false") if has_line else "NULL"}, {{is_placed}}
        FROM {{symbols}} s {_CHAIN} CROSS JOIN LATERAL (
            SELECT count(*) AS found, {body} AS body FROM {rows}
        ) k WHERE {IS_SYMBOL}"""


def _is_stored(interval: str, zone: Zone) -> bool:
    """Whether a stored level has the buckets of this interval and zone."""
    return interval in LEVELS and zone.is_fixed and zone.offsets[0] * 60 % LEVELS[interval] == 0


@lru_cache
def _stored_statement(interval: str, *, is_forward: bool, is_descending: bool) -> LiteralString:
    """The statement that reads the stored text of a level's candles. It avoids the candles function, because the call
    would take longer than reading the rows."""
    width = f"interval '{LEVELS[interval]} s'"
    rows = f"{{rollups_{interval}}} WHERE symbol = s.symbol AND res = {LEVELS[interval]}"
    order = "" if is_forward != is_descending else "ORDER BY c.bucket DESC" if is_descending else "ORDER BY c.bucket"
    taken, last, beyond = ("", "max", ">") if is_forward else ("DESC", "min", "<")
    return f"""
        SELECT {_COUNTER}, k.found + EXISTS (
            SELECT FROM {rows} AND bucket {beyond} k.last AND bucket BETWEEN k.earliest AND k.latest)::integer,
            k.body, NULL, {{is_placed}}
        FROM {{symbols}} s {_CHAIN} CROSS JOIN LATERAL (
            SELECT coalesce({{instant}}(%(start)s::bigint), '-infinity') AS earliest,
                   coalesce({{instant}}(%(end)s::bigint), 'infinity') AS latest, {_FINAL_UNTIL} - {width} AS final
        ) b CROSS JOIN LATERAL (
            SELECT earliest, latest, count(*) AS found, {last}(c.bucket) AS last, string_agg(c.json_prefix || CASE
                WHEN c.bucket > now() - {width} THEN ',"closed":false,"finalized":false}}}}'
                WHEN c.bucket <= b.final THEN ',"closed":true,"finalized":true}}}}'
                ELSE ',"closed":true,"finalized":false}}}}' END, ',' {order}) AS body
            FROM (SELECT bucket, json_prefix FROM {rows} AND bucket BETWEEN b.earliest AND b.latest
                  ORDER BY bucket {taken} LIMIT %(limit)s) c
        ) k WHERE {IS_SYMBOL}"""
