"""The backfill's work: plan what is left to read, have it read, and store it.

One thread does all of this but the reading. When the API acknowledged the ticks of a range, and then its coverage, the
range is entered in the state file, and is done.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import Any, TypeVar

from marketdata.errors import MarketError, ProviderError, RangeRefused, Stopped
from marketdata.ingest.api_client import ApiClient, ApiUnavailable
from marketdata.ingest.backfill import plan
from marketdata.ingest.backfill.plan import Plan, Span
from marketdata.ingest.backfill.readers import THREADS, Readers, Reading
from marketdata.ingest.backfill.state import Backfilled, Refusal
from marketdata.ingest.delivery import BATCH, send
from marketdata.ingest.lease import served_table
from marketdata.ingest.outbox import Outbox, encoded
from marketdata.ingest.place import Place
from marketdata.source import check
from marketdata.source.node import Node
from marketdata.source.ranges import AdaptiveRange
from marketdata.source.rpc_file import Pool, RpcFile

PATIENCE_S = 60.0
"""Seconds without progress after which the backfill gives up. The next run goes on where it was."""
_AHEAD = 4 * THREADS
"""Spans that are handed out at a time."""
_SPAN_TICKS = 1_000
"""About as many ticks should a span have: some are read while others are decoded, and others stored."""
_ENTER_S = 1.0
"""So often the stored ranges are covered and entered, which takes some transactions for each pool."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.25, 8.0
_STOP_S = 5.0

_T = TypeVar("_T")


@dataclass
class Counts:
    """What happened so far."""

    blocks: int = 0
    ticks: int = 0
    stored: int = 0
    known: int = 0
    dead: int = 0
    skipped: Counter[str] = field(default_factory=Counter)


