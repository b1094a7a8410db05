"""``bin/marketdata-copy FROM TO``: copies ticks, retractions, finality and coverage from one version to another.

Of days whose ticks were pruned, it copies the candles (``pruned_ranges.py``).

Both versions may receive data meanwhile. A pass reads the changes of the source in one snapshot, and applies them to
the target in a transaction per symbol and batch. Other data of the target stay as they are. A copy may be killed at any
moment. The target's ticks and the tables ``market_copied_…`` tell the next copy what was already copied.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from decimal import Decimal
from time import monotonic
from typing import LiteralString, NamedTuple

from marketdata.errors import Stopped
from marketdata.operations import Say, copied_coverage
from marketdata.operations.advisory_lock import exclusive
from marketdata.operations.copied_coverage import Coverage
from marketdata.operations.pruned_ranges import PrunedRanges
from marketdata.operations.version_pair import (
    SESSION,
    Day,
    DayStates,
    Pair,
    changed_days,
    day_chunks,
    read_days,
    writing,
)
from marketdata.store.pool import Connection

BATCH = 10_000
"""Maximum ticks of a transaction, unless a single minute has more."""
_PROGRESS_S = 5.0
_IDLE_S = 0.5
_COPY_LOCK = "marketdata copy {prefix}"


class Carried(NamedTuple):
    """Numbers of copied ticks, of retracted and restored blocks, and of days that were copied as candles."""

    ticks: int = 0
    retracted: int = 0
    restored: int = 0
    days: int = 0

    def plus(self, other: Carried) -> Carried:
        return Carried(*map(sum, zip(self, other, strict=True)))


class _Finality(NamedTuple):
    symbol: str
    block: int | None
    until: str
    """The time as PostgreSQL's text, because it may be infinite."""


class _Changes(NamedTuple):
    """What the target lacks, in one snapshot of both versions. ``lines`` changes with every line of pruned ticks in the
    source."""

    lines: Decimal | None

    retracted: dict[str, list[str]]
    restored: dict[str, list[str]]
    days: DayStates
    finality: list[_Finality]
    chains: list[tuple[str, int, int]]
    """The newest final block of chains, and its time in microseconds."""
    coverage: dict[str, Coverage]


