"""Coordinates the backfill in one thread: plans the blocks to read, hands them to the workers, and records stored
ranges."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from time import monotonic

from marketdata.errors import MarketError, ProviderError, Stopped
from marketdata.ingest import old_marks
from marketdata.ingest.api_client import ApiClient
from marketdata.ingest.api_writer import ApiWriter, RetryLimit
from marketdata.ingest.backfill import plan
from marketdata.ingest.backfill.plan import Bounds, Plan, Span
from marketdata.ingest.backfill.span_workers import SpanOutcome, SpanWorkers
from marketdata.ingest.backfill.storing import StoredRanges
from marketdata.ingest.chain_cursor import ChainCursor, rejoin
from marketdata.ingest.discovery import Discovery
from marketdata.ingest.outbox import Outbox
from marketdata.ingest.span_size import MAX_HANDED_OUT, SpanSize
from marketdata.source import pool_check
from marketdata.source.pools.pool import Pool
from marketdata.source.provider import newest_and_final
from marketdata.source.rpc_file import Chain

RETRY_S = 60.0
"""Seconds without progress after which the backfill gives up. The next run resumes at the same block."""
_RECORD_S = 1.0
"""Seconds between two recordings of stored ranges. A recording takes some transactions for each pool."""
_TAKE_S = 0.2
_STOP_S = 5.0
_MAX_SHOWN = 10
_UNREAD = "%s: blocks %d to %d are not indexed: %s"

_log = logging.getLogger("marketdata.backfill")


@dataclass
class Counts:
    """What the backfill has done so far."""

    blocks: int = 0
    ticks: int = 0
    new: int = 0
    known: int = 0
    pruned: int = 0
    """Ticks that were refused, because those of their time are pruned."""
    dead: int = 0
    contradicted: int = 0
    """Ranges that were read header by header, because the provider contradicted itself."""
    left_out: int = 0
    """Blocks of which the provider left out events."""
    skipped: Counter[str] = field(default_factory=Counter)


class Backfill:
    """Works from ``start`` until it is ``finished`` or stopped. ``stop`` is idempotent.

    ``path`` is the file of the outbox. ``connect`` returns a new client of the API, which must write to
    ``ticks_table``. ``first`` and ``last`` limit the blocks to read. If ``first`` is None, each pool begins at its
    start_block. If ``last`` is None, each pool ends before the ingestor's first block.
    """

    def __init__(
        self, chain: Chain, path: Path, connect: Callable[[], ApiClient], ticks_table: str,
        first: int | None = None, last: int | None = None, *, retry_s: float = RETRY_S,
    ) -> None:  # fmt: skip
        self._chain = chain
        self._path = path
        self._api = connect()
        self._table = ticks_table
        self._first, self.last = first, last
        self._limit = RetryLimit(retry_s)
        self._writer = ApiWriter(self._api, self._limit)
        self._workers = SpanWorkers(chain, connect, self._limit)
        self._provider = self._workers.provider
        self._size = SpanSize(0)
        self._handed_out: set[Span] = set()
        self._stored: list[SpanOutcome] = []
        self._record_at = 0.0
        self._plan: Plan | None = None
        self._cursor: ChainCursor | None = None
        self._thread = threading.Thread(target=self._run, name="backfill", daemon=True)
        self.counts = Counts()
        self.error: MarketError | None = None
        self.bounds: dict[str, Bounds] = {}
        """The blocks to read of each symbol."""
        self.newest = 0
        """The newest block of the chain."""
        self.doubted: list[int] = []
        """The blocks of which events are missing, because every answer contradicts the bloom filter."""

    def start(self) -> None:
        self._thread.start()

    @property
    def finished(self) -> bool:
        return not self._thread.is_alive()

    @property
    def is_planned(self) -> bool:
        """Whether it is known which blocks are left to read."""
        return self._plan is not None

    @property
    def all_blocks(self) -> int:
        """The number of blocks to read; 0 before the plan is made."""
        return self._plan.blocks if self._plan is not None else 0

    @property
    def next_block(self) -> int | None:
        """The lowest block that is not recorded as stored; None if all blocks are, or before the plan is made."""
        left = [span.first for span in (*tuple(self._handed_out), *(outcome.span for outcome in self._stored))]
        first = self._plan.first() if self._plan is not None else None
        return min([*left, *([] if first is None else [first])], default=None)

    def stop(self) -> None:
        self._workers.stop(_STOP_S / 2)
        if self._thread.ident is not None:
            self._thread.join(_STOP_S / 2)

    # -- the thread --------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            with closing(self._provider), closing(self._api), closing(Outbox(self._path)) as outbox:
                ranges = self._prepare(outbox)
                self._workers.start()
                self._work(ranges)
                self._finalize()
                if self.doubted:
                    raise ProviderError(_doubted_text(self.doubted))
        except Stopped:
            pass
        except MarketError as error:
            self.error = error
        except Exception as error:
            self.error = MarketError(f"a defect of this program: {error!r}")

    def _prepare(self, outbox: Outbox) -> StoredRanges:
        head, final = newest_and_final(self._provider, self._chain.confirmations)
        self.newest = head.number
        # The end of a span's coverage is the time of the block after the span, so the newest block cannot be read.
        final = min(final, head.number - 1)
        pools = [pool_check.require(self._provider, pool, self._chain.native) for pool in self._chain.pools]
        found = Discovery(self._provider, self._chain, outbox).pools()
        self._writer.require_table(self._table)
        old_marks.remove(outbox, self._provider, pools, partial(self._writer.cover, state="failed"))
        ranges = StoredRanges(outbox, self._table, [*pools, *found])
        cursor = ChainCursor(outbox, self._chain.name)
        self._cursor = cursor
        # The pools of factories are read from one block on, so that their blocks become few spans. Before its creation
        # a pool has no swaps.
        listed = {pool.symbol for pool in pools}
        oldest = min((pool.start_block for pool in found), default=0)
        left = {}
        for pool in (*pools, *found):
            bounds = self._bounds(pool, cursor, final)
            if pool.symbol not in listed and self._first is None and bounds.first <= bounds.last:
                bounds = bounds._replace(first=min(oldest, bounds.first))
            self.bounds[pool.symbol] = bounds
            self._workers.pools[pool.symbol] = replace(pool, start_block=bounds.first)
            left[pool.symbol] = plan.gaps(bounds.first, bounds.last, ranges.of(pool.symbol))
        self._plan = Plan(plan.spans(left))
        self._size = SpanSize(self._plan.blocks)
        return ranges

    def _bounds(self, pool: Pool, cursor: ChainCursor, final: int) -> Bounds:
        first = pool.start_block if self._first is None else self._first
        live = cursor.first_block(pool)
        if self.last is not None and self.last <= final:
            return Bounds(first, self.last, "to_block")
        if self.last is None and live is not None and live - 1 <= final:
            return Bounds(first, live - 1, "ingestor")
        return Bounds(first, final, "final")

    def _work(self, ranges: StoredRanges) -> None:
        while self._submit():
            self._take()
            if monotonic() > self._record_at:
                self._record(ranges)
        self._record(ranges)

    # -- reading -----------------------------------------------------------------------------------------------------

    def _submit(self) -> bool:
        """Hand spans to the workers. Returns False if the workers have no span."""
        assert self._plan is not None
        while len(self._handed_out) < MAX_HANDED_OUT and (span := self._plan.take(self._size.blocks)):
            self._handed_out.add(span)
            self._workers.submit(span)
        return bool(self._handed_out)

    def _take(self) -> None:
        outcome = self._workers.take(_TAKE_S)
        if self._limit.stopping.is_set():
            raise Stopped("the process ends")
        if outcome is None:
            return
        if outcome.error is not None:
            self._give_back(outcome.span, outcome.error)
            return
        self._size.answered(outcome.span.blocks, outcome.ticks)
        self._store(outcome)

    def _give_back(self, span: Span, error: MarketError) -> None:
        assert self._plan is not None
        self._handed_out.discard(span)
        self._plan.give_back(span)
        if not (isinstance(error, ProviderError) and error.may_be_too_large and self._shrinks(span, error)):
            self._limit.wait(error)

    def _shrinks(self, span: Span, error: ProviderError) -> bool:
        """Whether the next spans are smaller than this one, which the provider refused."""
        return self._size.refused(span.blocks, error.suggested)

    # -- storing -----------------------------------------------------------------------------------------------------

    def _store(self, outcome: SpanOutcome) -> None:
        self._handed_out.discard(outcome.span)
        self._stored.append(outcome)
        self.counts.blocks += outcome.span.blocks
        self.counts.ticks += outcome.ticks
        self.counts.new += outcome.new
        self.counts.known += outcome.known
        self.counts.pruned += outcome.pruned
        self.counts.dead += len(outcome.refusals)
        self.counts.contradicted += outcome.contradicted
        self.counts.left_out += outcome.left_out
        self.counts.skipped += outcome.skipped
        self._limit.progress()

    def _record(self, ranges: StoredRanges) -> None:
        """Report the coverage of stored spans, and record their ranges. What was not read is neither indexed nor
        recorded, so the next run reads it again."""
        read = [outcome for outcome in map(_without_unread, self._stored) if outcome.span.symbols]
        for start, end, symbols in _times(read):
            self._cover(symbols, start, end)
        for outcome in self._stored:
            for symbol, reason in outcome.unread.items():
                self._fail([symbol], outcome.start, outcome.end)
                _log.warning(_UNREAD, symbol, outcome.span.first, outcome.span.last, reason)
            for block, missing in outcome.doubted:
                self._fail(missing, block.time, block.time + 1)
                self.doubted.append(block.number)
        refusals = [refusal for outcome in self._stored for refusal in outcome.refusals]
        ranges.add([span for outcome in read for span in _read_spans(outcome)], refusals)
        self._stored = []
        self._record_at = monotonic() + _RECORD_S

    def _cover(self, symbols: Sequence[str], start: int, end: int) -> None:
        """Report times as indexed. Where the chain's coverage continues the joined coverage of a pool, the last second
        of the latter stays: without it, nothing would be continued."""
        assert self._cursor is not None
        joints = self._cursor.joints()
        groups: dict[int, list[str]] = {}
        for symbol in symbols:
            joint = joints.get(symbol, end + 1)
            groups.setdefault(joint if start < joint <= end else end + 1, []).append(symbol)
        for joint, part in groups.items():
            self._writer.cover(part, start, joint - 1)
            self._writer.cover(part, min(joint, end), end)

    def _fail(self, symbols: Sequence[str], start: int, end: int) -> None:
        assert self._cursor is not None
        self._writer.cover(symbols, start, end, "failed")
        with self._cursor.transaction() as transaction:
            for symbol in symbols:
                rejoin(transaction, symbol, start, end)

    def _finalize(self) -> None:
        """Report each symbol as final up to its last block."""
        ends = {symbol: bounds.last for symbol, bounds in self.bounds.items() if bounds.first <= bounds.last}
        headers = self._limit.retry(lambda: self._provider.headers(sorted(set(ends.values()))))
        blocks = {header.number: header for header in headers}
        self._writer.finalize({symbol: blocks[end] for symbol, end in ends.items()})


def _doubted_text(numbers: Sequence[int]) -> str:
    shown = ", ".join(map(str, sorted(numbers)[:_MAX_SHOWN]))
    return (
        f"{len(numbers)} blocks are not indexed, because every answer lacks events that their bloom filters name: "
        f"{shown}{', …' if len(numbers) > _MAX_SHOWN else ''}. The next run reads them again"
    )


def _without_unread(outcome: SpanOutcome) -> SpanOutcome:
    """The outcome for those symbols that were read."""
    if not outcome.unread:
        return outcome
    symbols = tuple(symbol for symbol in outcome.span.symbols if symbol not in outcome.unread)
    return replace(outcome, span=outcome.span._replace(symbols=symbols))


def _read_spans(outcome: SpanOutcome) -> list[Span]:
    """The span, without the blocks of which events are missing for the symbols that miss them."""
    span = outcome.span
    missing = {block.number: symbols for block, symbols in outcome.doubted}
    if not missing:
        return [span]
    left = {
        symbol: [(number, number) for number in sorted(missing) if symbol in missing[number]] for symbol in span.symbols
    }
    return plan.spans({symbol: plan.gaps(span.first, span.last, done) for symbol, done in left.items()})


def _times(outcomes: Iterable[SpanOutcome]) -> list[tuple[int, int, tuple[str, ...]]]:
    """The times [start, end) of the outcomes, with their symbols. Adjacent spans of the same symbols are merged."""
    found: list[tuple[int, int, tuple[str, ...]]] = []
    last = None
    for outcome in sorted(outcomes, key=lambda each: (each.span.symbols, each.span.first)):
        first, after, symbols = outcome.span
        if last == (first - 1, symbols):
            found[-1] = (found[-1][0], outcome.end, symbols)
        else:
            found.append((outcome.start, outcome.end, symbols))
        last = (after, symbols)
    return found
