"""``bin/marketdata-copy FROM TO``: copies ticks, retractions, finality and coverage from one version to another.

Of days whose ticks were pruned, it copies the candles (``pruned_ranges.py``).

Both versions may receive data meanwhile. A pass reads the changes of the source in one snapshot (of each shard, if the
source is distributed), and applies them to the target in a transaction per symbol and batch. Other data of the target
stay as they are. A copy may be killed at any moment. The target's ticks and the tables ``market_copied_…`` tell the
next copy what was already copied.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from time import monotonic
from typing import Any, LiteralString, NamedTuple

from marketdata.errors import Stopped
from marketdata.operations import Say, copied_coverage
from marketdata.operations.advisory_lock import exclusive
from marketdata.operations.copied_coverage import Coverage
from marketdata.operations.day_states import DAY_ROWS, Day, DayStates, changed_days, day_chunks, read_days
from marketdata.operations.pair_access import SESSION, Both, PairAccess, Values
from marketdata.operations.pruned_ranges import PrunedRanges
from marketdata.operations.version_pair import CANDLE_COLUMNS, SOURCE_RETRACTED, Rows
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


class _Block(NamedTuple):
    hash: str
    number: int | None


class _Changes(NamedTuple):
    """What the target lacks. ``lines`` changes with every line of pruned ticks in the source."""

    lines: list[tuple[Decimal | None]]
    retracted: dict[str, list[_Block]]
    restored: dict[str, list[_Block]]
    days: DayStates
    finality: list[_Finality]
    chains: list[tuple[str, int, int]]
    """The newest final block of chains, and its time in microseconds."""
    coverage: dict[str, Coverage]


class Copy:
    """Copies from one version to another. Only one copy of a prefix may run at a time (:func:`copying`)."""

    def __init__(self, pairs: PairAccess, progress: Callable[[Carried, Day], None], batch: int = BATCH) -> None:
        """``progress`` is called after each batch of about ``batch`` ticks, with the totals of this pass and the day of
        the batch."""
        self._batch = batch
        self._pairs = pairs
        self._connection = pairs.connection
        self._pair = pairs.pair
        self._progress = progress
        self._pruned = PrunedRanges(pairs)
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
        for symbol, blocks in changes.retracted.items():
            self._apply(_RETRACT, _REMEMBER_RETRACTED, symbol, blocks)
        for symbol, blocks in changes.restored.items():
            self._apply(_RESTORE, _FORGET_RETRACTED, symbol, blocks)
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
            self._finalize_chain(chain)
        copied_coverage.apply(self._connection, self._pair, changes.coverage)
        self.is_overtaken = self._lines() != changes.lines
        return done

    def _read(self) -> _Changes:
        lines = self._lines()  # first, so that a line that is drawn meanwhile is noticed
        return self._pairs.overview([*DAY_ROWS, SOURCE_RETRACTED], partial(self._changes, lines))

    def _changes(self, lines: list[tuple[Decimal | None]], both: Both) -> _Changes:
        return _Changes(
            lines=lines,
            retracted=self._blocks(both, _RETRACTED),
            restored=self._blocks(both, _RESTORED),
            days=read_days(both),
            finality=[_Finality(*row) for row in both.execute(_FINALITY)],
            chains=both.execute(_CHAINS).fetchall(),
            coverage=copied_coverage.changed(both),
        )

    def _lines(self) -> list[tuple[Decimal | None]]:
        return self._pairs.each_source(_LINES)

    def _blocks(self, both: Both, statement: LiteralString) -> dict[str, list[_Block]]:
        found: dict[str, list[_Block]] = {}
        for symbol, *block in both.execute(statement, self._pair.tables):
            found.setdefault(symbol, []).append(_Block(*block))
        return found

    def _apply(
        self, statements: Sequence[LiteralString], remember: LiteralString, symbol: str, blocks: list[_Block]
    ) -> None:
        """Apply the statements to the target, and then remember it. If the target is plain, both are in one
        transaction. Otherwise a copy that is killed between them applies the statements again."""
        hashes, numbers = zip(*blocks, strict=True)
        values = {"symbol": symbol, "hashes": list(hashes), "numbers": list(numbers), **self._pair.tables}
        with self._connection.transaction():
            self._pairs.write(symbol, [], values, partial(_execute_all, statements, values=values))
            self._connection.execute(remember, values)

    def _carry_ticks(self, changed: list[Day]) -> Iterator[tuple[Day, int]]:
        for symbol, starts in day_chunks(changed):
            days = {"symbol": symbol, "days": starts}
            minutes = self._pairs.read(symbol, [_SOURCE_MINUTES], days, partial(_fetch_all, _MINUTES, values=days))
            for batch in _batches(minutes, self._batch):
                values = {"symbol": symbol, "minutes": batch}
                stored = self._pairs.write(symbol, [_SOURCE_TICKS], values, partial(_row_count, _TICKS, values=values))
                yield Day(symbol, batch[-1]), stored

    def _finalize_chain(self, chain: tuple[str, int, int]) -> None:
        with self._connection.transaction():
            self._connection.execute(SESSION)
            if self._pair.target.shards is not None:
                for statement in _SESSION_OF_NODES:
                    self._connection.execute(statement)
            self._connection.execute(self._pair.query(_FINALIZE_CHAIN), chain)

    def _finalize(self, finality: _Finality) -> None:
        self._pairs.write(finality.symbol, [], {}, partial(_finalize, finality))


def _execute_all(statements: Sequence[LiteralString], both: Both, values: Values) -> None:
    for statement in statements:
        both.execute(statement, values)


def _fetch_all(statement: LiteralString, both: Both, values: Values) -> list[tuple[Any, ...]]:
    return both.execute(statement, values).fetchall()


def _row_count(statement: LiteralString, both: Both, values: Values) -> int:
    return both.execute(statement, values).rowcount


def _finalize(finality: _Finality, both: Both) -> None:
    values = finality._asdict()
    row = both.execute(_FINAL_UNTIL, values).fetchone()
    both.execute(_FINALIZE, values)
    both.execute(_FINALIZED, {**values, "earlier": row[0] if row else None})


class CopyLoop:
    """Makes passes until the target has caught up or, with ``follows``, until ``stopping`` is set.

    If the target has caught up by then, one last pass follows. Otherwise the copy ends at once.
    """

    def __init__(self, pairs: PairAccess, stopping: threading.Event, say: Say) -> None:
        self._copy = Copy(pairs, self._progress)
        self._source, self._target = pairs.pair.source.n, pairs.pair.target.n
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


def _batches(minutes: Sequence[tuple[datetime, int]], most: int) -> Iterator[list[datetime]]:
    """Group minutes into batches of about ``most`` ticks. ``minutes`` has pairs: a minute, its number of ticks."""
    batch: list[datetime] = []
    ticks = 0
    for minute, count in minutes:
        if batch and ticks + count > most:
            yield batch
            batch, ticks = [], 0
        batch.append(minute)
        ticks += count
    if batch:
        yield batch


# The coordinator asks a node whether the version is paused.
_SESSION_OF_NODES: tuple[LiteralString, ...] = (
    "SET LOCAL citus.propagate_set_commands = 'local'",
    "SET LOCAL marketdata.pause = 'passed'",
)
_LINES: LiteralString = """
    SELECT sum(extract(epoch FROM pruned_until)) FROM {symbols} WHERE pruned_until > '-infinity'"""

# A retraction or restoration is copied once, so a later change of the block by another writer of the target stays. A
# block counts as restored in the source if two conditions hold: its retraction was copied, in either direction, and the
# source no longer refuses the block. A block whose ticks the target has pruned cannot be retracted there.
_RETRACTED: LiteralString = """
    SELECT symbol, block_hash, block_number FROM {source_all_retracted} r WHERE NOT EXISTS (
        SELECT FROM market_copied_retracted c WHERE c.source = %(source)s AND c.target = %(target)s
        AND c.symbol = r.symbol AND c.block_hash = r.block_hash)
    ORDER BY symbol"""
_RESTORED: LiteralString = """
    SELECT DISTINCT symbol, block_hash, NULL::bigint FROM market_copied_retracted c
    WHERE (source, target) IN ((%(source)s, %(target)s), (%(target)s, %(source)s))
    AND NOT EXISTS (SELECT FROM {source_all_retracted} r WHERE r.symbol = c.symbol AND r.block_hash = c.block_hash)
    ORDER BY symbol"""
_RETRACT: tuple[LiteralString, ...] = (
    """INSERT INTO {target_retracted} (symbol, block_hash, block_number)
       SELECT %(symbol)s, hash, number FROM unnest(%(hashes)s::text[], %(numbers)s::bigint[]) AS r (hash, number)
       WHERE NOT {target_is_pruned}(
           %(symbol)s, (SELECT pruned_until FROM {target_symbols} WHERE symbol = %(symbol)s), hash)
       ON CONFLICT DO NOTHING""",
    """DELETE FROM {target_ticks} t USING {target_retracted} r
       WHERE t.symbol = %(symbol)s AND t.block_hash = ANY (%(hashes)s)
         AND r.symbol = t.symbol AND r.block_hash = t.block_hash""",
)
_REMEMBER_RETRACTED: LiteralString = """
    INSERT INTO market_copied_retracted (source, target, symbol, block_hash)
    SELECT %(source)s, %(target)s, %(symbol)s, unnest(%(hashes)s::text[])"""
_RESTORE: tuple[LiteralString, ...] = (
    "DELETE FROM {target_retracted} WHERE symbol = %(symbol)s AND block_hash = ANY (%(hashes)s)",
)
_FORGET_RETRACTED: LiteralString = """
    DELETE FROM market_copied_retracted
    WHERE (source, target) IN ((%(source)s, %(target)s), (%(target)s, %(source)s))
    AND symbol = %(symbol)s AND block_hash = ANY (%(hashes)s)"""

_SOURCE_MINUTES = Rows(
    "source_minutes",
    f"""SELECT {CANDLE_COLUMNS} FROM unnest(%(days)s::timestamptz[]) AS d (day)
        JOIN {{rollups_1m}} s
            ON s.symbol = %(symbol)s AND s.res = 60 AND s.bucket >= d.day AND s.bucket < d.day + interval '24 hours'""",
)
# Minutes with equal candles may have different ticks. So the ids of the first and the last tick are compared, too.
_MINUTES: LiteralString = """
    SELECT s.bucket, s.n
    FROM {source_minutes} s
    LEFT JOIN {target_rollups_1m} t ON t.symbol = s.symbol AND t.res = 60 AND t.bucket = s.bucket
    WHERE (s.n, s.volume, s.quote, s.buy_volume, s.open, s.high, s.low, s.close, s.max_block,
           s.first_ts, s.first_seq, s.first_id, s.last_ts, s.last_seq, s.last_id)
       IS DISTINCT FROM (t.n, t.volume, t.quote, t.buy_volume, t.open, t.high, t.low, t.close, t.max_block,
           t.first_ts, t.first_seq, t.first_id, t.last_ts, t.last_seq, t.last_id)
    ORDER BY s.bucket"""
_COLUMNS: LiteralString = "symbol, id, ts, seq, price, size, side, block_number, block_hash, tx"
_SOURCE_TICKS = Rows(
    "source_minutes_ticks",
    f"""SELECT {_COLUMNS} FROM unnest(%(minutes)s::timestamptz[]) AS m (bucket)
        CROSS JOIN LATERAL (
            SELECT * FROM {{ticks}} s
            WHERE s.symbol = %(symbol)s AND s.ts >= m.bucket AND s.ts < m.bucket + interval '1 min'
            OFFSET 0  -- keeps an index scan per minute
        ) f""",
)
_TICKS: LiteralString = f"""
    INSERT INTO {{target_ticks}} ({_COLUMNS})
    SELECT {_COLUMNS} FROM {{source_minutes_ticks}} f
    WHERE NOT EXISTS (SELECT FROM {{target_retracted}} r WHERE r.symbol = f.symbol AND r.block_hash = f.block_hash)
      AND f.ts >= (SELECT pruned_until FROM {{target_symbols}} WHERE symbol = %(symbol)s)
    ON CONFLICT (symbol, id) DO NOTHING"""

# final_until is infinity if the symbol never had a block, and -infinity if no block is final. The later state wins.
_FINALITY: LiteralString = """
    SELECT s.symbol, s.finalized_block, s.final_until::text
    FROM {source_all_symbols} s LEFT JOIN {target_all_symbols} t ON t.symbol = s.symbol
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
