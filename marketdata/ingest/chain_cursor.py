"""Records how far a chain has been read, in tables of the outbox's file.

A chain has one next block for all its pools, its *members*. A pool that was added later, and whose first block lies
before the chain's next block, has a next block of its own until it catches up and becomes a member. So a step costs a
few writes, however many pools the chain has.

Finality is reported for the chain. Coverage is reported for the chain, too: the API extends the joined coverage of the
chain's symbols with it. So the own coverage of a pool is reported as joined once, when it becomes a member.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from marketdata.ingest.outbox import Item, Outbox, Transaction, chain_finality, put, put_coverage
from marketdata.source.evm import Block
from marketdata.source.pools.pool import Pool


class ReadBlock(NamedTuple):
    """A block that was read. ``symbols`` is a JSON list of the symbols with ticks in the block. ``time`` is in seconds
    since 1970."""

    number: int
    hash: str
    symbols: str
    time: int


class KnownPool(NamedTuple):
    """A pool that the ingestor reads. ``first_block`` is where it began. ``next_block`` is None for a member.
    ``trades`` is the number of ticks that were read."""

    symbol: str
    address: str
    first_block: int
    next_block: int | None
    trades: int


def put_failed(transaction: Transaction, symbol: str, start: int, end: int) -> None:
    """Report the times [start, end) of a pool as failed."""
    put_coverage(transaction, symbol, start, end, "failed")
    rejoin(transaction, symbol, start, end)


def rejoin(transaction: Transaction, symbol: str, start: int, end: int) -> None:
    """Let a pool join again at ``end`` if the failed times [start, end) have cut the end off its joined coverage, which
    the chain's continues."""
    transaction.execute(
        "UPDATE pools SET joined = 0, covered_to = ?3 "
        "WHERE symbol = ?1 AND joined = 1 AND covered_to > ?2 AND covered_to <= ?3",
        (symbol, start, end),
    )


