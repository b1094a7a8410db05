"""The ingestor: one thread reads the chain into the outbox, another thread delivers the outbox to the API.

Each thread repeats its step until the process ends. A failure of the provider, the API or the disk is logged, and the
step is tried again after a growing pause. An error that a new try cannot mend ends the process.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from time import monotonic

from marketdata.errors import AlreadyRunning, MarketError, StateError, Stopped, UsageError
from marketdata.ingest.api_client import ApiClient, ApiUnavailable
from marketdata.ingest.chain_cursor import ChainCursor
from marketdata.ingest.delivery import Delivery
from marketdata.ingest.follower import Counts, Follower
from marketdata.ingest.lease import Lease
from marketdata.ingest.metrics import Metrics, MetricsServer
from marketdata.ingest.outbox import OUTBOX_UNUSABLE, Outbox
from marketdata.source import pool_check
from marketdata.source.pools.pool import Pool
from marketdata.source.provider import Provider
from marketdata.source.rpc_file import Chain

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_FAILED = signal.SIGUSR1
"""The signal that a failed worker sends to the main thread. It is not one of the stop signals, so that the main thread
can tell a failure from a request to stop."""

MAX_OUTBOX_ITEMS = 200_000
"""While the outbox holds more items, nothing is read from the chain."""
_IDLE_S = 2.0
"""Seconds between two deliveries when the reader announces no item. A delivery also renews the lease."""
_MIN_PAUSE, _MAX_PAUSE = 0.25, 10.0
_MAX_DISK_PAUSE = 1.0
"""The longest pause after an error of the outbox. Trying a full disk again costs little, and work should resume soon
after space is free."""
_READER_S, _DRAIN_S, _RELEASE_S = 2.0, 7.0, 1.0
"""The longest times in seconds that a stop takes to end the reader, to deliver the remaining items, and to release the
lease."""
_FATAL_CODES = frozenset({"chain_replaced"})

_log = logging.getLogger("marketdata.ingestor")

Step = Callable[[], float]
"""Does one part of the work, and returns the seconds to wait before the next step."""
Connect = Callable[[threading.Event], Provider]
"""Makes the provider. Setting the event ends the provider's waits."""


class Worker:
    """A thread that repeats a step. ``fatal`` is called with an error that a new try cannot mend."""

    def __init__(self, name: str, step: Step, fatal: Callable[[MarketError], None]) -> None:
        self._step = step
        self._fatal = fatal
        self._wake = threading.Event()
        self.stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        """End the wait between two steps."""
        self._wake.set()

    def stop(self, timeout: float) -> bool:
        """Stop the thread. Returns whether it has ended within ``timeout`` seconds."""
        self.stopping.set()
        self._wake.set()
        if self._thread.ident is not None:
            self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        pause = _MIN_PAUSE
        while not self.stopping.is_set():
            self._wake.clear()
            try:
                wait = self._step()
                pause = _MIN_PAUSE
            except Stopped:
                return
            except MarketError as error:
                if isinstance(error, AlreadyRunning | UsageError) or error.code in _FATAL_CODES:
                    self._fatal(error)
                    return
                if error.code == OUTBOX_UNUSABLE:
                    pause = min(_MAX_DISK_PAUSE, pause)
                wait = max(pause, getattr(error, "retry_after", 0.0))
                if not self.stopping.is_set():
                    _log.warning("%s; trying again in %.1f s", error.detail, wait)
                pause = min(_MAX_PAUSE, pause * 2)
                self.stopping.wait(wait)
                continue
            except Exception as error:
                _log.exception("a defect of this program")
                self._fatal(MarketError(f"a defect of this program: {error}"))
                return
            if wait and not self.stopping.is_set():
                self._wake.wait(wait)


