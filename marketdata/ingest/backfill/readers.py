"""Threads that read spans from the provider, each over a connection of its own, within one budget of calls."""

from __future__ import annotations

import queue
import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from time import monotonic

from marketdata.errors import MarketError
from marketdata.ingest.backfill.plan import Span
from marketdata.source import swaps
from marketdata.source.evm import Header, Log
from marketdata.source.node import Node
from marketdata.source.pools import KINDS
from marketdata.source.rpc import Rpc
from marketdata.source.rpc_file import Pool, RpcFile
from marketdata.source.trade import NotATrade

THREADS = 4


@dataclass
class Reading:
    """What became of a span. ``start`` is the time of its first block, ``end`` that of the block after its last one, in
    seconds since 1970."""

    span: Span
    ticks: list[str] = field(default_factory=list)
    """As JSON."""
    start: int = 0
    end: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    """Swaps that are no tick, by reason."""
    error: MarketError | None = None


class Readers:
    """``submit`` spans after ``start``, and ``take`` as many readings. ``stop`` may be called repeatedly."""

    def __init__(self, file: RpcFile) -> None:
        self._stopping = threading.Event()
        self._chain_id = file.chain_id
        self.rpc = Rpc(file.url, file.headers, per_second=file.requests_per_s, stopping=self._stopping)
        """For the thread that submits, which closes it."""
        self._rpcs = [self.rpc.beside() for _ in range(THREADS)]
        self._pools = {pool.symbol: pool for pool in file.pools}
        self._spans: queue.SimpleQueue[Span | None] = queue.SimpleQueue()
        self._readings: queue.SimpleQueue[Reading] = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=self._run, args=(rpc,), name=f"backfill-reader-{number}", daemon=True)
            for number, rpc in enumerate(self._rpcs, start=1)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self, timeout: float) -> None:
        self._stopping.set()
        for rpc in (self.rpc, *self._rpcs):
            rpc.interrupt()
        for _ in self._threads:
            self._spans.put(None)
        deadline = monotonic() + timeout
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(max(0.0, deadline - monotonic()))

    def submit(self, span: Span) -> None:
        self._spans.put(span)

    def take(self, timeout: float) -> Reading | None:
        """The next reading; None when there is none within ``timeout`` seconds."""
        try:
            return self._readings.get(timeout=timeout)
        except queue.Empty:
            return None

    def _run(self, rpc: Rpc) -> None:
        with closing(rpc):
            self._work(Node(rpc, self._chain_id))

    def _work(self, node: Node) -> None:
        while (span := self._spans.get()) is not None and not self._stopping.is_set():
            try:
                self._readings.put(self._read(node, span))
            except MarketError as error:
                self._readings.put(Reading(span, error=error))
            except Exception as error:
                self._readings.put(Reading(span, error=MarketError(f"a defect of this program: {error!r}")))

    def _read(self, node: Node, span: Span) -> Reading:
        pools = [self._pools[symbol] for symbol in span.symbols]
        logs, headers = node.logs_between(
            span.first, span.last, {pool.address: KINDS[pool.kind].TOPIC for pool in pools}
        )
        start, end = node.headers([span.first, span.last + 1])
        reading = Reading(span, start=start.time, end=end.time)
        _decode(reading, pools, logs, headers)
        return reading


def _decode(reading: Reading, pools: Iterable[Pool], logs: Iterable[Log], headers: Mapping[int, Header]) -> None:
    by_address: dict[str, list[Pool]] = {}
    for pool in pools:
        by_address.setdefault(pool.address, []).append(pool)
    for log in logs:
        for pool in by_address[log.address]:
            try:
                reading.ticks.append(swaps.tick_json(pool, log, headers[log.block_number]))
            except NotATrade:
                reading.skipped["without a price"] += 1
            except ValueError:
                reading.skipped["no swap of its kind of pool"] += 1