class Backfill:
    """Works from ``start`` until it is ``finished``, or until ``stop``, which may be called repeatedly. ``path`` is
    that of the outbox; ``first`` and ``last`` are the blocks to read, None leaves the choice to each pool."""

    def __init__(
        self, file: RpcFile, path: Path, api: ApiClient, ticks_table: str | None, first: int | None = None,
        last: int | None = None, *, patience: float = PATIENCE_S,
    ) -> None:  # fmt: skip
        self._file = file
        self._path = path
        self._api = api
        self._expected_table = ticks_table
        self._first, self._last = first, last
        self._patience = patience
        self._readers = Readers(file)
        self._node = Node(self._readers.rpc, file.chain_id)
        self._range = AdaptiveRange()
        self._most = 1
        self._handed_out: set[Span] = set()
        self._stored: list[Reading] = []
        self._refusals: list[Refusal] = []
        self._enter_at = 0.0
        self._plan: Plan | None = None
        self._stopping = threading.Event()
        self._progress_at = monotonic()
        self._thread = threading.Thread(target=self._run, name="backfill", daemon=True)
        self.counts = Counts()
        self.error: MarketError | None = None
        self.ends: dict[str, int] = {}
        """The last block of each symbol."""

    def start(self) -> None:
        self._thread.start()

    @property
    def finished(self) -> bool:
        return not self._thread.is_alive()

    @property
    def all_blocks(self) -> int:
        """How many blocks there were to read; 0 until that is known."""
        return self._plan.blocks if self._plan is not None else 0

    @property
    def next_block(self) -> int | None:
        """The lowest block that is not done; None when all are, or when there is no plan yet."""
        left = [span.first for span in (*tuple(self._handed_out), *(reading.span for reading in self._stored))]
        first = self._plan.first() if self._plan is not None else None
        return min([*left, *([] if first is None else [first])], default=None)

    def stop(self) -> None:
        self._stopping.set()
        self._readers.stop(_STOP_S / 2)
        if self._thread.ident is not None:
            self._thread.join(_STOP_S / 2)

    # -- the thread --------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            with closing(self._readers.rpc), closing(Outbox(self._path)) as outbox:
                state = self._prepare(outbox)
                self._readers.start()
                self._work(state)
        except Stopped:
            pass
        except MarketError as error:
            self.error = error
        except Exception as error:
            self.error = MarketError(f"a defect of this program: {error!r}")

    def _prepare(self, outbox: Outbox) -> Backfilled:
        head, final = self._node.head(with_finalized=self._file.confirmations is None)
        if self._file.confirmations is not None:
            final = head.number - self._file.confirmations
        # A range ends at the time of the block after it.
        final = min(final, head.number - 1)
        for pool in self._file.pools:
            check.require(self._node, pool)
        table = self._persistently(lambda: served_table(self._api, self._expected_table))
        state = Backfilled(outbox, table, self._file.pools)
        place = Place(outbox)
        left = {}
        for pool in self._file.pools:
            first, last = self._bounds(pool, place, final)
            self.ends[pool.symbol] = last
            left[pool.symbol] = plan.gaps(first, last, state.ranges(pool.symbol))
        self._plan = Plan(plan.spans(left))
        self._most = max(1, self._plan.blocks // _AHEAD)
        return state

    def _bounds(self, pool: Pool, place: Place, final: int) -> tuple[int, int]:
        first = pool.start_block if self._first is None else self._first
        if self._last is not None:
            return first, min(self._last, final)
        live = place.first_block(pool)
        return first, final if live is None else min(live - 1, final)

    def _work(self, state: Backfilled) -> None:
        while self._submit():
            if readings := self._gather():
                self._store(readings)
            if monotonic() > self._enter_at:
                self._enter(state)
        self._enter(state)
        self._finalize()

    # -- reading -----------------------------------------------------------------------------------------------------

    def _submit(self) -> bool:
        """Hand out spans; False when all are done."""
        assert self._plan is not None
        while len(self._handed_out) < _AHEAD and (span := self._plan.take(min(self._range.size, self._most))):
            self._handed_out.add(span)
            self._readers.submit(span)
        return bool(self._handed_out)

    def _gather(self) -> list[Reading]:
        """The readings that are there, at least one if one comes, up to the ticks of one request."""
        found: list[Reading] = []
        ticks, wait = 0, 0.2
        while ticks < BATCH and (reading := self._readers.take(wait)) is not None:
            wait = 0.0
            if reading.error is not None:
                self._handed_out.discard(reading.span)
                self._give_back(reading.span, reading.error)
                continue
            self._learn(reading)
            found.append(reading)
            ticks += len(reading.ticks)
        if self._stopping.is_set():
            raise Stopped("the process ends")
        return found

    def _learn(self, reading: Reading) -> None:
        self._range.answered(reading.span.blocks)
        self._most = max(1, reading.span.blocks * _SPAN_TICKS // max(1, len(reading.ticks)))

    def _give_back(self, span: Span, error: MarketError) -> None:
        assert self._plan is not None
        self._plan.give_back(span)
        refused = isinstance(error, RangeRefused) or error.code == "call_refused"
        # Of several spans of one size that are refused, the first one makes the next ones smaller.
        if refused and (span.blocks > min(self._range.size, self._most) or self._smaller(span, error)):
            return
        self._wait_after(error, _FIRST_PAUSE)

    def _smaller(self, span: Span, error: MarketError) -> bool:
        return self._range.refused(span.blocks, error.suggested if isinstance(error, RangeRefused) else None)

    # -- storing -----------------------------------------------------------------------------------------------------

    def _store(self, readings: Sequence[Reading]) -> None:
        self._refusals += self._send([tick for reading in readings for tick in reading.ticks])
        for reading in readings:
            self.counts.blocks += reading.span.blocks
            self.counts.ticks += len(reading.ticks)
            self.counts.skipped += reading.skipped
            reading.ticks.clear()
        self._stored += readings
        self._handed_out.difference_update(reading.span for reading in readings)
        self._progress_at = monotonic()

    def _enter(self, state: Backfilled) -> None:
        """What is stored is covered, and done."""
        for start, end, symbols in _times(self._stored):
            for symbol in symbols:
                self._persistently(lambda each=(symbol, start, end): self._cover(*each))  # type: ignore[misc]
        state.enter([reading.span for reading in self._stored], self._refusals)
        self.counts.dead += len(self._refusals)
        self._stored, self._refusals = [], []
        self._enter_at = monotonic() + _ENTER_S

    def _send(self, items: Sequence[str]) -> list[Refusal]:
        """What the API refused."""
        refused = self._send_once(items, self.counts)
        # The ingestor retracted the block of such a tick, which is final and part of the chain.
        again = [body for body, code, _ in refused if code == "retracted"]
        restored = [line for body in again for line in (_restore(body), body)]
        return [each for each in refused if each.code != "retracted"] + self._send_once(restored, Counts())

    def _send_once(self, items: Sequence[str], counts: Counts) -> list[Refusal]:
        refused: list[Refusal] = []
        for at in range(0, len(items), BATCH):
            part = items[at : at + BATCH]
            sent = self._persistently(lambda part=part: send(self._api, part))  # type: ignore[misc]
            counts.stored += sent.accepted
            counts.known += sent.duplicates
            refused += [Refusal(part[index], code, detail) for index, code, detail in sent.rejected]
        return refused

    def _cover(self, symbol: str, start: int, end: int) -> None:
        body = {"symbol": symbol, "from": _instant(start), "to": _instant(end), "state": "indexed"}
        answer = self._api.request("PUT", "/v1/coverage", json.dumps(body).encode())
        if answer.status != 200:
            raise ApiUnavailable(f"{self._api.url} takes no coverage: {answer.detail}", answer.retry_after)

    def _finalize(self) -> None:
        """Everything up to the end of each symbol is final. The API ignores it where it knows of a later block."""
        ends = sorted({end for end in self.ends.values() if end >= 0})
        times = {header.number: header.time for header in self._node.headers(ends)}
        self._send_once(
            [
                encoded({"finalize": {"symbol": symbol, "block": end, "ts": _instant(times[end])}})
                for symbol, end in self.ends.items()
                if end in times
            ],
            Counts(),
        )

    # -- failures ----------------------------------------------------------------------------------------------------

    def _persistently(self, call: Callable[[], _T]) -> _T:
        """The result of a call of the API, which is tried again while it is unavailable."""
        pause = _FIRST_PAUSE
        while True:
            try:
                return call()
            except ApiUnavailable as error:
                self._wait_after(error, max(pause, error.retry_after))
                pause = min(_LONGEST_PAUSE, pause * 2)

    def _wait_after(self, error: MarketError, seconds: float) -> None:
        """Raises the error when nothing was stored for too long, or when trying again is of no use."""
        lasting = not isinstance(error, ProviderError | ApiUnavailable)
        if lasting or monotonic() + seconds > self._progress_at + self._patience:
            raise error
        if self._stopping.wait(seconds):
            raise Stopped("the process ends")


def _times(readings: Iterable[Reading]) -> list[tuple[int, int, tuple[str, ...]]]:
    """The times [start, end) of the readings, where ranges of the same symbols that touch are one."""
    found: list[tuple[int, int, tuple[str, ...]]] = []
    last = None
    for reading in sorted(readings, key=lambda each: (each.span.symbols, each.span.first)):
        first, after, symbols = reading.span
        if last == (first - 1, symbols):
            found[-1] = (found[-1][0], reading.end, symbols)
        else:
            found.append((reading.start, reading.end, symbols))
        last = (after, symbols)
    # On some chains blocks share a time: one that the next block shares is covered with that block.
    return [each for each in found if each[0] < each[1]]


def _instant(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _restore(body: str) -> str:
    tick: dict[str, Any] = json.loads(body)
    return encoded({"restore": {"symbol": tick["symbol"], "block_hash": tick["block"]["hash"]}})
