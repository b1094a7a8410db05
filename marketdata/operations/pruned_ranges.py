"""What a copy does with days whose ticks were pruned, in the source or in the target: it carries their stored candles.

- A day that is below the line of pruned ticks in one of both versions is carried as its candles, all levels, byte for
  byte. Ticks cannot be carried there: the source has none, or the target refuses them.
- The candles of two versions cannot be merged, so a day is carried whole. The source's day replaces the target's if it
  was made of more ticks. Otherwise the target's day stays, since nothing that only the target has may be lost. If the
  two days differ nevertheless, the comparison of a cutover says so.
- If the target takes such a day, its line rises at least to that of the source. Its ticks below the line would
  contradict the candles, so they are deleted, as ``bin/marketdata-prune`` does. If it takes none, because its days have
  at least as many ticks, it keeps its ticks, and its line.
- The line rises, too, if the target has no tick below it. So a copy into a new version gives the same line.
- The hashes of pruned blocks are carried for the times below the target's line, so that it refuses the same blocks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from functools import partial
from itertools import groupby
from typing import LiteralString

from marketdata.interval import LEVELS
from marketdata.operations.day_states import Day, day_chunks
from marketdata.operations.pair_access import Both, PairAccess, Values
from marketdata.operations.version_pair import CANDLE_COLUMNS, CHANGED_BY, TARGET_SYMBOLS, Rows
from marketdata.store import prune
from marketdata.store.pool import Connection
from marketdata.store.version import Version

_BATCH = 10_000
"""Maximum ticks that a transaction deletes."""


class PrunedRanges:
    """Carries the pruned ranges of one pair of versions. It remembers which hashes of blocks were carried already."""

    def __init__(self, pairs: PairAccess) -> None:
        self._pairs = pairs
        self._blocks: dict[tuple[str, datetime], str] = {}
        """The state of the rows of the source that were carried."""

    def carry_days(self, changed: Sequence[Day]) -> Iterator[tuple[Day, int]]:
        """Carry those of the days that the target lacks. Yields the last day of each batch, and the number of days."""
        for symbol, starts in day_chunks(changed):
            values = {"symbol": symbol, "days": starts, "levels": list(LEVELS.values())}
            days = self._pairs.read(symbol, [_DAYS], values, partial(_lacking, values=values))
            if days:
                values |= {"days": days}
                rows = [_DAYS, _LINE, _CANDLES, _STORED_BLOCKS]
                carried = self._pairs.write(symbol, rows, values, partial(_carry_days, values=values))
                yield Day(symbol, days[-1]), carried

    def carry_lines(self) -> None:
        """Raise the lines of symbols of which the target has no tick below the source's line."""
        for symbol in self._pairs.each_target(_LINES, lambda both: [name for (name,) in both.execute(_LOWER)]):
            values = {"symbol": symbol}
            self._pairs.write(symbol, [_LINE], values, partial(_raise_line, values=values))

    def carry_blocks(self) -> None:
        """Carry the hashes of pruned blocks below the lines of the target."""
        rows = self._pairs.overview([_BLOCKS, TARGET_SYMBOLS], lambda both: both.execute(_BELOW_LINES).fetchall())
        now = {(symbol, since): state for symbol, since, state in rows}
        changed = [key for key, state in now.items() if self._blocks.get(key) != state]
        for symbol, keys in groupby(changed, lambda key: key[0]):
            values = {"symbol": symbol, "times": [since for _, since in keys]}
            if self._pairs.read(symbol, [_BLOCKS_AT], values, partial(_lacks_blocks, values=values)):
                self._pairs.write(symbol, [_BLOCKS_AT], values, partial(_carry_blocks, values=values))
        self._blocks = now

    def delete_ticks(self, symbols: Collection[str]) -> None:
        """Delete the target's ticks of these symbols below its lines."""
        for symbol in sorted(symbols):
            self._pairs.write_target(symbol, partial(_delete_ticks, symbol=symbol))


def _lacking(both: Both, values: Values) -> list[datetime]:
    return [start for (start,) in both.execute(_LACKING, values)]


def _carry_days(both: Both, values: Values) -> int:
    """Carry those of the days that the target lacks now. Returns their number."""
    values = {**values, "days": _lacking(both, values)}
    for statement in (_RAISE, *_REPLACE):
        both.execute(statement, values)
    return len(values["days"])


def _raise_line(both: Both, values: Values) -> None:
    both.execute(_RAISE + _WITHOUT_TICKS, values)


def _lacks_blocks(both: Both, values: Values) -> bool:
    return both.execute(_LACKING_BLOCKS, values).fetchone() == (True,)


def _carry_blocks(both: Both, values: Values) -> None:
    both.execute(_CARRY_BLOCKS, values)


def _delete_ticks(connection: Connection, target: Version, symbol: str) -> None:
    for below in prune.below(connection, target, [symbol]):
        for _ in prune.delete(connection, target, below, _BATCH):
            pass


_DAYS = Rows(
    "source_days",
    """SELECT symbol, bucket, n FROM {rollups_1d}
       WHERE symbol = %(symbol)s AND res = 86400 AND bucket = ANY (%(days)s::timestamptz[])""",
)
_LACKING: LiteralString = """
    SELECT s.bucket
    FROM {source_days} s
    LEFT JOIN {target_rollups_1d} t ON t.symbol = s.symbol AND t.res = 86400 AND t.bucket = s.bucket
    WHERE s.bucket = ANY (%(days)s::timestamptz[]) AND s.n > coalesce(t.n, 0)
    ORDER BY s.bucket"""

