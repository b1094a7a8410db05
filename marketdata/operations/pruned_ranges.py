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
from itertools import groupby
from typing import LiteralString

from marketdata.interval import LEVELS
from marketdata.operations.version_pair import Day, Pair, day_chunks, writing
from marketdata.store import prune
from marketdata.store.pool import Connection

_BATCH = 10_000
"""Maximum ticks that a transaction deletes."""


class PrunedRanges:
    """Carries the pruned ranges of one pair of versions. It remembers which hashes of blocks were carried already."""

    def __init__(self, connection: Connection, pair: Pair) -> None:
        self._connection = connection
        self._pair = pair
        self._blocks: dict[tuple[str, datetime], str] = {}
        """The ``xmin`` of the rows of the source that were carried."""

    def carry_days(self, changed: Sequence[Day]) -> Iterator[tuple[Day, int]]:
        """Carry those of the days that the target lacks. Yields the last day of each batch, and the number of days."""
        for symbol, starts in day_chunks(changed):
            if not self._lacking(symbol, starts):
                continue
            with writing(self._connection, self._pair, symbol):
                days = self._lacking(symbol, starts)
                values = {"symbol": symbol, "days": days, "levels": list(LEVELS.values())}
                for statement in (_RAISE, *_REPLACE):
                    self._connection.execute(self._pair.query(statement), values)
            yield Day(symbol, days[-1]), len(days)

    def carry_lines(self) -> None:
        """Raise the lines of symbols of which the target has no tick below the source's line."""
        for (symbol,) in self._connection.execute(self._pair.query(_LOWER)).fetchall():
            with writing(self._connection, self._pair, symbol):
                self._connection.execute(self._pair.query(_RAISE + _WITHOUT_TICKS), {"symbol": symbol})

    def carry_blocks(self) -> None:
        """Carry the hashes of pruned blocks below the lines of the target."""
        rows = self._connection.execute(self._pair.query(_BLOCKS)).fetchall()
        now = {(symbol, since): xmin for symbol, since, xmin in rows}
        changed = [key for key, xmin in now.items() if self._blocks.get(key) != xmin]
        for symbol, keys in groupby(changed, lambda key: key[0]):
            values = {"symbol": symbol, "times": [since for _, since in keys]}
            self._connection.execute(self._pair.query(_CARRY_BLOCKS), values)
        self._blocks = now

    def delete_ticks(self, symbols: Collection[str]) -> None:
        """Delete the target's ticks of these symbols below its lines."""
        for below in prune.below(self._connection, self._pair.target, sorted(symbols)):
            for _ in prune.delete(self._connection, self._pair.target, below, _BATCH):
                pass

    def _lacking(self, symbol: str, starts: Sequence[datetime]) -> list[datetime]:
        rows = self._connection.execute(self._pair.query(_LACKING), {"symbol": symbol, "days": list(starts)})
        return [start for (start,) in rows]


_LACKING: LiteralString = """
    SELECT s.bucket
    FROM {source_rollups_1d} s
    LEFT JOIN {target_rollups_1d} t ON t.symbol = s.symbol AND t.res = 86400 AND t.bucket = s.bucket
    WHERE s.symbol = %(symbol)s AND s.res = 86400 AND s.bucket = ANY (%(days)s::timestamptz[])
      AND s.n > coalesce(t.n, 0)
    ORDER BY s.bucket"""

_RAISE: LiteralString = """
    UPDATE {target_symbols} t SET pruned_until = s.pruned_until FROM {source_symbols} s
    WHERE s.symbol = %(symbol)s AND t.symbol = %(symbol)s AND s.pruned_until > t.pruned_until"""
_WITHOUT_TICKS: LiteralString = """
      AND NOT EXISTS (SELECT FROM {target_ticks} k WHERE k.symbol = s.symbol AND k.ts < s.pruned_until)"""
_LOWER: LiteralString = f"""
    SELECT s.symbol FROM {{source_symbols}} s LEFT JOIN {{target_symbols}} t ON t.symbol = s.symbol
    WHERE s.pruned_until > coalesce(t.pruned_until, '-infinity') {_WITHOUT_TICKS} ORDER BY s.symbol"""

_COLUMNS: LiteralString = """
    symbol, res, bucket, open, high, low, close, volume, quote, buy_volume, buy_quote, vwap, n,
    first_ts, first_seq, first_id, last_ts, last_seq, last_id, max_block"""
_DAYS_AND_LEVELS: LiteralString = (
    "unnest(%(days)s::timestamptz[]) AS d (day) CROSS JOIN unnest(%(levels)s::integer[]) AS l (level)"
)
_OF_DAY: LiteralString = (
    "r.symbol = %(symbol)s AND r.res = l.level AND r.bucket >= d.day AND r.bucket < d.day + interval '24 hours'"
)
_KEEP_BLOCKS: LiteralString = """
    ON CONFLICT (symbol, since) DO UPDATE
    SET max_block = greatest(p.max_block, excluded.max_block), blocks = p.blocks || excluded.blocks
    WHERE p.blocks <> excluded.blocks AND NOT p.blocks @> excluded.blocks"""
_REPLACE: tuple[LiteralString, ...] = (
    f"DELETE FROM {{target_rollups}} r USING {_DAYS_AND_LEVELS} WHERE {_OF_DAY}",
    f"""INSERT INTO {{target_rollups}} ({_COLUMNS})
        SELECT {_COLUMNS} FROM {_DAYS_AND_LEVELS} JOIN {{source_rollups}} r ON {_OF_DAY}""",
    # The blocks of ticks that the source still has. Those of its other ticks are in its table of pruned blocks.
    f"""INSERT INTO {{target_pruned}} AS p (symbol, since, max_block, blocks)
        SELECT %(symbol)s, min(k.ts), max(coalesce(k.block_number, 9223372036854775807)),
               array_agg(DISTINCT hashtextextended(k.block_hash, 0))
        FROM unnest(%(days)s::timestamptz[]) AS d (day)
        JOIN {{source_ticks}} k ON k.symbol = %(symbol)s AND k.ts >= d.day AND k.ts < d.day + interval '24 hours'
        WHERE k.block_hash IS NOT NULL GROUP BY d.day {_KEEP_BLOCKS}""",
    """SELECT {target_changed}(%(symbol)s, min(day), max(day) + interval '24 hours' - interval '1 us', 'removed')
       FROM unnest(%(days)s::timestamptz[]) AS day""",
)

_BLOCKS: LiteralString = """
    SELECT s.symbol, s.since, s.xmin::text FROM {source_pruned} s
    JOIN {target_symbols} t ON t.symbol = s.symbol AND s.since < t.pruned_until ORDER BY s.symbol, s.since"""
_CARRY_BLOCKS: LiteralString = f"""
    INSERT INTO {{target_pruned}} AS p (symbol, since, max_block, blocks)
    SELECT s.symbol, s.since, s.max_block, s.blocks FROM {{source_pruned}} s
    WHERE s.symbol = %(symbol)s AND s.since = ANY (%(times)s::timestamptz[]) {_KEEP_BLOCKS}"""
