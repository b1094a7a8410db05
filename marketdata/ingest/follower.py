"""Reads a chain into the outbox and follows its newest block. Each step is one transaction.

Old blocks are read in ranges. The newest blocks are read one by one, and each must name the previous block as its
parent. If a block names another parent, the chain was reorganised. Then the replaced blocks are retracted, and reading
resumes after the last common block.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from marketdata.errors import ProviderError, StateError
from marketdata.ingest import old_marks
from marketdata.ingest.chain_cursor import ChainCursor, ReadBlock, put_failed
from marketdata.ingest.discovery import Discovery, Found, WaitingPool
from marketdata.ingest.doubted_blocks import DoubtedBlocks
from marketdata.ingest.outbox import Outbox, Transaction, put, put_encoded
from marketdata.source import swaps
from marketdata.source.adaptive_range import AdaptiveRange
from marketdata.source.evm import Block, Header, Log
from marketdata.source.log_filter import LogFilter, swap_filter
from marketdata.source.pools import KINDS
from marketdata.source.pools.pool import Pool, PoolIndex
from marketdata.source.proof import RangeContradicted
from marketdata.source.provider import Provider, newest_and_final, proved_logs
from marketdata.source.rpc_file import Chain

_log = logging.getLogger("marketdata.ingestor")


@dataclass(frozen=True)
class Limits:
    """Numbers of blocks."""

    followed: int = 128
    """At least this many of the newest blocks are read one by one, because a reorganisation may replace them. If
    ``confirmations`` in ``rpc.json`` is larger, it is used instead."""
    kept: int = 1024
    """At least this many of the newest blocks are remembered, to find where a reorganisation began."""
    step: int = 32
    """A step reads at most this many blocks one by one."""


LIMITS = Limits()


@dataclass
class Counts:
    """What the ingestor has done since its start, for one chain."""

    ticks: int = 0
    blocks: int = 0
    reorganisations: int = 0
    retracted_blocks: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    """Swaps that yielded no tick, by reason."""


class PoolGroup:
    """Pools that are read together, with the filter of their events. ``others`` selects further events to read."""

    def __init__(self, pools: Iterable[Pool], others: LogFilter | None = None) -> None:
        self.pools = {pool.symbol: pool for pool in pools}
        self.index = PoolIndex(self.pools.values())
        swaps = swap_filter(self.pools.values())
        self.filter = swaps if others is None else swaps | others

    def add(self, pools: Sequence[Pool], waiting: Sequence[WaitingPool]) -> None:
        """Add pools. Of ``waiting`` only the events are read."""
        self.pools |= {pool.symbol: pool for pool in pools}
        self.index.add(pools)
        self.filter |= swap_filter([*pools, *waiting])


Read = list[tuple[Block, list[Log]]]
"""Blocks that were read, with their logs. Between the first and the last block, blocks without logs may be missing."""

Store = Callable[[PoolGroup, Read, list[Found]], None]


class Follower:
    """Reads the swaps of the pools of one chain. Used by one thread.

    The *members* of the chain are read together, and new pools of its factories with them. Pools that are behind the
    members are *late*; they are read while no new block waits.
    """

    def __init__(
        self, provider: Provider, chain: Chain, pools: Sequence[Pool], outbox: Outbox, limits: Limits = LIMITS
    ) -> None:
        """``pools`` are those that ``rpc.json`` lists."""
        self._provider = provider
        self._chain = chain
        self._listed = pools
        self._outbox = outbox
        self._cursor = ChainCursor(outbox, chain.name)
        self._discovery = Discovery(provider, chain, outbox)
        self._doubted_blocks = DoubtedBlocks(outbox, chain.name)
        self._doubted: dict[Block, frozenset[str]] = {}
        """Of the blocks that are being read: the addresses whose logs are missing."""
        self._contradicted: list[tuple[int, int]] = []
        """Ranges in which the provider left out logs. They are read block by block."""
        self._range = AdaptiveRange()
        self._limits = limits
        self._followed = max(limits.followed, chain.confirmations or 0)
        self._finalized = 0
        self._pools: dict[str, Pool] = {}
        self._members: PoolGroup | None = None
        self._waiting: PoolIndex[WaitingPool] = PoolIndex(())
        self.counts = Counts()
        self.head: Header | None = None

    @property
    def pool_count(self) -> int:
        """The number of pools that are read."""
        return len(self._pools)

    def look(self) -> None:
        """Read the newest block. If a reorganisation replaced known blocks, retract them."""
        self.head, self._finalized = newest_and_final(self._provider, self._chain.confirmations)
        # This comes before the factories' past is read, so that no pool of a replaced branch is found there.
        if self._differs(self.head.block) or (self._members is None and self._is_replaced()):
            self._reorganise(self.head.number)
        if self._members is None:
            self._begin()

    def step(self) -> bool:
        """Read the next blocks of the members, up to the newest block of the last ``look``. Returns False if none is
        left to read."""
        assert self.head is not None
        assert self._members is not None
        first = self._cursor.next_block()
        if first is None or first > self.head.number:
            self._report_finalized(self.head.number)
            return False
        # Stop before the first block of a listed pool that begins later: its coverage begins with that block.
        starts = [self._pools[symbol].start_block for symbol in self._cursor.joining() if symbol in self._pools]
        last = min([self.head.number, *(start - 1 for start in starts if start > first)])
        self._read(self._members, first, last, self._store_members)
        return True

    def catch_up(self) -> bool:
        """Read the next blocks of late pools. Returns False if no pool is late."""
        late = {symbol: at for symbol, at in self._cursor.late().items() if symbol in self._pools}
        end = self._cursor.next_block()
        if not late or end is None:
            return False
        first = min(late.values())
        pools = [self._pools[symbol] for symbol, at in late.items() if at == first]
        if first >= end:  # pools that are read again; they had stopped at this block
            with self._cursor.transaction() as transaction:
                self._cursor.advance_late(transaction, [pool.symbol for pool in pools], first)
            self._regroup()
            return True
        last = min([end - 1, *(at - 1 for at in late.values() if at != first)])
        self._read(PoolGroup(pools), first, last, self._store_late)
        return True

    def read_again(self) -> None:
        """Read the blocks again of which logs were missing."""
        for doubted in self._doubted_blocks.due():
            pools = [self._pools[symbol] for symbol in doubted.symbols if symbol in self._pools]
            [header] = self._provider.find_headers([doubted.block.number])
            found = None
            if header is not None and header.hash == doubted.block.hash and pools:
                [found] = proved_logs(self._provider, [header], swap_filter(pools))
            with self._cursor.transaction() as transaction:
                # What is replaced goes with its reorganisation. The symbols that are not read now may come back.
                if found is None or found.unseen:
                    self._doubted_blocks.add(transaction, doubted.block, doubted.symbols, doubted.tries + 1)
                    continue
                self._put_ticks(transaction, PoolIndex(pools), [(doubted.block, found.logs)])
                self._doubted_blocks.remove(transaction, doubted, {pool.symbol for pool in pools})
            _log.info("%s: block %d has all its events now", self._chain.name, doubted.block.number)

    # -- the pools ---------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        self._discovery.check_names(self._listed)
        old_marks.remove(self._outbox, self._provider, self._listed, self._cursor.uncover)
        self._discovery.read_listed(self._listed)
        self._cursor.begin_at([pool.start_block for pool in self._listed])
        self._discovery.begin(self._cursor, self._finalized)
        self._cursor.enter([*self._listed, *self._discovery.pools()])
        self._regroup()

    def _regroup(self) -> None:
        """Build the members' group anew, because the pools have changed."""
        # A pool that was begun before its start_block goes on there, whatever start_block says now.
        begun = {pool.symbol: pool.first_block for pool in self._cursor.pools()}
        listed = [replace(each, start_block=min(each.start_block, begun[each.symbol])) for each in self._listed]
        self._pools = {pool.symbol: pool for pool in (*listed, *self._discovery.pools())}
        late = self._cursor.late()
        waiting = self._discovery.waiting()
        self._waiting = PoolIndex(waiting)
        self._members = PoolGroup(
            (pool for symbol, pool in self._pools.items() if symbol not in late),
            LogFilter(self._discovery.events()) | swap_filter(waiting),
        )

    # -- reading -----------------------------------------------------------------------------------------------------

    def _read(self, group: PoolGroup, first: int, last: int, store: Store) -> None:
        assert self.head is not None
        self._doubted = {}
        last_in_ranges = self.head.number - self._followed
        contradicted = [high for low, high in self._contradicted if low <= first <= high]
        if contradicted:
            fetch, last = self._read_blocks, min(last, *contradicted, first + self._limits.step - 1)
        elif first <= last_in_ranges:
            fetch, last = self._read_range, min(last, last_in_ranges, first + self._range.size - 1)
        else:
            fetch, last = self._read_blocks, min(last, first + self._limits.step - 1)
        read = fetch(group.filter, first, last)
        if read is None:
            return
        found = self._discovery.announced([log for _, logs in read for log in logs]) if group is self._members else []
        if found:  # the filter did not select the swaps of these pools
            read = _merged(read, fetch(swap_filter(found), first, read[-1][0].number))
            if read is None:
                return
        store(group, read, found)

    def _read_range(self, wanted: LogFilter, first: int, last: int) -> Read | None:
        """The blocks of a range. None if a smaller range must be read, or after a reorganisation."""
        asked = last - first + 1
        try:
            logs, headers = self._provider.logs_between(first, last, wanted, (first, last))
        except RangeContradicted as error:
            _log.warning("%s: %s", self._chain.name, error.detail)
            self._contradicted.append((first, last))
            return None
        except ProviderError as error:
            if not (error.may_be_too_large and self._range.refused(asked, error.suggested)):
                raise
            return None
        self._range.answered(asked)
        if not self._follows(headers[first]):
            self._reorganise(first)  # the reorganisation may have happened while this program did not run
            return None
        by_block: dict[Block, list[Log]] = {header.block: [] for header in headers.values()}
        for log in logs:
            by_block.setdefault(log.block, []).append(log)
        for block in by_block:
            if self._differs(block):
                self._reorganise(block.number)
                return None
        return sorted(by_block.items())

    def _read_blocks(self, wanted: LogFilter, first: int, last: int) -> Read | None:
        """The blocks, each of which names the one before it as its parent. None after a reorganisation."""
        headers = self._provider.headers(range(first, last + 1))
        if self._differs(headers[0].block) or not self._follows(headers[0]):
            self._reorganise(first)
            return None
        for at in range(1, len(headers)):
            if self._differs(headers[at].block) or headers[at].parent != headers[at - 1].hash:
                headers = headers[:at]  # the next step finds the reorganisation
                break
        read = proved_logs(self._provider, headers, wanted)
        for header, found in zip(headers, read, strict=True):
            if found.unseen:
                self._doubted[header.block] = self._doubted.get(header.block, frozenset()) | found.unseen
        self._contradicted = [each for each in self._contradicted if each[1] != headers[-1].number]
        return [(header.block, found.logs) for header, found in zip(headers, read, strict=True)]

    def _differs(self, block: Block) -> bool:
        """Whether another block with this number is known."""
        return self._cursor.hash_of(block.number) not in (None, block.hash)

    def _follows(self, header: Header) -> bool:
        """Whether the known block below this one is its parent. True if the block below is unknown."""
        return self._cursor.hash_of(header.number - 1) in (None, header.parent)

    # -- storing -----------------------------------------------------------------------------------------------------

    def _store_members(self, group: PoolGroup, read: Read, found: list[Found]) -> None:
        (start, _), (end, _) = read[0], read[-1]
        last = end.number
        with self._cursor.transaction() as transaction:
            self._cursor.forget(transaction, min(self._finalized, start.number - self._limits.kept))
            new, waiting = self._discovery.record(transaction, self._cursor, found)
            index = PoolIndex([*group.pools.values(), *new]) if new else group.index
            made, unread = self._put_ticks(transaction, index, read)
            self._cursor.advance(transaction, last + 1)
            times = {each.block: each.time for each in found}
            begins = {pool.symbol: times[pool.start_block] for pool in new}
            joining = [
                (symbol, begins.get(symbol, start.time))
                for symbol in self._cursor.joining()
                if symbol in begins or self._pools[symbol].start_block <= last
            ]
            self._cursor.cover(transaction, joining, end.time + 1)
            self._uncover(transaction, unread, start, end)
            self._keep_doubts(transaction, index)
            self._cursor.finalize(transaction, min(self._finalized, last))
            counted = self._count_waiting(transaction, [self._waiting, PoolIndex(waiting)], read)
        self._note(start.number, last, made)
        if counted:
            self._regroup()
        elif found:
            self._pools |= {pool.symbol: pool for pool in new}
            self._waiting.add(waiting)
            group.add(new, waiting)

    def _store_late(self, group: PoolGroup, read: Read, _found: list[Found]) -> None:
        (start, _), (end, _) = read[0], read[-1]
        with self._cursor.transaction() as transaction:
            made, unread = self._put_ticks(transaction, group.index, read)
            self._cursor.cover_late(transaction, [(symbol, start.time) for symbol in group.pools], end.time + 1)
            self._uncover(transaction, unread, start, end)
            self._keep_doubts(transaction, group.index)
            self._cursor.advance_late(transaction, group.pools, end.number + 1)
        self._note(start.number, end.number, made)
        if end.number + 1 == self._cursor.next_block():
            self._regroup()

    def _put_ticks(self, transaction: Transaction, index: PoolIndex[Pool], read: Read) -> tuple[int, dict[str, str]]:
        """Put the ticks of blocks into the outbox. Returns how many, and the symbols of which every log was discarded,
        with the reason."""
        trades: Counter[str] = Counter()
        skipped, made = swaps.Skipped(), []

        def skip(pool: Pool, log: Log, reason: str, error: ValueError) -> None:
            skipped(pool, log, reason, error)
            _log.info("skipped %s in %s, log %d: %s", pool.symbol, log.transaction, log.position, error)

        for block, logs in read:
            ticks = swaps.ticks(index, logs, skip)
            made += ticks
            traded = {tick.symbol for tick in ticks}
            put(transaction, self._cursor.restores(transaction, block, traded))
            put_encoded(transaction, [tick.body for tick in ticks])
            self._cursor.keep(transaction, block, traded)
            trades.update(tick.symbol for tick in ticks)
        self._cursor.count_trades(transaction, trades)
        self.counts.skipped += skipped.counts
        return len(made), skipped.unread(made)

    def _uncover(self, transaction: Transaction, unread: Mapping[str, str], start: Block, end: Block) -> None:
        """Report the times of these blocks as failed for symbols that were not read."""
        for symbol, reason in unread.items():
            put_failed(transaction, symbol, start.time, end.time + 1)
            _log.warning("%s: blocks %d to %d are not indexed: %s", symbol, start.number, end.number, reason)

    def _keep_doubts(self, transaction: Transaction, index: PoolIndex[Pool]) -> None:
        """Record the blocks of which logs are missing. Raises ProviderError if they are a factory's: without them, the
        pools to read are not known."""
        factories = self._discovery.events().keys()
        for block, addresses in self._doubted.items():
            if missing := addresses & factories:
                raise ProviderError(
                    f"{self._provider.name} left out events of the factory {min(missing)} in block {block.number}",
                    code="wrong_answer",
                )
            pools = (pool for address in addresses for pool in index.at(address))
            symbols = {pool.symbol for pool in pools if pool.start_block <= block.number}
            if symbols:
                self._doubted_blocks.add(transaction, block, symbols)

    def _count_waiting(self, transaction: Transaction, waiting: Sequence[PoolIndex[WaitingPool]], read: Read) -> bool:
        """Count the swaps of waiting pools. Returns whether one of them is read from now on."""
        trades = Counter(
            pool.address
            for _, logs in read
            for log in logs
            for index in waiting
            for pool in index.of(log)
            if log.topics[0] in KINDS[pool.kind].swap_topics
        )
        return bool(self._discovery.count(transaction, self._cursor, trades, self._finalized))

    def _note(self, first: int, last: int, made: int) -> None:
        self.counts.blocks += last - first + 1
        self.counts.ticks += made
        if made:
            _log.info("%s: read blocks %d to %d: %d ticks", self._chain.name, first, last, made)

    # -- finality and reorganisations --------------------------------------------------------------------------------

    def _report_finalized(self, newest: int) -> None:
        """Report blocks that became final when no block was left to read."""
        block = min(self._finalized, newest)
        if block > self._cursor.finalized():
            with self._cursor.transaction() as transaction:
                self._cursor.finalize(transaction, block)

    def _reorganise(self, number: int) -> None:
        """Retract the blocks that a reorganisation replaced. ``number`` is a replaced block or the block after one. If
        all known blocks were replaced, the blocks before them may have been replaced, too, unless they are final."""
        known, name = self._cursor.blocks(), self._provider.name
        gone, common = self._divided(known)
        if not gone:
            second = self._provider.name
            about = f"{name} contradicts {'itself' if second == name else second}"
            raise ProviderError(f"{about} about block {number}", code="wrong_answer")
        self._check_final(gone[-1])
        if common is None:
            self._check_complete(known)
            next_block, time = max(0, min(gone[-1].number, self._finalized + 1)), 0
        else:
            next_block, time = common.number + 1, common.time + 1
        with self._cursor.transaction() as transaction:
            self._discovery.forget(transaction, self._cursor, next_block - 1)
            self._cursor.retract(transaction, gone, next_block, time)
            self._doubted_blocks.retract(transaction, next_block, time)
        if self._members is not None:
            self._regroup()
        self.counts.reorganisations += 1
        self.counts.retracted_blocks += len(gone)
        _log.warning(
            "%s: reorganisation: blocks %d to %d were replaced", self._chain.name, gone[-1].number, gone[0].number
        )

    def _is_replaced(self) -> bool:
        """Whether the chain has another block in place of the newest known one."""
        newest = self._cursor.blocks()[:1]
        current = self._provider.find_headers([block.number for block in newest])
        return any(header is not None and self._differs(header.block) for header in current)

    def _divided(self, known: Sequence[ReadBlock]) -> tuple[list[ReadBlock], Header | None]:
        """Returns the known blocks that were replaced, newest first, and the newest known block that is still in the
        chain, or None."""
        gone: list[ReadBlock] = []
        for at in range(0, len(known), self._limits.step):
            part = known[at : at + self._limits.step]
            for block, current in zip(part, self._provider.find_headers([each.number for each in part]), strict=True):
                if current is not None and current.hash == block.hash:
                    return gone, current
                gone.append(block)
        return gone, None

    def _check_final(self, oldest: ReadBlock) -> None:
        """Raise ProviderError if the reorganisation would replace a block that was reported as final, unless all
        endpoints of the provider say so. ``oldest`` is the oldest replaced block."""
        final, about = self._cursor.finalized(), f"block {oldest.number} is not {oldest.hash}"
        if oldest.number <= final and self._provider.distrust(about):
            raise ProviderError(f"{self._provider.name} contradicts a final block: {about}", code="wrong_answer")

    def _check_complete(self, known: Sequence[ReadBlock]) -> None:
        """Raise StateError if older blocks than the known ones were read and forgotten. Such blocks cannot be
        retracted."""
        oldest = min([known[0].number, *(pool.first_block for pool in self._cursor.pools())])
        if known[0].number - self._limits.kept > oldest:
            raise StateError(
                f"{self._provider.name}: none of the last {len(known)} known blocks is part of the chain. "
                "Another chain needs another TICKS_TABLE",
                code="chain_replaced",
            )


def _merged(read: Read, more: Read | None) -> Read | None:
    """The blocks with the logs of both readings. None if a reorganisation replaced a block between them."""
    if more is None or (read[0][0], read[-1][0]) != (more[0][0], more[-1][0]):
        return None
    logs_of = {block: set(logs) for block, logs in read}
    for block, logs in more:
        logs_of.setdefault(block, set()).update(logs)
    if len({block.number for block in logs_of}) < len(logs_of):
        return None
    return [(block, sorted(logs_of[block], key=lambda log: log.position)) for block in sorted(logs_of)]
