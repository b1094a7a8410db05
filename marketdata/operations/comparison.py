"""Compares the stored candles of two versions, one by one.

The source's newest tick of each symbol bounds the comparison, because the target may have received further ticks.
Candles of the target that contain newer ticks are left out. The minute of the source's newest tick is an exception: its
candle in the target is computed from the ticks up to that tick. If these ticks were pruned, this candle is left out,
too. Everything else needs the stored candles alone, so pruned ranges are compared like all others.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, LiteralString, NamedTuple

from marketdata.interval import LEVELS
from marketdata.operations.day_states import Day, day_chunks
from marketdata.operations.pair_access import Both, PairAccess
from marketdata.operations.version_pair import CANDLE_COLUMNS, SOURCE_RETRACTED, SOURCE_SYMBOLS, TARGET_SYMBOLS, Rows

MAX_DIFFERENCES = 10_000
"""A comparison ends after this number of differences, because nobody needs more of them to find the cause."""

_INTERVALS = {level: interval for interval, level in LEVELS.items()}
_FIELDS = ("open", "high", "low", "close", "volume", "quote", "n", "vwap", "buy_volume", "buy_quote")

Values = tuple[str | None, ...] | None
"""The fields of a candle as text; None when there is no candle."""


class Difference(NamedTuple):
    """A candle that differs between source and target."""

    symbol: str
    level: int
    opened: datetime
    source: Values
    target: Values

    @property
    def day(self) -> Day:
        return Day(self.symbol, self.opened.replace(hour=0, minute=0))

    def described(self, source: int, target: int) -> str:
        """Describe the candle and its differing fields; ``source`` and ``target`` are the numbers of the versions."""
        name = f"{self.symbol} {_INTERVALS[self.level]} {self.opened:%Y-%m-%dT%H:%M:%SZ}"
        if self.source is None or self.target is None:
            there, missing = (target, source) if self.source is None else (source, target)
            return f"{name}: in version {there}, not in version {missing}"
        pairs = zip(_FIELDS, self.source, self.target, strict=True)
        parts = [f"{field} {ours} and {theirs}" for field, ours, theirs in pairs if ours != theirs]
        return f"{name}: {', '.join(parts)} in versions {source} and {target}"


class Orphan(NamedTuple):
    """A block that the source retracted, although the target has ticks of it. These ticks may be newer than the
    source's newest tick."""

    symbol: str
    block_hash: str
    first: datetime

    def described(self, source: int, target: int) -> str:
        return (
            f"{self.symbol} 1m {self.first:%Y-%m-%dT%H:%MZ}: version {target} has ticks of the block "
            f"{self.block_hash}, which is retracted in version {source}"
        )


class Line(NamedTuple):
    """A symbol whose line of pruned ticks differs; None if no tick is pruned."""

    symbol: str
    source: datetime | None
    target: datetime | None

    def described(self, source: int, target: int) -> str:
        parts = [f"{line:%Y-%m-%d}" if line else "the beginning" for line in (self.source, self.target)]
        return f"{self.symbol} from {parts[0]} on in version {source}, from {parts[1]} on in version {target}"


class Bounds(NamedTuple):
    """Only candles that open from ``start`` to ``end``, both inclusive, are compared."""

    start: datetime = datetime(1970, 1, 1, tzinfo=UTC)
    end: datetime = datetime(3000, 1, 1, tzinfo=UTC)


EVERYTHING = Bounds()


def count(pairs: PairAccess, bounds: Bounds) -> tuple[int, int]:
    """The number of symbols, and the number of candles, of the source within the bounds."""
    symbols, candles = zip(*pairs.each_source(_COUNT, bounds._asdict()), strict=True)
    return sum(symbols), sum(candles)


def compare(pairs: PairAccess, changed: Sequence[Day], bounds: Bounds) -> list[Difference]:
    """The differences of these days, by symbol and time. Stops soon after ``MAX_DIFFERENCES``."""
    found: list[Difference] = []
    for symbol, starts in day_chunks(changed):
        if len(found) < MAX_DIFFERENCES:
            values = {"symbol": symbol, "days": starts, "levels": list(_INTERVALS), **bounds._asdict()}
            found += pairs.read(symbol, [_NEWEST, _CANDLES], values, partial(_differences, values=values))
    return found


def orphans(pairs: PairAccess, bounds: Bounds) -> list[Orphan]:
    """The blocks that the source retracted and of which the target has ticks within the bounds; at most
    ``MAX_DIFFERENCES``."""
    values = {"max": MAX_DIFFERENCES, **bounds._asdict()}
    found = pairs.each_target(SOURCE_RETRACTED, lambda both: [Orphan(*row) for row in both.execute(_ORPHANS, values)])
    return sorted(found, key=lambda each: (each.symbol, each.first))[:MAX_DIFFERENCES]


def lines(pairs: PairAccess) -> list[Line]:
    """The symbols of which the two versions have ticks from different days on, by name."""
    return pairs.overview([SOURCE_SYMBOLS, TARGET_SYMBOLS], lambda both: [Line(*row) for row in both.execute(_LINES)])


