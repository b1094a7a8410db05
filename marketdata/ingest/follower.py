"""Reads a chain into the outbox and follows its newest block. Each step is one transaction.

Old blocks are read in ranges. The newest blocks are read one by one, and each must name the previous block as its
parent. If a block names another parent, the chain was reorganised. Then the replaced blocks are retracted, and reading
resumes after the last common block.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from marketdata.errors import ProviderError, RangeRefused, StateError
from marketdata.ingest.chain_cursor import ChainCursor, ReadBlock, Resumption
from marketdata.ingest.outbox import put, put_encoded
from marketdata.source import swaps
from marketdata.source.adaptive_range import AdaptiveRange
from marketdata.source.evm import Block, Header, Log
from marketdata.source.log_filter import swap_filter
from marketdata.source.pools.pool import Pool, PoolIndex
from marketdata.source.provider import Provider, newest_and_final
from marketdata.source.rpc_file import Chain

MIN_FOLLOWED = 128
"""At least this many of the newest blocks are read one by one, because a reorganisation may replace them. If
``confirmations`` in ``rpc.json`` is larger, it is used instead."""
_MIN_KEPT = 1024
"""At least this many of the newest blocks are remembered, to find where a reorganisation began."""
_STEP_BLOCKS = 32
"""A step reads at most this many blocks one by one."""

_log = logging.getLogger("marketdata.ingestor")


@dataclass
class Counts:
    """What the ingestor has done since its start."""

    ticks: int = 0
    blocks: int = 0
    reorganisations: int = 0
    retracted_blocks: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    """Swaps that yielded no tick, by reason."""


class Follower:
    """Reads the swaps of the pools of ``rpc.json``. Used by one thread."""

    def __init__(self, provider: Provider, chain: Chain, pools: Sequence[Pool], cursor: ChainCursor) -> None:
        self._provider = provider
        self._chain = chain
        self._pools = {pool.symbol: pool for pool in pools}
        self._cursor = cursor
        self._range = AdaptiveRange()
        self._followed = max(MIN_FOLLOWED, chain.confirmations or 0)
        self._finalized = 0
        self.counts = Counts()
        self.head: Header | None = None
        cursor.enter(pools)

    def look(self) -> None:
        """Read the newest block. If a reorganisation replaced known blocks, retract them."""
        self.head, self._finalized = newest_and_final(self._provider, self._chain.confirmations)
        if self._differs(self.head.block):
            self._reorganise(self.head.number)

    def step(self) -> bool:
        """Read the next blocks, up to the newest block of the last ``look``. Returns False if none is left to read."""
        assert self.head is not None
        next_blocks = {symbol: at for symbol, at in self._cursor.next_blocks().items() if symbol in self._pools}
        first = min(next_blocks.values())
        if first > self.head.number:
            self._report_finalized(first)
            return False
        pools = [self._pools[symbol] for symbol, at in next_blocks.items() if at == first]
        # Stop before the next block of a pool that is ahead. From there on, all these pools are read together.
        last = min([self.head.number, *(at - 1 for at in next_blocks.values() if at != first)])
        last_in_ranges = self.head.number - self._followed
        if first <= last_in_ranges:
            self._read_range(pools, first, min(last, last_in_ranges, first + self._range.size - 1))
        else:
            self._read_blocks(pools, first, min(last, first + _STEP_BLOCKS - 1))
        return True

    # -- reading -----------------------------------------------------------------------------------------------------

    def _read_range(self, pools: Sequence[Pool], first: int, last: int) -> None:
        asked = last - first + 1
        try:
            logs, headers = self._provider.logs_between(first, last, swap_filter(pools), (first, last))
        except ProviderError as error:
            if not self._is_smaller_next(error, asked):
                raise
            return
        self._range.answered(asked)
        if not self._follows(headers[first]):
            self._reorganise(first)  # the reorganisation may have happened while this program did not run
            return
        by_block: dict[Block, list[Log]] = {header.block: [] for header in headers.values()}
        for log in logs:
            by_block.setdefault(log.block, []).append(log)
        for block in by_block:
            if self._differs(block):
                self._reorganise(block.number)
                return
        self._store(pools, sorted(by_block.items()))

    def _is_smaller_next(self, error: ProviderError, asked: int) -> bool:
        """Whether the next try reads a smaller range. An error of unknown meaning is treated as "too many blocks"."""
        if isinstance(error, RangeRefused):
            return self._range.refused(asked, error.suggested)
        return error.code == "call_refused" and self._range.refused(asked)

    def _read_blocks(self, pools: Sequence[Pool], first: int, last: int) -> None:
        headers = self._provider.headers(range(first, last + 1))
        if self._differs(headers[0].block) or not self._follows(headers[0]):
            self._reorganise(first)
            return
        for at in range(1, len(headers)):
            if self._differs(headers[at].block) or headers[at].parent != headers[at - 1].hash:
                headers = headers[:at]  # the next step finds the reorganisation
                break
        wanted = swap_filter(pools)
        asked = [header for header in headers if wanted.may_be_in(header)]
        found = dict(zip([header.number for header in asked], self._provider.logs_of(asked, wanted), strict=True))
        read = [(header.block, found.get(header.number, [])) for header in headers]
        self._store(pools, read)

    def _differs(self, block: Block) -> bool:
        """Whether another block with this number is known."""
        return self._cursor.hash_of(block.number) not in (None, block.hash)

    def _follows(self, header: Header) -> bool:
        """Whether the known block below this one is its parent. True if the block below is unknown."""
        return self._cursor.hash_of(header.number - 1) in (None, header.parent)

    def _store(self, pools: Sequence[Pool], read: Sequence[tuple[Block, list[Log]]]) -> None:
        """Store the ticks of a range of blocks. ``read`` contains the first and the last block of the range; between
        them, blocks without logs may be missing."""
        (start, _), (end, _) = read[0], read[-1]
        first, last = start.number, end.number
        symbols = [pool.symbol for pool in pools]
        made = 0
        with self._cursor.transaction() as transaction:
            self._cursor.forget(transaction, min(self._finalized, first - _MIN_KEPT))
            index = PoolIndex(pools)
            for block, logs in read:
                ticks = swaps.ticks(index, logs, self._skip)
                traded = {tick.symbol for tick in ticks}
                put(transaction, self._cursor.restores(transaction, block, traded))
                put_encoded(transaction, [tick.body for tick in ticks])
                self._cursor.keep(transaction, block, traded)
                made += len(ticks)
            self._cursor.advance(transaction, symbols, last + 1)
            self._cursor.cover(transaction, symbols, start.time, end.time + 1)
            self._cursor.finalize(transaction, symbols, min(self._finalized, last))
        self.counts.blocks += last - first + 1
        self.counts.ticks += made
        if made:
            _log.info("read blocks %d to %d: %d ticks", first, last, made)

    def _skip(self, pool: Pool, log: Log, reason: str, error: ValueError) -> None:
        self.counts.skipped[reason] += 1
        _log.info("skipped %s in %s, log %d: %s", pool.symbol, log.transaction, log.position, error)

    # -- finality and reorganisations --------------------------------------------------------------------------------

    def _report_finalized(self, next_block: int) -> None:
        """Report blocks that became final when no block was left to read."""
        reported = self._cursor.finalized()
        block = min(self._finalized, next_block - 1)
        late = [symbol for symbol in self._pools if reported.get(symbol, -1) < block]
        if late:
            with self._cursor.transaction() as transaction:
                self._cursor.finalize(transaction, late, block)

    def _reorganise(self, number: int) -> None:
        """Retract the blocks that a reorganisation replaced. ``number`` is a replaced block or the block after one."""
        known = self._cursor.blocks()
        gone, common = self._divided(known)
        if not gone:
            raise ProviderError(f"{self._provider.name} contradicts itself about block {number}", code="wrong_answer")
        self._check_final(gone[-1])
        if common is None:
            self._check_complete(known)
        after_common = Resumption(0, 0) if common is None else Resumption(common.number + 1, common.time + 1)
        # This includes pools that are no longer in rpc.json, because they may return.
        resumptions = dict.fromkeys(self._cursor.next_blocks(), after_common)
        for symbol, pool in self._pools.items():
            if pool.start_block >= after_common.block:
                resumptions[symbol] = Resumption(pool.start_block, 0)
        with self._cursor.transaction() as transaction:
            self._cursor.retract(transaction, gone, resumptions)
        self.counts.reorganisations += 1
        self.counts.retracted_blocks += len(gone)
        _log.warning("reorganisation: blocks %d to %d were replaced", gone[-1].number, gone[0].number)

    def _divided(self, known: Sequence[ReadBlock]) -> tuple[list[ReadBlock], Header | None]:
        """Returns the known blocks that were replaced, newest first, and the newest known block that is still in the
        chain, or None."""
        gone: list[ReadBlock] = []
        for at in range(0, len(known), _STEP_BLOCKS):
            part = known[at : at + _STEP_BLOCKS]
            for block, current in zip(part, self._provider.find_headers([each.number for each in part]), strict=True):
                if current is not None and current.hash == block.hash:
                    return gone, current
                gone.append(block)
        return gone, None

    def _check_final(self, oldest: ReadBlock) -> None:
        """Raise ProviderError if the reorganisation would replace a block that was reported as final, unless all
        endpoints of the provider say so. ``oldest`` is the oldest replaced block."""
        final, about = max(self._cursor.finalized().values(), default=-1), f"block {oldest.number} is not {oldest.hash}"
        if oldest.number <= final and self._provider.distrust(about):
            raise ProviderError(f"{self._provider.name} contradicts a final block: {about}", code="wrong_answer")

    def _check_complete(self, known: Sequence[ReadBlock]) -> None:
        """Raise StateError if older blocks than the known ones were read and forgotten. Such blocks cannot be
        retracted."""
        if known[0].number - _MIN_KEPT > min(pool.start_block for pool in self._pools.values()):
            raise StateError(
                f"{self._provider.name}: none of the last {len(known)} known blocks is part of the chain. "
                "Another chain needs another TICKS_TABLE",
                code="chain_replaced",
            )
