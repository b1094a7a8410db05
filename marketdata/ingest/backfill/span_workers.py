"""The worker threads of the backfill. Each reads spans from the provider and stores their ticks.

Each thread has its own connections; all threads share one budget of calls. While one thread waits for the network,
another one decodes.
"""

from __future__ import annotations

import queue
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import lru_cache
from time import monotonic

from marketdata.errors import MarketError
from marketdata.ingest.api_client import ApiClient
from marketdata.ingest.api_writer import ApiWriter, Refusal, RetryLimit
from marketdata.ingest.backfill.plan import Span
from marketdata.ingest.span_size import THREADS
from marketdata.source import swaps
from marketdata.source.evm import Block
from marketdata.source.failover import connected
from marketdata.source.log_filter import LogFilter, swap_filter
from marketdata.source.pools.pool import Pool, PoolIndex
from marketdata.source.provider import Provider, read_range
from marketdata.source.rpc_file import Chain


@dataclass
class SpanOutcome:
    """The result of a span: the numbers of its ticks, or an error. ``start`` is the time of the span's first block,
    ``end`` the time of the block after the span, both in seconds since 1970."""

    span: Span
    start: int = 0
    end: int = 0
    contradicted: int = 0
    """1 if the provider contradicted itself, so that the span was read header by header."""
    left_out: int = 0
    """Blocks of which the provider left out events."""
    doubted: list[tuple[Block, Sequence[str]]] = field(default_factory=list)
    """Blocks of which the events of these symbols are missing."""
    ticks: int = 0
    new: int = 0
    known: int = 0
    pruned: int = 0
    refusals: list[Refusal] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    """Swaps that yielded no tick, by the reason of :data:`marketdata.source.swaps.Skip`."""
    unread: Mapping[str, str] = field(default_factory=dict)
    """The symbols of which every log was discarded, with the reason."""
    error: MarketError | None = None


class SpanWorkers:
    """After ``start``, ``submit`` hands a span to the threads. ``take`` returns one outcome for each span. ``stop`` is
    idempotent."""

    def __init__(self, chain: Chain, connect: Callable[[], ApiClient], limit: RetryLimit) -> None:
        """``connect`` returns a new client of the API."""
        self._limit = limit
        self.provider = connected(chain, limit.stopping)
        """The provider for the thread that submits the spans. That thread closes it."""
        self._providers = [self.provider.beside() for _ in range(THREADS)]
        apis = [connect() for _ in range(THREADS)]
        self.pools: dict[str, Pool] = {}
        """The pools of the spans, by symbol, each with the block where its spans begin. They are set before
        ``start``."""
        # Successive spans have the same pools, which may be thousands.
        self._selection = lru_cache(maxsize=2)(self._select)
        self._spans: queue.SimpleQueue[Span | None] = queue.SimpleQueue()
        self._outcomes: queue.SimpleQueue[SpanOutcome] = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=self._run, args=connections, name=f"backfill-{number}", daemon=True)
            for number, connections in enumerate(zip(self._providers, apis, strict=True), start=1)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self, timeout: float) -> None:
        self._limit.stopping.set()
        for provider in (self.provider, *self._providers):
            provider.interrupt()
        for _ in self._threads:
            self._spans.put(None)
        deadline = monotonic() + timeout
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(max(0.0, deadline - monotonic()))

    def submit(self, span: Span) -> None:
        self._spans.put(span)

    def take(self, timeout: float) -> SpanOutcome | None:
        """The next outcome, or None after ``timeout`` seconds."""
        try:
            return self._outcomes.get(timeout=timeout)
        except queue.Empty:
            return None

    def _run(self, provider: Provider, api: ApiClient) -> None:
        with closing(provider), closing(api):
            writer = ApiWriter(api, self._limit)
            while (span := self._spans.get()) is not None and not self._limit.stopping.is_set():
                try:
                    self._outcomes.put(self._read_and_store(provider, writer, span))
                except MarketError as error:
                    self._outcomes.put(SpanOutcome(span, error=error))
                except Exception as error:
                    self._outcomes.put(SpanOutcome(span, error=MarketError(f"a defect of this program: {error!r}")))

    def _read_and_store(self, provider: Provider, writer: ApiWriter, span: Span) -> SpanOutcome:
        index, wanted = self._selection(span.symbols)
        after, contradicted = span.last + 1, provider.contradicted_ranges
        left_out = provider.contradictions
        logs, headers, doubted = read_range(provider, span.first, span.last, wanted, (span.first, after))
        outcome = SpanOutcome(span, headers[span.first].time, headers[after].time)
        outcome.contradicted = provider.contradicted_ranges - contradicted
        outcome.left_out = provider.contradictions - left_out
        for block, addresses in doubted:
            symbols = {pool.symbol for address in addresses for pool in index.at(address)}
            outcome.doubted.append((block, sorted(symbols)))

        skipped = swaps.Skipped()
        ticks = swaps.ticks(index, logs, skipped)
        outcome.ticks, outcome.skipped, outcome.unread = len(ticks), skipped.counts, skipped.unread(ticks)
        stored = writer.ticks([tick.body for tick in ticks])
        outcome.new, outcome.known, outcome.refusals, outcome.pruned = stored
        return outcome

    def _select(self, symbols: tuple[str, ...]) -> tuple[PoolIndex[Pool], LogFilter]:
        pools = [self.pools[symbol] for symbol in symbols]
        return PoolIndex(pools), swap_filter(pools)