class Copy:
    """Copies from one version to another. Only one copy of a prefix may run at a time (:func:`copying`)."""

    def __init__(self, connection: Connection, pair: Pair, progress: Callable[[Carried, Day], None]) -> None:
        """``progress`` is called after each batch, with the totals of this pass and the day of the batch."""
        self._connection = connection
        self._pair = pair
        self._progress = progress
        self._pruned = PrunedRanges(connection, pair)
        self._days: DayStates = {}
        self.is_overtaken = False
        """Whether ticks of the source were pruned during the last pass, which may have missed them."""

    def carry(self) -> Carried:
        """Make one pass. Afterwards the target has everything that the source had at the beginning of the pass, unless
        the pass was overtaken."""
        changes = self._read()
        # The order matters. Blocks are restored before their ticks are copied, because the target refuses ticks of
        # retracted blocks. Finality and coverage come last, because they are about ticks that must be copied already.
        # The ticks below a line are deleted after the line has risen, which the candles of the same times require.
        for symbol, hashes in changes.retracted.items():
            self._apply(_RETRACT, symbol, hashes)
        for symbol, hashes in changes.restored.items():
            self._apply(_RESTORE, symbol, hashes)
        done = Carried(0, *(sum(map(len, each.values())) for each in (changes.retracted, changes.restored)))
        changed = changed_days(self._days, changes.days)
        pruned = [day for day in changed if day in changes.days and changes.days[day].is_pruned]
        for day, days in self._pruned.carry_days(pruned):
            done = done.plus(Carried(days=days))
            self._progress(done, day)
        for day, ticks in self._carry_ticks(sorted({*changed} - {*pruned})):
            done = done.plus(Carried(ticks))
            self._progress(done, day)
        self._days = changes.days
        self._pruned.carry_lines()
        self._pruned.carry_blocks()
        self._pruned.delete_ticks({day.symbol for day in pruned})
        for finality in changes.finality:
            self._finalize(finality)
        for chain in changes.chains:
            with self._connection.transaction():
                self._connection.execute(SESSION)
                self._connection.execute(self._pair.query(_FINALIZE_CHAIN), chain)
        copied_coverage.apply(self._connection, self._pair, changes.coverage)
        self.is_overtaken = self._lines() != changes.lines
        return done

    def _read(self) -> _Changes:
        connection, pair = self._connection, self._pair
        with connection.transaction():
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            return _Changes(
                lines=self._lines(),
                retracted=self._hashes(_RETRACTED),
                restored=self._hashes(_RESTORED),
                days=read_days(connection, pair),
                finality=[_Finality(*row) for row in connection.execute(pair.query(_FINALITY))],
                chains=connection.execute(pair.query(_CHAINS)).fetchall(),
                coverage=copied_coverage.changed(connection, pair),
            )

    def _lines(self) -> Decimal | None:
        row = self._connection.execute(self._pair.query(_LINES)).fetchone()
        return row[0] if row else None

    def _hashes(self, statement: LiteralString) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for symbol, block_hash in self._connection.execute(self._pair.query(statement), self._pair.tables):
            found.setdefault(symbol, []).append(block_hash)
        return found

    def _apply(self, statements: Sequence[LiteralString], symbol: str, hashes: list[str]) -> None:
        values = {"symbol": symbol, "hashes": hashes, **self._pair.tables}
        with writing(self._connection, self._pair, symbol):
            for statement in statements:
                self._connection.execute(self._pair.query(statement), values)

    def _carry_ticks(self, changed: list[Day]) -> Iterator[tuple[Day, int]]:
        for symbol, starts in day_chunks(changed):
            minutes = self._connection.execute(
                self._pair.query(_MINUTES), {"symbol": symbol, "days": starts}
            ).fetchall()
            for batch in _batches(minutes):
                with writing(self._connection, self._pair, symbol):
                    values = {"symbol": symbol, "minutes": batch}
                    stored = self._connection.execute(self._pair.query(_TICKS), values).rowcount
                yield Day(symbol, batch[-1]), stored

    def _finalize(self, finality: _Finality) -> None:
        values = finality._asdict()
        with writing(self._connection, self._pair, finality.symbol):
            row = self._connection.execute(self._pair.query(_FINAL_UNTIL), values).fetchone()
            self._connection.execute(self._pair.query(_FINALIZE), values)
            self._connection.execute(self._pair.query(_FINALIZED), {**values, "earlier": row[0] if row else None})


class CopyLoop:
    """Makes passes until the target has caught up or, with ``follows``, until ``stopping`` is set.

    If the target has caught up by then, one last pass follows. Otherwise the copy ends at once.
    """

    def __init__(self, connection: Connection, pair: Pair, stopping: threading.Event, say: Say) -> None:
        self._copy = Copy(connection, pair, self._progress)
        self._source, self._target = pair.source.n, pair.target.n
        self._stopping = stopping
        self._say = say
        self._has_caught_up = False
        self._said_at = monotonic()
        self.total = Carried()

    def run(self, *, follows: bool) -> None:
        """Make the passes. Raises Stopped if ``stopping`` is set before the target has caught up."""
        while True:
            is_last = self._stopping.is_set() or not follows
            at = datetime.now(UTC)
            done = self._copy.carry()
            self.total = self.total.plus(done)
            is_behind = done.ticks > BATCH or self._copy.is_overtaken
            if not is_behind and not self._has_caught_up:
                self._say(
                    f"caught up: version {self._target} has what version {self._source} had at {at:%H:%M:%S} UTC; "
                    f"carried {self.described()}"
                )
            self._has_caught_up = not is_behind
            if is_last and not is_behind:
                return
            if not is_behind:
                self._stopping.wait(_IDLE_S)

    def described(self) -> str:
        """The totals, in words."""
        ticks, retracted, restored, days = self.total
        pruned = f"; of {days} days the candles, since the ticks are pruned" if days else ""
        return f"{ticks} ticks, {retracted} retracted and {restored} restored blocks{pruned}"

    def _progress(self, done: Carried, day: Day) -> None:
        if self._stopping.is_set() and not self._has_caught_up:
            raise Stopped(
                f"stopped before it had caught up, nothing is lost: "
                f"bin/marketdata-copy {self._source} {self._target} continues"
            )
        if monotonic() - self._said_at > _PROGRESS_S:
            self._said_at = monotonic()
            self._say(f"{self.total.ticks + done.ticks} ticks so far; at {day.symbol}, {day.start:%Y-%m-%d}")