_LINE = Rows("source_line", "SELECT symbol, pruned_until FROM {symbols} WHERE symbol = %(symbol)s")
_RAISE: LiteralString = """
    UPDATE {target_symbols} t SET pruned_until = s.pruned_until FROM {source_line} s
    WHERE t.symbol = s.symbol AND s.pruned_until > t.pruned_until"""
_WITHOUT_TICKS: LiteralString = """
      AND NOT EXISTS (SELECT FROM {target_ticks} k WHERE k.symbol = s.symbol AND k.ts < s.pruned_until)"""
_LINES = Rows("source_lines", "SELECT symbol, pruned_until FROM {symbols} WHERE pruned_until > '-infinity'")
_LOWER: LiteralString = f"""
    SELECT s.symbol FROM {{source_lines}} s LEFT JOIN {{target_symbols}} t ON t.symbol = s.symbol
    WHERE s.pruned_until > coalesce(t.pruned_until, '-infinity') {_WITHOUT_TICKS} ORDER BY s.symbol"""

_DAYS_AND_LEVELS: LiteralString = (
    "unnest(%(days)s::timestamptz[]) AS d (day) CROSS JOIN unnest(%(levels)s::integer[]) AS l (level)"
)
_OF_DAY: LiteralString = (
    "r.symbol = %(symbol)s AND r.res = l.level AND r.bucket >= d.day AND r.bucket < d.day + interval '24 hours'"
)
_CANDLES = Rows("source_candles", f"SELECT {CANDLE_COLUMNS} FROM {_DAYS_AND_LEVELS} JOIN {{rollups}} r ON {_OF_DAY}")
_STORED_BLOCKS = Rows(
    "source_stored_blocks",
    """SELECT %(symbol)s::text COLLATE "C" AS symbol, min(k.ts) AS since,
              max(coalesce(k.block_number, 9223372036854775807)) AS max_block,
              array_agg(DISTINCT hashtextextended(k.block_hash, 0)) AS blocks
       FROM unnest(%(days)s::timestamptz[]) AS d (day)
       JOIN {ticks} k ON k.symbol = %(symbol)s AND k.ts >= d.day AND k.ts < d.day + interval '24 hours'
       WHERE k.block_hash IS NOT NULL GROUP BY d.day""",
)
"""The blocks of ticks that the source still has. The blocks of deleted ticks are in its table of pruned blocks."""
_AMONG_DAYS: LiteralString = "date_bin('1 day', {}, '1970-01-01Z') = ANY (%(days)s::timestamptz[])"
_KEEP_BLOCKS: LiteralString = """
    ON CONFLICT (symbol, since) DO UPDATE
    SET max_block = greatest(p.max_block, excluded.max_block), blocks = p.blocks || excluded.blocks
    WHERE p.blocks <> excluded.blocks AND NOT p.blocks @> excluded.blocks"""
_REPLACE: tuple[LiteralString, ...] = (
    f"DELETE FROM {{target_rollups}} r USING {_DAYS_AND_LEVELS} WHERE {_OF_DAY}",
    f"""INSERT INTO {{target_rollups}} ({CANDLE_COLUMNS})
        SELECT {CANDLE_COLUMNS} FROM {{source_candles}} r WHERE {_AMONG_DAYS.format("r.bucket")}""",
    f"""INSERT INTO {{target_pruned}} AS p (symbol, since, max_block, blocks)
        SELECT symbol, since, max_block, blocks FROM {{source_stored_blocks}} k
        WHERE {_AMONG_DAYS.format("k.since")} {_KEEP_BLOCKS}""",
    """SELECT {target_changed}(%(symbol)s, min(day), max(day) + interval '24 hours' - interval '1 us', 'removed')
       FROM unnest(%(days)s::timestamptz[]) AS day HAVING count(*) > 0""",
)

_BLOCKS = Rows("source_blocks", f"SELECT symbol, since, {CHANGED_BY} AS state FROM {{pruned}}")
_BELOW_LINES: LiteralString = """
    SELECT s.symbol, s.since, s.state FROM {source_blocks} s
    JOIN {target_all_symbols} t ON t.symbol = s.symbol AND s.since < t.pruned_until ORDER BY s.symbol, s.since"""
_BLOCKS_AT = Rows(
    "source_blocks_at",
    """SELECT symbol, since, max_block, blocks FROM {pruned}
       WHERE symbol = %(symbol)s AND since = ANY (%(times)s::timestamptz[])""",
)
_LACKING_BLOCKS: LiteralString = """
    SELECT EXISTS (
        SELECT FROM {source_blocks_at} s LEFT JOIN {target_pruned} p ON p.symbol = s.symbol AND p.since = s.since
        WHERE p.blocks IS NULL OR p.blocks <> s.blocks AND NOT p.blocks @> s.blocks)"""
_CARRY_BLOCKS: LiteralString = f"""
    INSERT INTO {{target_pruned}} AS p (symbol, since, max_block, blocks)
    SELECT s.symbol, s.since, s.max_block, s.blocks FROM {{source_blocks_at}} s WHERE true {_KEEP_BLOCKS}"""
