"""``bin/marketdata-copy FROM TO``: carries over to a version what another one received.

Both may receive meanwhile. A pass reads in one snapshot what changed in the source, and applies it to the target in
transactions of a symbol each. What the target received by itself stays. A copy may be killed at any moment: where it is
shows in the ticks of the target, and in the tables ``market_copied_…`` of retractions and coverage that were applied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import LiteralString, NamedTuple

from marketdata.operations import changed_days
from marketdata.operations.changed_days import Day
from marketdata.operations.copied_coverage import Coverage, apply_coverage, read_coverage
from marketdata.operations.version_pair import Pair
from marketdata.store.pool import Connection

BATCH = 10_000
"""Ticks in one transaction; more when a single minute has more."""


class Carried(NamedTuple):
    """What was carried over."""

    ticks: int = 0
    retracted: int = 0
    restored: int = 0

    def plus(self, other: Carried) -> Carried:
        return Carried(*map(sum, zip(self, other, strict=True)))


class _Finality(NamedTuple):
    symbol: str
    block: int | None
    until: str
    """As PostgreSQL writes it, since it may be infinite."""


class _Changes(NamedTuple):
    """What the target lacks of the source, at one moment."""

    retracted: dict[str, list[str]]
    restored: dict[str, list[str]]
    days: changed_days.State
    finality: list[_Finality]
    coverage: Coverage


class Copy:
    """Carries from one version to another; only one copy of a prefix may run at a time."""

    def __init__(self, connection: Connection, pair: Pair, progress: Callable[[Carried, Day], None]) -> None:
        """``progress`` is called after each batch, with what this pass has carried so far and the day it is at."""
        self._connection = connection
        self._pair = pair
        self._progress = progress
        self._days: changed_days.State = {}

    def carry(self) -> Carried:
        """One pass: afterwards the target has everything that the source had when the pass began."""
        changes = self._read()
        # In this order: the ticks of a restored block are accepted again, and no candle is final, and no time covered,
        # before its ticks are there.
        for symbol, hashes in changes.retracted.items():
            self._apply(_RETRACT, symbol, hashes)
        for symbol, hashes in changes.restored.items():
            self._apply(_RESTORE, symbol, hashes)
        done = Carried(0, *(sum(map(len, each.values())) for each in (changes.retracted, changes.restored)))
        for day, ticks in self._carry_ticks(changed_days.changed(self._days, changes.days)):
            done = done.plus(Carried(ticks))
            self._progress(done, day)
        self._days = changes.days
        for finality in changes.finality:
            self._finalize(finality)
        apply_coverage(self._connection, self._pair, changes.coverage)
        return done

    def _read(self) -> _Changes:
        connection, pair = self._connection, self._pair
        with connection.transaction():
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            return _Changes(
                retracted=self._hashes(_RETRACTED),
                restored=self._hashes(_RESTORED),
                days=changed_days.read(connection, pair),
                finality=[_Finality(*row) for row in connection.execute(pair.query(_FINALITY))],
                coverage=read_coverage(connection, pair),
            )

    def _hashes(self, statement: LiteralString) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for symbol, block_hash in self._connection.execute(self._pair.query(statement), self._pair.tables):
            found.setdefault(symbol, []).append(block_hash)
        return found

    def _apply(self, statements: Sequence[LiteralString], symbol: str, hashes: list[str]) -> None:
        values = {"symbol": symbol, "hashes": hashes, **self._pair.tables}
        with self._writing(symbol):
            for statement in statements:
                self._connection.execute(self._pair.query(statement), values)

    def _carry_ticks(self, changed: list[Day]) -> Iterator[tuple[Day, int]]:
        for symbol, starts in changed_days.chunks(changed):
            minutes = self._connection.execute(
                self._pair.query(_MINUTES), {"symbol": symbol, "days": starts}
            ).fetchall()
            for batch in _batches(minutes):
                with self._writing(symbol):
                    values = {"symbol": symbol, "minutes": batch}
                    stored = self._connection.execute(self._pair.query(_TICKS), values).rowcount
                yield Day(symbol, batch[-1]), stored

    @contextmanager
    def _writing(self, symbol: str) -> Iterator[None]:
        """A transaction with the symbol locked, as the functions of ``store/sql/ingest.sql`` lock it."""
        with self._connection.transaction():
            self._connection.execute(_SESSION)
            self._connection.execute(self._pair.query(_LOCK), {"symbol": symbol})
            yield

    def _finalize(self, finality: _Finality) -> None:
        values = finality._asdict()
        with self._writing(finality.symbol):
            row = self._connection.execute(self._pair.query(_FINAL_UNTIL), values).fetchone()
            self._connection.execute(self._pair.query(_FINALIZE), values)
            self._connection.execute(self._pair.query(_FINALIZED), {**values, "earlier": row[0] if row else None})


def _batches(minutes: Sequence[tuple[datetime, int]]) -> Iterator[list[datetime]]:
    """The minutes in groups of about ``BATCH`` ticks; each comes with its number of ticks."""
    batch: list[datetime] = []
    ticks = 0
    for minute, count in minutes:
        if batch and ticks + count > BATCH:
            yield batch
            batch, ticks = [], 0
        batch.append(minute)
        ticks += count
    if batch:
        yield batch


_SESSION = "SELECT set_config('marketdata.writer', 'locked', true), set_config('marketdata.pause', 'passed', true)"

# A retraction or restoration is carried once. What the target's own writer did with the block later stays. A block
# whose retraction was carried in either direction, and which the source does not refuse any more, was restored there.
_RETRACTED: LiteralString = """
    SELECT symbol, block_hash FROM {source_retracted} r WHERE NOT EXISTS (
        SELECT FROM market_copied_retracted c WHERE c.source = %(source)s AND c.target = %(target)s
        AND c.symbol = r.symbol AND c.block_hash = r.block_hash)
    ORDER BY symbol"""
_RESTORED: LiteralString = """
    SELECT DISTINCT symbol, block_hash FROM market_copied_retracted c
    WHERE (source, target) IN ((%(source)s, %(target)s), (%(target)s, %(source)s))
    AND NOT EXISTS (SELECT FROM {source_retracted} r WHERE r.symbol = c.symbol AND r.block_hash = c.block_hash)
    ORDER BY symbol"""
_RETRACT: tuple[LiteralString, ...] = (
    """INSERT INTO {target_retracted} (symbol, block_hash, block_number)
       SELECT %(symbol)s, hash, r.block_number FROM unnest(%(hashes)s::text[]) AS hash
       LEFT JOIN {source_retracted} r ON r.symbol = %(symbol)s AND r.block_hash = hash
       ON CONFLICT DO NOTHING""",
    "DELETE FROM {target_ticks} WHERE symbol = %(symbol)s AND block_hash = ANY (%(hashes)s)",
    """INSERT INTO market_copied_retracted (source, target, symbol, block_hash)
       SELECT %(source)s, %(target)s, %(symbol)s, unnest(%(hashes)s::text[])""",
)
_RESTORE: tuple[LiteralString, ...] = (
    "DELETE FROM {target_retracted} WHERE symbol = %(symbol)s AND block_hash = ANY (%(hashes)s)",
    """DELETE FROM market_copied_retracted
       WHERE (source, target) IN ((%(source)s, %(target)s), (%(target)s, %(source)s))
       AND symbol = %(symbol)s AND block_hash = ANY (%(hashes)s)""",
)
_LOCK: LiteralString = """
    INSERT INTO {target_symbols} AS s (symbol, version) VALUES (%(symbol)s, 1)
    ON CONFLICT (symbol) DO UPDATE SET version = s.version + 1"""

# The ids of the first and the last tick tell minutes apart whose candles are equal.
_MINUTES: LiteralString = """
    SELECT s.bucket, s.n
    FROM unnest(%(days)s::timestamptz[]) AS d (day)
    JOIN {source_rollups_1m} s
        ON s.symbol = %(symbol)s AND s.res = 60 AND s.bucket >= d.day AND s.bucket < d.day + interval '24 hours'
    LEFT JOIN {target_rollups_1m} t ON t.symbol = s.symbol AND t.res = 60 AND t.bucket = s.bucket
    WHERE (s.n, s.volume, s.quote, s.buy_volume, s.open, s.high, s.low, s.close, s.max_block,
           s.first_ts, s.first_seq, s.first_id, s.last_ts, s.last_seq, s.last_id)
       IS DISTINCT FROM (t.n, t.volume, t.quote, t.buy_volume, t.open, t.high, t.low, t.close, t.max_block,
           t.first_ts, t.first_seq, t.first_id, t.last_ts, t.last_seq, t.last_id)
    ORDER BY s.bucket"""
_TICKS: LiteralString = """
    INSERT INTO {target_ticks} (symbol, id, ts, seq, price, size, side, block_number, block_hash, tx)
    SELECT f.symbol, f.id, f.ts, f.seq, f.price, f.size, f.side, f.block_number, f.block_hash, f.tx
    FROM unnest(%(minutes)s::timestamptz[]) AS m (bucket)
    CROSS JOIN LATERAL (
        SELECT * FROM {source_ticks} s
        WHERE s.symbol = %(symbol)s AND s.ts >= m.bucket AND s.ts < m.bucket + interval '1 min'
        OFFSET 0  -- an index scan per minute
    ) f
    WHERE NOT EXISTS (SELECT FROM {target_retracted} r WHERE r.symbol = f.symbol AND r.block_hash = f.block_hash)
    ON CONFLICT (symbol, id) DO NOTHING"""

# infinity: the symbol never had a block; -infinity: none of its blocks is final. The later state wins.
_FINALITY: LiteralString = """
    SELECT s.symbol, s.finalized_block, s.final_until::text
    FROM {source_symbols} s LEFT JOIN {target_symbols} t ON t.symbol = s.symbol
    WHERE t.symbol IS NULL OR s.finalized_block > coalesce(t.finalized_block, -1)
       OR s.final_until <> 'infinity' AND (t.final_until = 'infinity' OR t.final_until < s.final_until)
    ORDER BY s.symbol"""
_FINAL_UNTIL: LiteralString = "SELECT final_until::text FROM {target_symbols} WHERE symbol = %(symbol)s"
_FINALIZE: LiteralString = """
    UPDATE {target_symbols} SET finalized_block = greatest(finalized_block, %(block)s), final_until = CASE
        WHEN %(until)s::timestamptz = 'infinity' THEN final_until
        ELSE greatest(nullif(final_until, 'infinity'), %(until)s::timestamptz) END
    WHERE symbol = %(symbol)s"""
_FINALIZED: LiteralString = """
    SELECT {target_changed}(symbol, least(%(earlier)s::timestamptz, final_until),
                            greatest(%(earlier)s::timestamptz, final_until), 'final')
    FROM {target_symbols} WHERE symbol = %(symbol)s AND final_until <> %(earlier)s::timestamptz"""