@contextmanager
def copying(connection: Connection, prefix: str) -> Iterator[None]:
    """Hold the lock of copies of this prefix while the block runs. Raises AlreadyRunning if another copy has it."""
    held = f"another copy of versions with the prefix {prefix} runs: wait for it, or stop it"
    with exclusive(connection, _COPY_LOCK.format(prefix=prefix), lambda: held):
        yield


def is_copying(connection: Connection, prefix: str) -> bool:
    """Whether a copy runs. If this returns False, no copy can begin before the caller's transaction ends."""
    name = _COPY_LOCK.format(prefix=prefix)
    row = connection.execute("SELECT pg_try_advisory_xact_lock(hashtextextended(%s, 0))", (name,)).fetchone()
    return row is not None and not row[0]


def _batches(minutes: Sequence[tuple[datetime, int]]) -> Iterator[list[datetime]]:
    """Group minutes into batches of about ``BATCH`` ticks. ``minutes`` has pairs: a minute, its number of ticks."""
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


_LINES: LiteralString = """
    SELECT sum(extract(epoch FROM pruned_until)) FROM {source_symbols} WHERE pruned_until > '-infinity'"""

# A retraction or restoration is copied once, so a later change of the block by another writer of the target stays. A
# block counts as restored in the source if two conditions hold: its retraction was copied, in either direction, and the
# source no longer refuses the block. A block whose ticks the target has pruned cannot be retracted there.
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
       WHERE NOT {target_is_pruned}(
           %(symbol)s, (SELECT pruned_until FROM {target_symbols} WHERE symbol = %(symbol)s), hash)
       ON CONFLICT DO NOTHING""",
    """DELETE FROM {target_ticks} t USING {target_retracted} r
       WHERE t.symbol = %(symbol)s AND t.block_hash = ANY (%(hashes)s)
         AND r.symbol = t.symbol AND r.block_hash = t.block_hash""",
    """INSERT INTO market_copied_retracted (source, target, symbol, block_hash)
       SELECT %(source)s, %(target)s, %(symbol)s, unnest(%(hashes)s::text[])""",
)
_RESTORE: tuple[LiteralString, ...] = (
    "DELETE FROM {target_retracted} WHERE symbol = %(symbol)s AND block_hash = ANY (%(hashes)s)",
    """DELETE FROM market_copied_retracted
       WHERE (source, target) IN ((%(source)s, %(target)s), (%(target)s, %(source)s))
       AND symbol = %(symbol)s AND block_hash = ANY (%(hashes)s)""",
)
# Minutes with equal candles may have different ticks. So the ids of the first and the last tick are compared, too.
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
        OFFSET 0  -- keeps an index scan per minute
    ) f
    WHERE NOT EXISTS (SELECT FROM {target_retracted} r WHERE r.symbol = f.symbol AND r.block_hash = f.block_hash)
      AND f.ts >= (SELECT pruned_until FROM {target_symbols} WHERE symbol = %(symbol)s)
    ON CONFLICT (symbol, id) DO NOTHING"""

# final_until is infinity if the symbol never had a block, and -infinity if no block is final. The later state wins.
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
_CHAINS: LiteralString = """
    SELECT s.chain, s.finalized_block, (extract(epoch FROM s.final_until) * 1000000)::bigint
    FROM {source_chains} s LEFT JOIN {target_chains} t ON t.chain = s.chain
    WHERE t.chain IS NULL OR (s.finalized_block, s.final_until) > (t.finalized_block, t.final_until)
    ORDER BY s.chain"""
_FINALIZE_CHAIN: LiteralString = "SELECT {target_finalize_chain}(%s, %s, %s)"
