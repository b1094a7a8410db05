"""Reads one chain into the outbox, in a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from time import monotonic

from marketdata.ingest.follower import Counts, Follower
from marketdata.ingest.metrics import ChainMetrics
from marketdata.ingest.outbox import Outbox
from marketdata.ingest.worker import Fatal, Worker
from marketdata.source import pool_check
from marketdata.source.heads import Heads
from marketdata.source.pools.pool import Pool
from marketdata.source.provider import Provider
from marketdata.source.rpc_file import Chain

MAX_OUTBOX_ITEMS = 200_000
"""While the outbox holds more items, nothing is read."""
_MAX_ITEMS_BEHIND = 20_000
"""While the outbox holds more items, a chain that is behind its newest block waits, so that the ticks of other chains
are delivered soon."""

_POLLS_LEFT_OUT = 10
"""While new blocks are announced, the newest block is asked for after ``poll_s`` times this number."""

Connect = Callable[[Chain, threading.Event], Provider]
"""Makes the provider of a chain. Setting the event ends the provider's waits."""


class ChainReader:
    """Reads from ``start`` until ``stop``. ``stop`` is idempotent."""

    def __init__(
        self,
        chain: Chain,
        connect: Connect,
        path: Path,
        *,
        begin: Callable[[Provider, Outbox], None],
        on_read: Callable[[], None],
        fatal: Fatal,
    ) -> None:
        """``path`` is the outbox's file. ``begin`` is called before anything is read, ``on_read`` after each step."""
        self.chain = chain
        self._outbox = Outbox(path)
        self._begin = begin
        self._on_read = on_read
        self._worker = Worker(f"reader-{chain.name}", self._step, fatal, chain.name)
        self._provider = connect(chain, self._worker.stopping)
        self._heads = Heads(chain.ws_url, self._worker.wake) if chain.ws_url is not None else None
        self.follower: Follower | None = None
        self._pools: list[Pool] = []
        self._is_behind = False
        self._is_stopped = False

    def start(self) -> None:
        self._worker.start()
        if self._heads is not None:
            self._heads.start()

    def interrupt(self) -> None:
        """Tell the thread to stop, without waiting for it."""
        self._worker.stopping.set()
        self._provider.interrupt()
        if self._heads is not None:
            self._heads.interrupt()

    def stop(self, timeout: float) -> None:
        if self._is_stopped:
            return
        self._is_stopped = True
        self.interrupt()
        deadline = monotonic() + timeout
        if self._worker.stop(timeout):
            self._provider.close()
            self._outbox.close()
        if self._heads is not None:
            self._heads.stop(max(0.0, deadline - monotonic()))

    def metrics(self, next_block: int, covered_to: int | None, *, differences: float, has_failed: bool) -> ChainMetrics:
        """The current metrics, with values of the outbox. May be called in any thread."""
        counts = self.follower.counts if self.follower is not None else Counts()
        head = self.follower.head if self.follower is not None else None
        return ChainMetrics(
            failed=int(has_failed),
            head_block=head.number if head is not None else 0,
            next_block=next_block,
            read_until=covered_to or 0,
            pools=self.follower.pool_count if self.follower is not None else len(self.chain.pools),
            blocks_total=counts.blocks,
            ticks_total=counts.ticks,
            skipped_total=dict(counts.skipped),
            reorganisations_total=counts.reorganisations,
            retracted_blocks_total=counts.retracted_blocks,
            requests_total=self._provider.requests,
            switches_total=self._provider.switches,
            contradicted_ranges_total=self._provider.contradicted_ranges,
            contradictions_total=self._provider.contradictions,
            unproved_blocks=self._provider.unproved_blocks,
            differences=differences,
        )

    def _step(self) -> float:
        if self.follower is None:
            self._check_pools()
            self._begin(self._provider, self._outbox)
            self.follower = Follower(self._provider, self.chain, self._pools, self._outbox)
        # If the step fails, _is_behind stays False. The next step then reads the newest block again, because a
        # reorganisation may be the cause of the failure.
        was_behind, self._is_behind = self._is_behind, False
        if self._outbox.count() > (_MAX_ITEMS_BEHIND if was_behind else MAX_OUTBOX_ITEMS):
            self._is_behind = was_behind
            return self.chain.poll_s
        if not was_behind:
            self.follower.look()
        self.follower.read_again()
        self._is_behind = self.follower.step()
        is_late = not self._is_behind and self.follower.catch_up()
        self._on_read()
        return 0.0 if self._is_behind or is_late else self._poll_s()

    def _poll_s(self) -> float:
        """The seconds between two requests for the newest block. They are more while new blocks are announced, unless
        the provider lacks an announced block."""
        assert self.follower is not None
        assert self.follower.head is not None
        newest = self._heads.newest if self._heads is not None else None
        if newest is None or newest > self.follower.head.number:
            return self.chain.poll_s
        return self.chain.poll_s * _POLLS_LEFT_OUT

    def _check_pools(self) -> None:
        while len(self._pools) < len(self.chain.pools):
            listed = self.chain.pools[len(self._pools)]
            self._pools.append(pool_check.require(self._provider, listed, self.chain.native))
