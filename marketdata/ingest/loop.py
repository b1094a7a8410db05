"""The ingestor: a thread that reads the chain into the outbox, and one that delivers the outbox to the API.

Each repeats its step until the process ends. A failure of the provider, the API or the disk is logged, and the step is
tried again, more and more slowly; what cannot be put right by trying again ends the process.
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
from marketdata.ingest.chain import Counts, Follower
from marketdata.ingest.chain_cursor import ChainCursor
from marketdata.ingest.delivery import Delivery
from marketdata.ingest.lease import Lease
from marketdata.ingest.metrics import Figure, MetricsServer
from marketdata.ingest.outbox import OUTBOX_UNUSABLE, Outbox
from marketdata.source import pool_check
from marketdata.source.provider import Provider
from marketdata.source.rpc_file import RpcFile

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_FAILED = signal.SIGUSR1
"""From a worker that cannot go on. Another signal than those above, so that neither is taken for the other."""

MAX_OUTBOX = 200_000
"""Items in the outbox above which nothing is read until the API has taken some."""
_IDLE_S = 2.0
"""Seconds between two looks at an outbox that nobody announced an item for; the lease is renewed then, too."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.25, 10.0
_LONGEST_DISK_PAUSE = 1.0
"""A full disk is nobody else's load: when there is space again, work goes on at once."""
_READER_S, _DRAIN_S, _RELEASE_S = 2.0, 7.0, 1.0
"""Seconds after the stop in which the reader may end and what is left is delivered, and then the lease is released."""
_FATAL_CODES = frozenset({"chain_replaced"})

_log = logging.getLogger("marketdata.ingestor")

Step = Callable[[], float]
"""Does a part of the work and returns how many seconds to wait before the next one."""
Connect = Callable[[threading.Event], Provider]
"""Makes the provider, which stops waiting when the event is set."""


class Worker:
    """A thread that repeats a step. ``fatal`` is called with an error that trying again does not put right."""

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
        """False when the thread still runs after ``timeout`` seconds."""
        self.stopping.set()
        self._wake.set()
        if self._thread.ident is not None:
            self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        pause = _FIRST_PAUSE
        while not self.stopping.is_set():
            self._wake.clear()
            try:
                wait = self._step()
                pause = _FIRST_PAUSE
            except Stopped:
                return
            except MarketError as error:
                if isinstance(error, AlreadyRunning | UsageError) or error.code in _FATAL_CODES:
                    self._fatal(error)
                    return
                if error.code == OUTBOX_UNUSABLE:
                    pause = min(_LONGEST_DISK_PAUSE, pause)
                wait = max(pause, getattr(error, "retry_after", 0.0))
                if not self.stopping.is_set():
                    _log.warning("%s; trying again in %.1f s", error.detail, wait)
                pause = min(_LONGEST_PAUSE, pause * 2)
                self.stopping.wait(wait)
                continue
            except Exception as error:
                _log.exception("a defect of this program")
                self._fatal(MarketError(f"a defect of this program: {error}"))
                return
            if wait and not self.stopping.is_set():
                self._wake.wait(wait)


class Ingestor:
    """Reads and delivers from ``start`` until ``stop``, which may be called repeatedly."""

    def __init__(self, file: RpcFile, connect: Connect, outbox: Outbox, api: ApiClient, ticks_table: str) -> None:
        self._file = file
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
        self._unchecked = list(file.pools)
        self._is_behind = False
        self._stopped = False

    def start(self) -> None:
        """AlreadyRunning when another ingestor writes to this table."""
        with suppress(ApiUnavailable):  # reading goes on; the delivery takes the lease when there is one to take
            self._lease.keep()
        self._deliverer.start()
        self._reader.start()

    def figures(self) -> list[Figure]:
        """What the metrics show; for any thread."""
        counts = self.follower.counts if self.follower is not None else Counts()
        head = self.follower.head if self.follower is not None else None
        with closing(Outbox(self._outbox.path, only_reads=True)) as outbox:
            waiting, dead = outbox.count(), outbox.count_dead_letters()
            places = ChainCursor(outbox).next_blocks()
        next_block = min([places[pool.symbol] for pool in self._file.pools if pool.symbol in places], default=0)
        return [
            Figure("head_block", "The newest block of the chain.", head.number if head is not None else 0),
            Figure("next_block", "The next block to read.", next_block),
            Figure("blocks_total", "Blocks that were read.", counts.blocks),
            Figure("ticks_total", "Ticks that were read.", counts.ticks),
            Figure("skipped_total", "Swaps that are no tick.", dict(counts.skipped)),
            Figure("reorganisations_total", "Reorganisations that were followed.", counts.reorganisations),
            Figure("retracted_blocks_total", "Blocks that they replaced.", counts.retracted_blocks),
            Figure("requests_total", "HTTP requests to the provider.", self._provider.requests),
            Figure("delivered_total", "Items that the API answered for.", self.delivery.delivered),
            Figure("outbox_items", "Items that the API has not acknowledged.", waiting),
            Figure("dead_letters", "Items that the API refused.", dead),
        ]

    def stop(self) -> None:
        """End reading, deliver what is left if that succeeds within some seconds, and give the lease back."""
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
        os.kill(os.getpid(), _FAILED)  # the main thread waits for it

    def _read(self) -> float:
        if self.follower is None:
            self._check_pools()
            self.follower = Follower(self._provider, self._file, ChainCursor(self._outbox))
        if self._outbox.count() > MAX_OUTBOX:
            return self._file.poll_s
        # A step that fails may have been based on a chain that is no longer there: then look at its head again.
        was_behind, self._is_behind = self._is_behind, False
        if not was_behind:
            self.follower.look()
        self._is_behind = self.follower.step()
        self._deliverer.wake()
        return 0.0 if self._is_behind else self._file.poll_s

    def _check_pools(self) -> None:
        while self._unchecked:
            pool_check.require(self._provider, self._unchecked[-1])
            self._unchecked.pop()

    def _deliver(self) -> float:
        return 0.0 if self.delivery.step() else _IDLE_S


def block_signals() -> None:
    """As in the API: before the first thread starts, to be taken by sigwait."""
    signal.pthread_sigmask(signal.SIG_BLOCK, (*STOP_SIGNALS, _FAILED))


def run(
    file: RpcFile,
    connect: Connect,
    outbox: Outbox,
    api: ApiClient,
    ticks_table: str,
    metrics_port: int | None,
) -> None:
    """Ingest until SIGTERM, SIGINT or SIGHUP, which :func:`block_signals` has blocked; raises what ended it
    otherwise."""
    ingestor = Ingestor(file, connect, outbox, api, ticks_table)
    with ExitStack() as stack:
        stack.callback(ingestor.stop)
        if metrics_port is not None:
            server = MetricsServer(metrics_port, ingestor.figures)
            stack.callback(server.stop)
            _log.info("metrics: %s", server.address)
        ingestor.start()
        # One of an earlier run may still be pending: its workers had both failed.
        while signal.sigwait((*STOP_SIGNALS, _FAILED)) == _FAILED and ingestor.error is None:
            pass
    if ingestor.error is not None:
        raise ingestor.error
