"""Reads the last 24 hours of many symbols. PostgreSQL formats each item as JSON text.

The 24 hours are [as_of - 24 h, as_of], both ends included. Each symbol's sums are taken from the widest stored levels
that fit, and from the ticks of the minute that the window cuts: at most 27 rows and the ticks of this minute.
The end of the window needs no narrow level, except for a symbol with ticks that are later than ``as_of``.

If the ticks at the beginning of the window are pruned, the window of this symbol begins with the next full minute.
Where ticks are pruned, prices and numbers are those of stored minutes and days.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache
from typing import Literal, LiteralString

from marketdata.interval import LEVELS
from marketdata.store import prepared
from marketdata.store.pool import Connection
from marketdata.store.postgres_errors import translated
from marketdata.store.trade_numbers import NUMBERING, count_before
from marketdata.store.version import Version

Sort = Literal["change", "volume", "newest"]

# The bounds of the ranges that are read. as_of is rounded up to a millisecond, so that no tick of the past is later.
_CLOCK: LiteralString = """
    clock AS MATERIALIZED (
        SELECT as_of, since,
               date_bin('1 min', since + interval '59.999999 s', '1969-01-06Z') AS minute,
               date_bin('15 min', since + interval '14 min 59.999999 s', '1969-01-06Z') AS quarter,
               date_bin('1 hour', since + interval '59 min 59.999999 s', '1969-01-06Z') AS hour,
               date_bin('4 hours', since + interval '3 hours 59 min 59.999999 s', '1969-01-06Z') AS four,
               date_bin('1 day', since + interval '23 hours 59 min 59.999999 s', '1969-01-06Z') AS day,
               date_bin('1 day', as_of, '1969-01-06Z') AS last_day,
               date_bin('4 hours', as_of, '1969-01-06Z') AS last_four,
               date_bin('1 hour', as_of, '1969-01-06Z') AS last_hour,
               date_bin('15 min', as_of, '1969-01-06Z') AS last_quarter,
               date_bin('1 min', as_of, '1969-01-06Z') AS last_minute
        FROM (SELECT date_trunc('milliseconds', now() + interval '999 us') AS as_of) n
        CROSS JOIN LATERAL (SELECT n.as_of - interval '24 hours' AS since) s
    )"""

# OFFSET 0 keeps the planner from copying an expression to each place that uses it.
_PRICES: LiteralString = """
    LEFT JOIN LATERAL (
        (SELECT trim_scale(price) AS price, ts, seq, size FROM {ticks}
         WHERE symbol = s.symbol AND ts <= k.as_of AND ts >= s.pruned_until ORDER BY ts DESC, seq DESC, id DESC LIMIT 1)
        UNION ALL
        (SELECT close, last_ts, last_seq, NULL FROM {rollups_1d}
         WHERE symbol = s.symbol AND res = 86400 AND bucket < s.pruned_until ORDER BY bucket DESC LIMIT 1)
        ORDER BY ts DESC LIMIT 1
    ) last ON true
    CROSS JOIN LATERAL (
        SELECT coalesce(
            (SELECT trim_scale(price) FROM {ticks} WHERE symbol = s.symbol AND ts < k.since AND ts >= s.pruned_until
             ORDER BY ts DESC, seq DESC, id DESC LIMIT 1),
            (SELECT close FROM {rollups_1m} WHERE symbol = s.symbol AND res = 60
             AND bucket < least(s.pruned_until, k.minute) ORDER BY bucket DESC LIMIT 1)) AS price OFFSET 0
    ) before
    CROSS JOIN LATERAL (
        SELECT coalesce(
            before.price,
            (SELECT open FROM {rollups_1m} WHERE symbol = s.symbol AND res = 60
             AND bucket >= k.minute AND bucket < s.pruned_until ORDER BY bucket LIMIT 1),
            (SELECT trim_scale(price) FROM {ticks}
             WHERE symbol = s.symbol AND ts >= greatest(k.since, s.pruned_until) AND ts <= k.as_of
             ORDER BY ts, seq, id LIMIT 1)) AS price OFFSET 0
    ) open
    CROSS JOIN LATERAL (  -- a million times the change, rounded half-even: integer arithmetic on twice the values
        SELECT abs(last.price - open.price) * 2e6 + open.price AS above, open.price * 2 AS below OFFSET 0
    ) ratio
    CROSS JOIN LATERAL (
        SELECT trim_scale(sign(last.price - open.price) * 1e-6 * (div(above, below) - CASE
                   WHEN mod(above, below) = 0 AND mod(div(above, below), 2) = 1 THEN 1 ELSE 0 END)) AS change OFFSET 0
    ) moved"""


def _rows(level: str, first: str, end: str, symbol: str = "s") -> str:
    return f"""
        SELECT high, low, volume, quote, n FROM {{rollups_{level}}}
        WHERE symbol = {symbol}.symbol AND res = {LEVELS[level]} AND bucket >= k.{first} AND bucket < k.{end}"""


def _ticks(bounds: str, symbol: str = "s") -> str:
    return f"SELECT price, price, size, price * size, 1 FROM {{ticks}} WHERE symbol = {symbol}.symbol AND {bounds}"


_PARTS = " UNION ALL ".join(
    (
        _rows("1d", "day", "last_day"),
        _rows("4h", "four", "day"),
        _rows("1h", "hour", "four"),
        _rows("15m", "quarter", "hour"),
        _rows("1m", "minute", "quarter"),
        _ticks("ts >= k.since AND ts < k.minute AND ts >= s.pruned_until"),
    )
)
# Narrower levels of the last day, which has ticks after as_of.
_LAST_PARTS = " UNION ALL ".join(
    (
        _rows("4h", "last_day", "last_four", "d"),
        _rows("1h", "last_four", "last_hour", "d"),
        _rows("15m", "last_hour", "last_quarter", "d"),
        _rows("1m", "last_quarter", "last_minute", "d"),
        _ticks("ts >= k.last_minute AND ts <= k.as_of", "d"),
    )
)
_LAST_DAY = f"{{rollups_1d}} d WHERE d.symbol = s.symbol AND d.res = {LEVELS['1d']} AND d.bucket = k.last_day"
_TOTALS: LiteralString = f"""
    CROSS JOIN LATERAL (
        SELECT trim_scale(max(high)) AS high, trim_scale(min(low)) AS low, coalesce(sum(n), 0)::bigint AS n,
               trim_scale(coalesce(sum(volume), 0)) AS volume, trim_scale(coalesce(sum(quote), 0)) AS quote
        FROM (
            {_PARTS}
            UNION ALL
            SELECT d.high, d.low, d.volume, d.quote, d.n FROM {_LAST_DAY} AND d.last_ts <= k.as_of
            UNION ALL
            SELECT part.* FROM (SELECT d.symbol FROM {_LAST_DAY} AND d.last_ts > k.as_of) d
            CROSS JOIN LATERAL ({_LAST_PARTS}) part
        ) part
    ) total"""

_NAMED: LiteralString = """
    SELECT s.symbol, s.pruned_until, min(wanted.place) AS place, json_agg(wanted.name) AS names,
           NULL::numeric AS rank
    FROM jsonb_array_elements_text(%(names)s::jsonb) WITH ORDINALITY AS wanted (name, place)
    LEFT JOIN {aliases} a ON a.alias = wanted.name
    JOIN {symbols} s ON s.symbol = coalesce(a.symbol, wanted.name)
    GROUP BY s.symbol"""

_FIRST: LiteralString = """
    CROSS JOIN LATERAL (
        SELECT first_ts FROM {rollups_1d} WHERE symbol = s.symbol AND res = 86400 ORDER BY bucket LIMIT 1
    ) first"""


def _sorted(joined: LiteralString, order: LiteralString) -> LiteralString:
    return f"""
        SELECT s.symbol, s.pruned_until, row_number() OVER (ORDER BY {order} DESC, s.symbol) AS place,
               NULL::json AS names, {order} AS rank
        FROM clock k CROSS JOIN {{symbols}} s {joined} ORDER BY place LIMIT %(limit)s::bigint"""


# For each order, the statement that chooses the symbols; symbols without ticks are left out.
_CHOSEN: dict[Sort | None, LiteralString] = {
    None: _NAMED,
    "change": _sorted(_FIRST + _PRICES, "abs(coalesce(moved.change, 0))"),
    "volume": _sorted(_FIRST + _TOTALS, "total.quote"),
    "newest": _sorted(_FIRST, "extract(epoch FROM first.first_ts)"),
}


def _quoted(column: str) -> str:
    return f"""coalesce('"' || {column} || '"', 'null')"""


_ITEM: LiteralString = f"""
    concat('{{{{"symbol":"', s.symbol, '","last":', {_quoted("last.price")},
           ',"ts":', coalesce({{ms}}(date_trunc('milliseconds', last.ts))::text, 'null'),
           ',"open24h":', {_quoted("open.price")}, ',"change24h":', {_quoted("moved.change")},
           ',"high24h":', {_quoted("total.high")}, ',"low24h":', {_quoted("total.low")},
           ',"volume24h":"', total.volume, '","quote_volume24h":"', total.quote, '","trades24h":', total.n)"""

_CLOSES: LiteralString = """
    (SELECT json_object_agg(24 - extract(epoch FROM k.last_hour - bucket)::integer / 3600, close::text)
     FROM {rollups_1h} WHERE symbol = s.symbol AND res = 3600
                         AND bucket >= k.last_hour - interval '24 hours' AND bucket < k.last_hour)"""

# The numbers of the first and the last trade of the 24 hours; -1 if there was none.
_TRADES: LiteralString = f"""
    CROSS JOIN LATERAL (
        SELECT CASE WHEN total.n = 0 THEN -1 WHEN numbering.by_seq THEN coalesce(
            (SELECT first_seq FROM {{rollups_1m}} WHERE symbol = s.symbol AND res = 60
             AND bucket >= k.minute AND bucket < s.pruned_until ORDER BY bucket LIMIT 1),
            (SELECT seq FROM {{ticks}}
             WHERE symbol = s.symbol AND ts >= greatest(k.since, s.pruned_until) AND ts <= k.as_of
             ORDER BY ts, seq, id LIMIT 1)
            ) ELSE {count_before("CASE WHEN k.since < s.pruned_until THEN k.minute ELSE k.since END")} END AS first
        OFFSET 0
    ) numbered"""
_TRADES_MEMBERS: LiteralString = """
    concat(',"last_size":', coalesce('"' || trim_scale(last.size) || '"', 'null'), ',"first_id":', numbered.first,
           ',"last_id":', CASE WHEN total.n = 0 THEN -1 WHEN numbering.by_seq THEN last.seq
                               ELSE numbered.first + total.n - 1 END)"""

Addition = Literal["closes", "trades"]
"""Further members of the items: ``closes24h``; or ``last_size``, ``first_id`` and ``last_id``, the size of the last
trade and the numbers (:mod:`marketdata.store.trade_numbers`) of the first and the last trade of the 24 hours."""


@dataclass(frozen=True, slots=True)
class Summary:
    """``items`` are JSON objects, by symbol and in order. ``as_of`` is in milliseconds. ``names`` has the symbol of
    each requested name that exists. ``ranks`` are the numbers by which sorted items are in descending order."""

    items: dict[str, bytes]
    as_of: int
    names: dict[str, str]
    ranks: dict[str, Decimal] = field(default_factory=dict)


def named(
    conn: Connection, version: Version, names: Collection[str] | None, *, addition: Addition | None = None
) -> Summary:
    """The items of these symbols or aliases, in this order. Each symbol has one item, even if it is named twice."""
    return _read(conn, version, None, addition, {"names": json.dumps(list(names or ()))})


def merged_named(found: Sequence[Summary], names: Sequence[str]) -> Summary:
    """The items of all shards, in the order of the names."""
    if len(found) == 1:
        return found[0]
    symbols = {name: symbol for each in found for name, symbol in each.names.items()}
    items = {symbol: item for each in found for symbol, item in each.items.items()}
    ordered = dict.fromkeys(symbols[name] for name in names if name in symbols)
    return Summary({symbol: items[symbol] for symbol in ordered}, min(each.as_of for each in found), symbols)


def merged_sorted(found: Sequence[Summary], limit: int) -> Summary:
    """The first ``limit`` items of all shards, in their order."""
    if len(found) == 1:
        return found[0]
    ranks = {symbol: rank for each in found for symbol, rank in each.ranks.items()}
    items = {symbol: item for each in found for symbol, item in each.items.items()}
    first = sorted(items, key=lambda symbol: (-ranks[symbol], symbol))[:limit]
    return Summary({symbol: items[symbol] for symbol in first}, min(each.as_of for each in found), {}, ranks)


def sorted_by(
    conn: Connection, version: Version, sort: Sort, limit: int, *, addition: Addition | None = None
) -> Summary:
    """The first ``limit`` items in the order ``sort``: the greatest absolute change, the greatest quote volume, or the
    latest first tick first. Equal ones are ordered by symbol."""
    return _read(conn, version, sort, addition, {"limit": limit})


def _read(
    conn: Connection,
    version: Version,
    sort: Sort | None,
    addition: Addition | None,
    parameters: dict[str, str | int | None],
) -> Summary:
    with translated():
        rows = prepared.rows(conn, version.query(_statement(sort, addition)), parameters)
    items: dict[str, bytes] = {}
    names: dict[str, str] = {}
    ranks: dict[str, Decimal] = {}
    for _, symbol, found, item, members, rank in rows:
        if symbol is not None:
            known = str(symbol, "utf-8")
            added = _filled(members) if addition == "closes" else members or b""
            items[known] = b"%b%b}" % (item, added)
            names.update(dict.fromkeys(json.loads(found) if found else (), known))
            if rank is not None:
                ranks[known] = Decimal(rank.decode())
    return Summary(items, int(rows[0][0]), names, ranks)


@cache
def _statement(sort: Sort | None, addition: Addition | None) -> LiteralString:
    # The expression of the members, and what it reads.
    members, joined = {
        None: ("NULL", ""),
        "closes": (f"json_build_array(before.price::text, last.price::text, {_CLOSES})", ""),
        "trades": (_TRADES_MEMBERS, NUMBERING + _TRADES),
    }[addition]
    return f"""
        WITH {_CLOCK}, chosen AS ({_CHOSEN[sort]})
        SELECT {{ms}}(k.as_of), s.symbol, s.names, {_ITEM}, {members}, s.rank
        FROM clock k LEFT JOIN chosen s ON true {_PRICES} {_TOTALS} {joined} ORDER BY s.place"""


def _filled(closes: bytes) -> bytes:
    """The member with the closes of the last 24 whole hours, and the last price. An hour without a tick has the close
    before it; null before the first tick."""
    price, last, by_hour = json.loads(closes)
    filled = [price := (by_hour or {}).get(str(hour), price) for hour in range(24)]
    return b',"closes24h":' + json.dumps([*filled, last], separators=(",", ":")).encode()
