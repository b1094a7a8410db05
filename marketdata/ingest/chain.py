"""Follows a chain into the outbox: one step at a time, each a transaction.

Blocks that are far behind the newest one are read in ranges. The others are read one by one, by their hashes, and each
must name the one before it as its parent. When it does not, the chain was reorganised: the blocks that are no longer
part of it are retracted, and reading goes on behind the last common one.
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
from marketdata.source.evm import Header, Log
from marketdata.source.pool_kinds import swap_topics
from marketdata.source.provider import Provider, may_have, newest_and_final
from marketdata.source.rpc_file import Pool, RpcFile

FOLLOWED = 128
"""So many of the newest blocks, or as many as there are confirmations, are read one by one: a reorganisation may
replace them."""
_KEPT = 1024
"""As many of the newest blocks are kept at least, to find where a reorganisation began."""
_AT_ONCE = 32
"""Blocks that one step reads one by one."""

_log = logging.getLogger("marketdata.ingestor")


@dataclass
class Counts:
    """What happened since the start."""

    ticks: int = 0
    blocks: int = 0
    reorganisations: int = 0
    retracted_blocks: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    """Swaps that are no tick, by reason."""


class Follower:
    """Reads the pools of ``rpc.json``; used by one thread."""

    def __init__(self, provider: Provider, file: RpcFile, place: ChainCursor) -> None:
        self._provider = provider
        self._file = file
        self._pools = {pool.symbol: pool for pool in file.pools}
        self._place = place
        self._range = AdaptiveRange()
        self._followed = max(FOLLOWED, file.confirmations or 0)
        self._finalized = 0
        self.counts = Counts()
        self.head: Header | None = None
        place.enter(file.pools)

    def look(self) -> None:
        """Ask for the newest block; retract what is no longer part of the chain."""
        self.head, self._finalized = newest_and_final(self._provider, self._file.confirmations)
        if self._differs(self.head):
            self._reorganise(self.head.number)

    def step(self) -> bool:
        """Read the next blocks, up to the newest one that ``look`` saw. False when all are read."""
        assert self.head is not None
        places = {symbol: at for symbol, at in self._place.next_blocks().items() if symbol in self._pools}
        first = min(places.values())
        if first > self.head.number:
            self._report_finalized(first)
            return False
        pools = [self._pools[symbol] for symbol, at in places.items() if at == first]
        # The pools that are ahead are joined where they are.
        last = min([self.head.number, *(at - 1 for at in places.values() if at != first)])
        in_ranges = self.head.number - self._followed
        if first <= in_ranges:
            self._read_range(pools, first, min(last, in_ranges, first + self._range.size - 1))
        else:
            self._read_blocks(pools, first, min(last, first + _AT_ONCE - 1))
        return True

    # -- reading -----------------------------------------------------------------------------------------------------

    def _read_range(self, pools: Sequence[Pool], first: int, last: int) -> None:
        asked = last - first + 1
        try:
            logs, headers = self._provider.logs_between(first, last, swap_topics(pools))
        except ProviderError as error:
            if not self._is_smaller_next(error, asked):
                raise
            return
        self._range.answered(asked)
        if not self._follows(headers[first]):
            self._reorganise(first)  # also while this program did not run
            return
        for header in headers.values():
            if self._differs(header):
                self._reorganise(header.number)
                return
        by_block: dict[int, list[Log]] = {number: [] for number in sorted(headers)}
        for log in logs:
            by_block[log.block_number].append(log)
        self._store(pools, [(headers[number], found) for number, found in by_block.items()])

    def _is_smaller_next(self, error: ProviderError, asked: int) -> bool:
        """Whether to try a smaller range. An error that nothing explains may be one more wording of "too many"."""
        if isinstance(error, RangeRefused):
            return self._range.refused(asked, error.suggested)
        return error.code == "call_refused" and self._range.refused(asked)

    def _read_blocks(self, pools: Sequence[Pool], first: int, last: int) -> None:
        headers = self._provider.headers(range(first, last + 1))
        if self._differs(headers[0]) or not self._follows(headers[0]):
            self._reorganise(first)
            return
        for at in range(1, len(headers)):
            if self._differs(headers[at]) or headers[at].parent != headers[at - 1].hash:
                headers = headers[:at]  # the next step will see what happened
                break
        wanted = swap_topics(pools)
        worth = [header for header in headers if may_have(header, wanted)]
        found = dict(zip([header.number for header in worth], self._provider.logs_of(worth, wanted), strict=True))
        read = [(header, found.get(header.number, [])) for header in headers]
        self._store(pools, read)

    def _differs(self, header: Header) -> bool:
        """Whether another block of this number was read before."""
        return self._place.hash_of(header.number) not in (None, header.hash)

    def _follows(self, header: Header) -> bool:
        """Whether the block that was read before this one is its parent, as far as that is known."""
        return self._place.hash_of(header.number - 1) in (None, header.parent)

    def _store(self, pools: Sequence[Pool], read: Sequence[tuple[Header, list[Log]]]) -> None:
        """Store what was read from the first of these blocks to the last one; blocks between them without logs may be
        left out."""
        (start, _), (end, _) = read[0], read[-1]
        first, last = start.number, end.number
        symbols = [pool.symbol for pool in pools]
        made = 0
        with self._place.transaction() as transaction:
            self._place.forget(transaction, min(self._finalized, first - _KEPT))
            for header, logs in read:
                ticks = swaps.ticks(pools, logs, {header.number: header}, self._skip)
                traded = {tick.symbol for tick in ticks}
                put(transaction, self._place.restores(transaction, header, traded))
                put_encoded(transaction, [tick.body for tick in ticks])
                self._place.keep(transaction, header, traded)
                made += len(ticks)
            self._place.advance(transaction, symbols, last + 1)
            self._place.cover(transaction, symbols, start.time, end.time + 1)
            self._place.finalize(transaction, symbols, min(self._finalized, last))
        self.counts.blocks += last - first + 1
        self.counts.ticks += made
        if made:
            _log.info("read blocks %d to %d: %d ticks", first, last, made)

    def _skip(self, pool: Pool, log: Log, reason: str, error: ValueError) -> None:
        self.counts.skipped[reason] += 1
        _log.info("skipped %s in %s, log %d: %s", pool.symbol, log.transaction, log.position, error)

    # -- finality and reorganisations --------------------------------------------------------------------------------

    def _report_finalized(self, next_block: int) -> None:
        """Report what became final since the last block was read."""
        reported = self._place.finalized()
        block = min(self._finalized, next_block - 1)
        late = [symbol for symbol in self._pools if reported.get(symbol, -1) < block]
        if late:
            with self._place.transaction() as transaction:
                self._place.finalize(transaction, late, block)

    def _reorganise(self, number: int) -> None:
        """Retract the blocks that are no longer part of the chain; ``number`` is one of them, or follows one."""
        known = self._place.blocks()
        gone, common = self._divided(known)
        if not gone:
            raise ProviderError(f"{self._provider.name} contradicts itself about block {number}", code="wrong_answer")
        if common is None:
            self._check_complete(known)
        again = Resumption(0, 0) if common is None else Resumption(common.number + 1, common.time + 1)
        # Those that are no longer in rpc.json may be entered again.
        places = dict.fromkeys(self._place.next_blocks(), again)
        for symbol, pool in self._pools.items():
            if pool.start_block >= again.block:
                places[symbol] = Resumption(pool.start_block, 0)
        with self._place.transaction() as transaction:
            self._place.retract(transaction, gone, places)
        self.counts.reorganisations += 1
        self.counts.retracted_blocks += len(gone)
        _log.warning("reorganisation: blocks %d to %d were replaced", gone[-1].number, gone[0].number)

    def _divided(self, known: Sequence[ReadBlock]) -> tuple[list[ReadBlock], Header | None]:
        """The blocks that left the chain, newest first, and the newest one that is still part of it."""
        gone: list[ReadBlock] = []
        for at in range(0, len(known), _AT_ONCE):
            part = known[at : at + _AT_ONCE]
            for block, current in zip(part, self._provider.find_headers([each.number for each in part]), strict=True):
                if current is not None and current.hash == block.hash:
                    return gone, current
                gone.append(block)
        return gone, None

    def _check_complete(self, known: Sequence[ReadBlock]) -> None:
        """No known block is part of the chain any more. That can be followed only while no block was forgotten."""
        if known[0].number - _KEPT > min(pool.start_block for pool in self._file.pools):
            raise StateError(
                f"{self._provider.name}: none of the last {len(known)} known blocks is part of the chain. "
                "Another chain needs another TICKS_TABLE",
                code="chain_replaced",
            )