def _differences(both: Both, values: dict[str, Any]) -> list[Difference]:
    width = len(_FIELDS)
    found = []
    for level, opened, has_source, has_target, *fields in both.execute(_DIFFERENCES, values):
        source, target = tuple(fields[:width]), tuple(fields[width:])
        found.append(
            Difference(values["symbol"], level, opened, source if has_source else None, target if has_target else None)
        )
    return found


_COUNT: LiteralString = """
    SELECT count(DISTINCT symbol), count(*) FROM {rollups} WHERE bucket BETWEEN %(start)s AND %(end)s"""

_LINES: LiteralString = """
    SELECT symbol, nullif(s.pruned_until, '-infinity'), nullif(t.pruned_until, '-infinity')
    FROM {source_all_symbols} s JOIN {target_all_symbols} t USING (symbol)
    WHERE s.pruned_until <> t.pruned_until ORDER BY symbol"""

_ORPHANS: LiteralString = """
    SELECT r.symbol, r.block_hash, min(t.ts) FROM {source_all_retracted} r
    JOIN {target_ticks} t ON t.symbol = r.symbol AND t.block_hash = r.block_hash
    WHERE t.ts BETWEEN %(start)s AND %(end)s GROUP BY 1, 2 ORDER BY 1, 3 LIMIT %(max)s"""

_STORED: LiteralString = f"""
    SELECT {CANDLE_COLUMNS}
    FROM unnest(%(days)s::timestamptz[]) AS d (day) CROSS JOIN unnest(%(levels)s::integer[]) AS l (level)
    JOIN {{rollups}} r ON r.symbol = %(symbol)s AND r.res = l.level
        AND r.bucket >= d.day AND r.bucket < d.day + interval '24 hours' AND r.bucket BETWEEN %(start)s AND %(end)s"""
_CANDLES = Rows("source_compared", _STORED)
_NEWEST = Rows(
    "source_newest",
    "SELECT symbol, last_ts FROM {rollups_1d} WHERE symbol = %(symbol)s ORDER BY bucket DESC LIMIT 1",
)
_MADE = ", ".join(f"{{side}}.{field}" for field in _FIELDS)
_TEXT = ", ".join(f"trim_scale({{side}}.{field})::text" for field in _FIELDS)
_SOURCE, _TARGET = (_MADE.replace("{side}", side) for side in "st")
_DIFFERENCES: LiteralString = f"""
    WITH newest AS (SELECT last_ts FROM {{source_newest}} n
    ), kept AS (  -- the target has ticks from this time on
        SELECT pruned_until AS since FROM {{target_symbols}} WHERE symbol = %(symbol)s
    ), s AS (SELECT * FROM {{source_compared}} c
    ), whole AS ({_STORED.replace("{rollups}", "{target_rollups}")}
    ), cut AS (  -- the minute of the source's newest tick, if the target has newer ticks in this minute
        SELECT w.symbol, 60 AS res, w.bucket, m.*
        FROM whole w, newest, LATERAL (
            SELECT (array_agg(price ORDER BY ts, seq, id))[1] AS open, max(price) AS high, min(price) AS low,
                   (array_agg(price ORDER BY ts DESC, seq DESC, id DESC))[1] AS close, sum(size) AS volume,
                   sum(price * size) AS quote, count(*) AS n, {{target_vwap}}(sum(price * size), sum(size)) AS vwap,
                   coalesce(sum(size) FILTER (WHERE side = 'buy'), 0) AS buy_volume,
                   coalesce(sum(price * size) FILTER (WHERE side = 'buy'), 0) AS buy_quote
            FROM {{target_ticks}} k WHERE k.symbol = w.symbol AND k.ts >= w.bucket AND k.ts <= newest.last_ts
        ) m
        WHERE w.res = 60 AND w.last_ts > newest.last_ts AND w.first_ts <= newest.last_ts
          AND w.bucket >= (SELECT since FROM kept)
    ), t AS (
        SELECT symbol, res, bucket, {", ".join(_FIELDS)} FROM whole
        WHERE last_ts <= (SELECT last_ts FROM newest)
        UNION ALL SELECT symbol, res, bucket, {", ".join(_FIELDS)} FROM cut
    ), newer AS (
        SELECT res, bucket FROM whole WHERE last_ts > (SELECT last_ts FROM newest)
    )
    SELECT res, bucket, s.symbol IS NOT NULL, t.symbol IS NOT NULL,
           {_TEXT.replace("{side}", "s")}, {_TEXT.replace("{side}", "t")}
    FROM s FULL JOIN t USING (res, bucket)
    WHERE ({_SOURCE}) IS DISTINCT FROM ({_TARGET})
      AND (t.symbol IS NOT NULL OR (res, bucket) NOT IN (TABLE newer)
           OR res = 60 AND bucket >= (SELECT since FROM kept))
    ORDER BY res, bucket"""