class Ingestor:
    """Reads and delivers from ``start`` until ``stop``. ``stop`` is idempotent."""

    def __init__(self, chain: Chain, connect: Connect, outbox: Outbox, api: ApiClient, ticks_table: str) -> None:
        self._chain = chain
        self._outbox = outbox
        self._api = api
        self._delivery_outbox = Outbox(outbox.path)
        self._lease = Lease(api, self._delivery_outbox, ticks_table)
        self.delivery = Delivery(self._delivery_outbox, api, self._lease)
        self.error: MarketError | None = None
        self._deliverer = Worker("ingestor-delivery", self._deliver, self._fail)
        self._reader = Worker("ingestor-reader", self._read, self._fail)
        self._provider = connect(self._reader.stopping)
        self.follower: Follower | None = None
        self._unchecked = list(chain.pools)
        self._pools: list[Pool] = []
        self._is_behind = False
        self._stopped = False

    def start(self) -> None:
        """Take the lease and start both threads. Raises AlreadyRunning when another ingestor writes to this table."""
        with suppress(ApiUnavailable):  # the reader works without the API; the delivery thread takes the lease later
            self._lease.keep()
        self._deliverer.start()
        self._reader.start()

    def metrics(self) -> Metrics:
        """The current metrics. May be called in any thread."""
        counts = self.follower.counts if self.follower is not None else Counts()
        head = self.follower.head if self.follower is not None else None
        with closing(Outbox(self._outbox.path, only_reads=True)) as outbox:
            waiting, dead = outbox.count(), outbox.count_dead_letters()
            next_blocks = ChainCursor(outbox).next_blocks()
        listed = [next_blocks[pool.symbol] for pool in self._chain.pools if pool.symbol in next_blocks]
        return Metrics(
            head_block=head.number if head is not None else 0,
            next_block=min(listed, default=0),
            blocks_total=counts.blocks,
            ticks_total=counts.ticks,
            skipped_total=dict(counts.skipped),
            reorganisations_total=counts.reorganisations,
            retracted_blocks_total=counts.retracted_blocks,
            requests_total=self._provider.requests,
            switches_total=self._provider.switches,
            contradicted_ranges_total=self._provider.contradicted_ranges,
            delivered_total=self.delivery.delivered,
            outbox_items=waiting,
            dead_letters=dead,
        )

    def stop(self) -> None:
        """Stop reading, deliver the remaining items if the API takes them within some seconds, and release the
        lease."""
        if self._stopped:
            return
        self._stopped = True
        deadline = monotonic() + _DRAIN_S
        self._api.deadline = deadline + _RELEASE_S
        self._reader.stopping.set()
        self._provider.interrupt()
        if self._reader.stop(_READER_S):
            self._provider.close()
        if self._deliverer.stop(max(0.1, deadline - monotonic())):
            if not isinstance(self.error, AlreadyRunning):
                with suppress(MarketError):
                    self._drain(deadline)
                with suppress(MarketError):
                    self._lease.release()
            self._api.close()
            self._delivery_outbox.close()

    def _drain(self, deadline: float) -> None:
        with suppress(StateError):
            while monotonic() < deadline and self.delivery.step():
                pass
            self.delivery.cover()

    def _fail(self, error: MarketError) -> None:
        self.error = error
        os.kill(os.getpid(), _FAILED)  # the main thread waits for this signal

    def _read(self) -> float:
        if self.follower is None:
            self._check_pools()
            self.follower = Follower(self._provider, self._chain, self._pools, ChainCursor(self._outbox))
        if self._outbox.count() > MAX_OUTBOX_ITEMS:
            return self._chain.poll_s
        # If the step fails, _is_behind stays False. The next step then reads the newest block again, because a
        # reorganisation may be the cause of the failure.
        was_behind, self._is_behind = self._is_behind, False
        if not was_behind:
            self.follower.look()
        self._is_behind = self.follower.step()
        self._deliverer.wake()
        return 0.0 if self._is_behind else self._chain.poll_s

    def _check_pools(self) -> None:
        while self._unchecked:
            self._pools.append(pool_check.require(self._provider, self._unchecked[0], self._chain.native))
            del self._unchecked[0]

    def _deliver(self) -> float:
        return 0.0 if self.delivery.step() else _IDLE_S


def block_signals() -> None:
    """Block the stop signals before the first thread starts. :func:`run` takes them with sigwait."""
    signal.pthread_sigmask(signal.SIG_BLOCK, (*STOP_SIGNALS, _FAILED))


def run(
    chain: Chain,
    connect: Connect,
    outbox: Outbox,
    api: ApiClient,
    ticks_table: str,
    metrics_port: int | None,
) -> None:
    """Ingest until SIGTERM, SIGINT or SIGHUP. Call :func:`block_signals` first. Raises the error of a worker that
    failed."""
    ingestor = Ingestor(chain, connect, outbox, api, ticks_table)
    with ExitStack() as stack:
        stack.callback(ingestor.stop)
        if metrics_port is not None:
            server = MetricsServer(metrics_port, ingestor.metrics)
            stack.callback(server.stop)
            _log.info("metrics: %s", server.address)
        ingestor.start()
        # _FAILED without an error may be pending from an earlier run in which both workers failed.
        while signal.sigwait((*STOP_SIGNALS, _FAILED)) == _FAILED and ingestor.error is None:
            pass
    if ingestor.error is not None:
        raise ingestor.error