class ChainCursor:
    """How far one chain has been read. Used by one thread. A method with the parameter ``transaction`` works within the
    caller's transaction."""

    def __init__(self, outbox: Outbox, chain: str) -> None:
        self._outbox = outbox
        self._chain = chain
        self.transaction = outbox.transaction

    # -- pools -------------------------------------------------------------------------------------------------------

    def enter(self, pools: Iterable[Pool]) -> None:
        """Record the pools that are read from now on; others leave. A pool that is new, or has a new address, begins at
        its start block. Ticks of the old address stay stored."""
        known = {pool.symbol: pool for pool in self.pools()}
        with self.transaction() as transaction:
            for pool in pools:
                before = known.pop(pool.symbol, None)
                if before is None or before.address != pool.address:
                    self.add(transaction, pool, pool.start_block)
            members = [pool.symbol for pool in known.values() if pool.next_block is None]
            if members:
                self._leave(transaction, members)

    def begin_at(self, starts: Sequence[int]) -> None:
        """Begin with the chain at the lowest of these blocks, unless it was begun already."""
        if starts and self.next_block() is None:
            with self.transaction() as transaction:
                self.begin(transaction, min(starts))

    def begin(self, transaction: Transaction, next_block: int) -> None:
        """Begin with the chain at a block."""
        transaction.execute("INSERT INTO chains (chain, next_block) VALUES (?, ?)", (self._chain, next_block))

    def add(self, transaction: Transaction, pool: Pool, first_block: int) -> None:
        """Add a pool, which begins at ``first_block``. It is a member if the chain was not read beyond that block."""
        next_block = self._next_block(transaction)
        assert next_block is not None
        own = first_block if first_block < next_block else None
        transaction.execute(
            "INSERT OR REPLACE INTO pools (symbol, chain, address, kind, token0, token1, first_block, next_block) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (pool.symbol, self._chain, pool.address, pool.kind, *pool.tokens, first_block, own),
        )

    def remove(self, transaction: Transaction, symbols: Sequence[str]) -> None:
        """Remove pools, and take their own coverage back."""
        for symbol in symbols:
            row = transaction.execute(
                "SELECT covered_from, covered_to FROM pools WHERE symbol = ?", (symbol,)
            ).fetchone()
            if row is not None and row[0] is not None and row[0] < row[1]:
                put_coverage(transaction, symbol, row[0], row[1], "failed")
        transaction.executemany("DELETE FROM pools WHERE symbol = ?", [(symbol,) for symbol in symbols])

    def _leave(self, transaction: Transaction, symbols: Sequence[str]) -> None:
        """Let members leave. Their own coverage is reported without being joined: up to the end of the chain's if they
        had joined, and otherwise as far as it was reported before, because a part of it may still be joined."""
        next_block = self._next_block(transaction)
        for symbol in symbols:
            row = transaction.execute(
                "SELECT p.covered_from, CASE p.joined WHEN 1 THEN c.covered_to ELSE p.covered_to END "
                "FROM pools p JOIN chains c ON c.chain = p.chain WHERE p.symbol = ? AND p.covered_from IS NOT NULL",
                (symbol,),
            ).fetchone()
            if row is not None and row[0] < row[1]:
                put_coverage(transaction, symbol, row[0], row[1], "indexed")
                transaction.execute("UPDATE pools SET covered_to = ? WHERE symbol = ?", (row[1], symbol))
        transaction.executemany(
            "UPDATE pools SET next_block = ?, joined = 0 WHERE symbol = ?", [(next_block, each) for each in symbols]
        )

    def pools(self) -> list[KnownPool]:
        """All known pools of the chain, including those that are no longer read."""
        statement = "SELECT symbol, address, first_block, next_block, trades FROM pools WHERE chain = ?"
        return [KnownPool(*row) for row in self._outbox.rows(statement, self._chain)]

    def first_block(self, pool: Pool) -> int | None:
        """The block where the ingestor began with the pool; None when the ingestor never read the pool."""
        statement = "SELECT first_block FROM pools WHERE symbol = ? AND address = ?"
        found = self._outbox.rows(statement, pool.symbol, pool.address)
        return found[0][0] if found else None

    # -- progress ----------------------------------------------------------------------------------------------------

    def next_block(self) -> int | None:
        """The next block of the members; None before the first ``enter``."""
        found = self._outbox.rows("SELECT next_block FROM chains WHERE chain = ?", self._chain)
        return found[0][0] if found else None

    def late(self) -> dict[str, int]:
        """The next block of each pool that is not a member, including pools that are no longer read."""
        statement = "SELECT symbol, next_block FROM pools WHERE chain = ? AND next_block IS NOT NULL"
        return dict(self._outbox.rows(statement, self._chain))

    def advance(self, transaction: Transaction, next_block: int) -> None:
        """Set the next block of the members."""
        transaction.execute("UPDATE chains SET next_block = ? WHERE chain = ?", (next_block, self._chain))

    def advance_late(self, transaction: Transaction, symbols: Iterable[str], next_block: int) -> None:
        """Set the next block of pools that are not members. A pool that has caught up becomes a member."""
        own = next_block if next_block < (self._next_block(transaction) or 0) else None
        transaction.executemany(
            "UPDATE pools SET next_block = ? WHERE symbol = ? AND next_block <= ?",
            [(own, symbol, next_block) for symbol in symbols],
        )

    def count_trades(self, transaction: Transaction, trades: Mapping[str, int]) -> None:
        """Add to the numbers of ticks that were read, by symbol."""
        transaction.executemany(
            "UPDATE pools SET trades = trades + ? WHERE symbol = ?",
            [(count, symbol) for symbol, count in trades.items()],
        )

    # -- coverage ----------------------------------------------------------------------------------------------------

    def cover(self, transaction: Transaction, read: Iterable[tuple[str, int]], until: int) -> None:
        """Report that the members were read up to the time ``until``, exclusive. ``read`` names the members that join,
        each with the time from which it was read."""
        for symbol, start in read:
            self._cover_pool(transaction, symbol, start, until, "joined")
        row = transaction.execute("SELECT covered_to FROM chains WHERE chain = ?", (self._chain,)).fetchone()
        # At first all members join, and their own coverage is enough. The chain's coverage begins where theirs ends.
        start = until if row[0] is None else row[0]
        if start < until:  # equal when two blocks have the same time
            put_coverage(transaction, self._chain, start, until, "indexed")
        transaction.execute(
            "UPDATE chains SET covered_from = coalesce(covered_from, ?), covered_to = ? WHERE chain = ?",
            (start, until, self._chain),
        )

    def cover_late(self, transaction: Transaction, read: Iterable[tuple[str, int]], until: int) -> None:
        """Report that pools that are not members were read up to ``until``; ``read`` as in :meth:`cover`."""
        for symbol, start in read:
            self._cover_pool(transaction, symbol, start, until, "indexed")

    def uncover(self, symbols: Iterable[str], start: int, end: int) -> None:
        """Report the times [start, end) of symbols as failed."""
        with self.transaction() as transaction:
            for symbol in symbols:
                put_failed(transaction, symbol, start, end)

    def joints(self) -> dict[str, int]:
        """The time at which the chain's coverage continues that of each pool that has joined."""
        statement = "SELECT symbol, covered_to FROM pools WHERE chain = ? AND joined = 1"
        return dict(self._outbox.rows(statement, self._chain))

    def joining(self) -> list[str]:
        """The members whose own coverage does not touch the chain's."""
        statement = "SELECT symbol FROM pools WHERE chain = ? AND joined = 0 AND next_block IS NULL"
        return [row[0] for row in self._outbox.rows(statement, self._chain)]

    def _cover_pool(self, transaction: Transaction, symbol: str, start: int, until: int, state: str) -> None:
        row = transaction.execute("SELECT covered_to FROM pools WHERE symbol = ?", (symbol,)).fetchone()
        start = start if row[0] is None else row[0]
        if start >= until:  # several blocks have one time: the next step covers them
            return
        put_coverage(transaction, symbol, start, until, state)
        transaction.execute(
            "UPDATE pools SET covered_from = coalesce(covered_from, ?), covered_to = ?, joined = ? WHERE symbol = ?",
            (start, until, state == "joined", symbol),
        )

    def _uncover_new(self, transaction: Transaction, next_block: int) -> None:
        """Take back the own coverage of pools that began at ``next_block`` or later. Their coverage may begin before
        the time from which the coverage of other pools is taken back, because several blocks may have the same time."""
        rows = transaction.execute(
            "SELECT symbol, covered_from, covered_to FROM pools "
            "WHERE chain = ? AND first_block >= ? AND covered_from < covered_to",
            (self._chain, next_block),
        ).fetchall()
        for row in rows:
            put_coverage(transaction, row[0], row[1], row[2], "failed")
        transaction.executemany(
            "UPDATE pools SET covered_from = NULL, covered_to = NULL, joined = 0 WHERE symbol = ?",
            [(row[0],) for row in rows],
        )

    def _uncover(self, transaction: Transaction, start: int) -> None:
        """Take back the coverage from ``start`` on, because the new blocks may have other times."""
        ends = transaction.execute(
            "SELECT max(covered_to) FROM (SELECT covered_to FROM pools WHERE chain = ?1 "
            "UNION ALL SELECT covered_to FROM chains WHERE chain = ?1)",
            (self._chain,),
        ).fetchone()
        if ends[0] is None or ends[0] <= start:
            return
        put_coverage(transaction, self._chain, start, ends[0], "failed")
        # The part that was reported as joined is perhaps gone, so the pool joins again.
        transaction.execute(
            "UPDATE pools SET joined = 0 WHERE chain = ? AND covered_to > ?",
            (self._chain, start),
        )
        for table in ("pools", "chains"):
            transaction.execute(
                f"UPDATE {table} SET covered_to = min(covered_to, ?1) WHERE chain = ?2", (start, self._chain)
            )
            transaction.execute(
                f"UPDATE {table} SET covered_from = NULL, covered_to = NULL WHERE chain = ?2 AND covered_from >= ?1",
                (start, self._chain),
            )
        # The chain's coverage extends the coverage of a pool only where it touches it.
        transaction.execute(
            "UPDATE pools SET joined = 0 WHERE chain = ?1 AND (covered_to IS NULL "
            "OR (SELECT covered_to IS NULL FROM chains WHERE chain = ?1))",
            (self._chain,),
        )

    # -- blocks ------------------------------------------------------------------------------------------------------

    def hash_of(self, number: int) -> str | None:
        """The hash of a known block; None if the block was not read or was forgotten."""
        found = self._outbox.rows("SELECT hash FROM blocks WHERE chain = ? AND number = ?", self._chain, number)
        return found[0][0] if found else None

    def blocks(self) -> list[ReadBlock]:
        """The known blocks, newest first."""
        statement = "SELECT number, hash, symbols, time FROM blocks WHERE chain = ? ORDER BY number DESC"
        return [ReadBlock(*row) for row in self._outbox.rows(statement, self._chain)]

    def keep(self, transaction: Transaction, block: Block, symbols: set[str]) -> None:
        """Remember a block that was read. If the block is already known from other pools, their symbols stay."""
        row = transaction.execute(
            "SELECT symbols FROM blocks WHERE chain = ? AND number = ?", (self._chain, block.number)
        ).fetchone()
        both = symbols | set(json.loads(row[0])) if row else symbols
        values = ReadBlock(block.number, block.hash, json.dumps(sorted(both)), block.time)
        transaction.execute("INSERT OR REPLACE INTO blocks VALUES (?, ?, ?, ?, ?)", (self._chain, *values))

    def forget(self, transaction: Transaction, below: int) -> None:
        """Forget the blocks below the number ``below``.

        Nothing is forgotten while items wait. The API may have stored a waiting tick, although its response was lost,
        and the tick may have been retracted since. The API then refuses the waiting tick as retracted. To decide what
        to do with it, the ingestor must still know the tick's block.
        """
        if transaction.execute("SELECT NOT EXISTS (SELECT 1 FROM items)").fetchone()[0]:
            for table in ("blocks", "retracted"):
                transaction.execute(f"DELETE FROM {table} WHERE chain = ? AND number < ?", (self._chain, below))

    # -- reorganisations and finality --------------------------------------------------------------------------------

    def retract(self, transaction: Transaction, gone: Sequence[ReadBlock], next_block: int, time: int) -> None:
        """Retract blocks, newest first. Reading resumes at ``next_block``, whose time is at least ``time``."""
        for block in gone:
            for symbol in json.loads(block.symbols):
                put(transaction, [{"retract": {"symbol": symbol, "block_hash": block.hash}}])
                row = (self._chain, block.hash, symbol, block.number)
                transaction.execute("INSERT OR REPLACE INTO retracted VALUES (?, ?, ?, ?)", row)
        transaction.execute("DELETE FROM blocks WHERE chain = ? AND number >= ?", (self._chain, gone[-1].number))
        self._uncover_new(transaction, next_block)
        self._uncover(transaction, time)
        for table in ("pools", "chains"):
            transaction.execute(
                f"UPDATE {table} SET next_block = min(next_block, ?) WHERE chain = ?", (next_block, self._chain)
            )

    def restores(self, transaction: Transaction, block: Block, symbols: Iterable[str]) -> list[Item]:
        """Returns the items that restore a retracted block, and forgets that the block was retracted. The items must
        precede the ticks of the block."""
        return [
            {"restore": {"symbol": symbol, "block_hash": block.hash}}
            for symbol in sorted(symbols)
            if transaction.execute("DELETE FROM retracted WHERE hash = ? AND symbol = ?", (block.hash, symbol)).rowcount
        ]

    def finalized(self) -> int:
        """The last block that was reported as final; -1 if none was."""
        found = self._outbox.rows("SELECT finalized_block FROM chains WHERE chain = ?", self._chain)
        return -1 if not found or found[0][0] is None else found[0][0]

    def finalize(self, transaction: Transaction, block: int) -> None:
        """Report the chain as final up to a block, unless this block or a later one was already reported."""
        row = transaction.execute(
            # Of a range that was read at once, not every block is known. The time of the nearest known block below is a
            # safe lower bound.
            "SELECT time FROM blocks WHERE chain = ? AND number <= ? ORDER BY number DESC LIMIT 1",
            (self._chain, block),
        ).fetchone()
        if row is None:
            return
        changed = transaction.execute(
            "UPDATE chains SET finalized_block = ?1 WHERE chain = ?2 AND coalesce(finalized_block, -1) < ?1",
            (block, self._chain),
        ).rowcount
        if changed:
            put(transaction, [chain_finality(self._chain, block, row[0])])

    def _next_block(self, transaction: Transaction) -> int | None:
        row = transaction.execute("SELECT next_block FROM chains WHERE chain = ?", (self._chain,)).fetchone()
        return None if row is None else row[0]
