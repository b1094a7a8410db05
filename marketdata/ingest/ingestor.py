"""The ingestor: a thread for each chain reads it into the outbox, another thread delivers the outbox to the API.

A slow or dead chain delays no other. An error that a new try cannot mend ends the reading of its chain, and the process
if there is no other chain.
"""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Sequence
from contextlib import ExitStack, closing, suppress
from functools import partial
from math import nan
from time import monotonic

from marketdata.errors import AlreadyRunning, MarketError, StateError
from marketdata.ingest.api_client import ApiClient, ApiUnavailable
from marketdata.ingest.chain_reader import ChainReader, Connect
from marketdata.ingest.delivery import Delivery
from marketdata.ingest.lease import Lease
from marketdata.ingest.metrics import Metrics, MetricsServer
from marketdata.ingest.outbox import Outbox
from marketdata.ingest.reconciliation import retract_replaced
from marketdata.ingest.regular_verification import Compare, RegularVerification
from marketdata.ingest.waiting import STOP_SIGNALS
from marketdata.ingest.worker import Worker
from marketdata.source.rpc_file import Chain

_FAILED = signal.SIGUSR1
"""The signal that a failed worker sends to the main thread. It is not one of the stop signals, so that the main thread
can tell a failure from a request to stop."""

_IDLE_S = 2.0
"""Seconds between two deliveries when no reader announces an item. A delivery also renews the lease."""
_READER_S, _DRAIN_S, _RELEASE_S = 2.0, 7.0, 1.0
"""The longest times in seconds that a stop takes to end the readers, to deliver the remaining items, and to release the
lease."""

_log = logging.getLogger("marketdata.ingestor")


class Ingestor:
    """Reads and delivers from ``start`` until ``stop``. ``stop`` is idempotent."""

    def __init__(
        self,
        chains: Sequence[Chain],
        connect: Connect,
        outbox: Outbox,
        api: ApiClient,
        ticks_table: str,
        compare: Compare | None = None,
    ) -> None:
        """``compare`` compares a chain with what is stored, from time to time."""
        self._outbox = outbox
        self._api = api
        self._lease = Lease(api, outbox, ticks_table)
        self.delivery = Delivery(outbox, api, self._lease)
        self.error: MarketError | None = None
        self._deliverer = Worker("ingestor-delivery", self._deliver, self._fail)
        self.readers = [
            ChainReader(
                chain,
                connect,
                outbox.path,
                begin=partial(retract_replaced, chain.name, api.beside),
                on_read=self._deliverer.wake,
                fatal=partial(self._fail_chain, chain.name),
            )
            for chain in chains
        ]
        self.verifications = {
            chain.name: RegularVerification(chain, compare, partial(self._fail_chain, chain.name))
            for chain in chains
            if compare is not None and chain.verify_s
        }
        self._failed: set[str] = set()
        self._stopped = False

    def start(self) -> None:
        """Take the lease and start the threads. Raises AlreadyRunning when another ingestor writes to this table."""
        with suppress(ApiUnavailable):  # the readers work without the API; the delivery thread takes the lease later
            self._lease.keep()
        self._deliverer.start()
        for reader in self.readers:
            reader.start()
        for verification in self.verifications.values():
            verification.start()

    def metrics(self) -> Metrics:
        """The current metrics. May be called in any thread."""
        with closing(Outbox(self._outbox.path, only_reads=True)) as outbox:
            waiting, dead = outbox.count(), outbox.count_dead_letters()
            read = {row[0]: row[1:] for row in outbox.rows("SELECT chain, next_block, covered_to FROM chains")}
        return Metrics(
            delivered_total=self.delivery.delivered,
            outbox_items=waiting,
            dead_letters=dead,
            pruned_total=self.delivery.pruned,
            chains={
                name: reader.metrics(
                    *read.get(name, (0, None)), differences=self._differences(name), has_failed=name in self._failed
                )
                for reader in self.readers
                for name in [reader.chain.name]
            },
        )

    def _differences(self, chain: str) -> float:
        verification = self.verifications.get(chain)
        return nan if verification is None else verification.differences

    def stop(self) -> None:
        """Stop reading, deliver the remaining items if the API takes them within some seconds, and release the
        lease."""
        if self._stopped:
            return
        self._stopped = True
        deadline = monotonic() + _DRAIN_S
        self._api.deadline = deadline + _RELEASE_S
        working: list[ChainReader | RegularVerification] = [*self.readers, *self.verifications.values()]
        for each in working:
            each.interrupt()
        until = monotonic() + _READER_S
        for each in working:
            each.stop(max(0.0, until - monotonic()))
        if self._deliverer.stop(max(0.1, deadline - monotonic())):
            if not isinstance(self.error, AlreadyRunning):
                with suppress(MarketError):
                    self._drain(deadline)
                with suppress(MarketError):
                    self._lease.release()
            self._api.close()

    def _drain(self, deadline: float) -> None:
        with suppress(StateError):
            while monotonic() < deadline and self.delivery.step():
                pass
            self.delivery.cover()

    def _fail_chain(self, chain: str, error: MarketError) -> None:
        """End the process if no other chain is read. Otherwise the other chains go on."""
        self._failed.add(chain)
        if len(self._failed) == len(self.readers):
            self._fail(error)
        else:
            _log.error("%s: %s. This chain is read again after a restart; the others go on", chain, error.detail)

    def _fail(self, error: MarketError) -> None:
        self.error = error
        os.kill(os.getpid(), _FAILED)  # the main thread waits for this signal

    def _deliver(self) -> float:
        return 0.0 if self.delivery.step() else _IDLE_S


def block_signals() -> None:
    """Block the stop signals before the first thread starts. :func:`run` takes them with sigwait."""
    signal.pthread_sigmask(signal.SIG_BLOCK, (*STOP_SIGNALS, _FAILED))


def run(
    chains: Sequence[Chain],
    connect: Connect,
    outbox: Outbox,
    api: ApiClient,
    ticks_table: str,
    metrics_port: int | None,
    compare: Compare | None = None,
) -> None:
    """Ingest until SIGTERM, SIGINT or SIGHUP. Call :func:`block_signals` first. Raises the error of a worker that
    failed."""
    ingestor = Ingestor(chains, connect, outbox, api, ticks_table, compare)
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
