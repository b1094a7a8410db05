"""Records how far the chain has been read, in tables of the outbox's file.

The tables hold the next block of each pool, the known blocks, the retracted blocks, and the last block that was
reported as final.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from marketdata.ingest.outbox import Item, Outbox, Transaction, finality, put, put_coverage
from marketdata.source.evm import Block
from marketdata.source.pools.pool import Pool


class ReadBlock(NamedTuple):
    """A block that was read. ``symbols`` is a JSON list of the symbols with ticks in the block. ``time`` is in seconds
    since 1970."""

    number: int
    hash: str
    symbols: str
    time: int


class Resumption(NamedTuple):
    """Where reading resumes after a reorganisation: the next block, and the time from which coverage is taken back, in
    seconds since 1970."""

    block: int
    time: int


class ChainCursor:
    """How far the chain has been read. Used by one thread. A method with the parameter ``transaction`` works within the
    caller's transaction."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self.transaction = outbox.transaction

    def enter(self, pools: Iterable[Pool]) -> None:
        """Record the pools. A pool that is new, or has a new address, begins at its start block. Ticks of the old
        address stay stored."""
        with self.transaction() as transaction:
            for pool in pools:
                transaction.execute(
                    "INSERT INTO pools (symbol, address, next_block, first_block) VALUES (?1, ?2, ?3, ?3) "
                    "ON CONFLICT DO UPDATE SET address = ?2, next_block = ?3, first_block = ?3, "
                    "covered_from = NULL, covered_to = NULL WHERE address <> ?2",
                    (pool.symbol, pool.address, pool.start_block),
                )

    def next_blocks(self) -> dict[str, int]:
        """The next block of each symbol. This includes pools that were removed from ``rpc.json``."""
        return dict(self._outbox.rows("SELECT symbol, next_block FROM pools"))

    def first_block(self, pool: Pool) -> int | None:
        """The block where the ingestor began with the pool; None when the ingestor never read the pool."""
        statement = "SELECT first_block FROM pools WHERE symbol = ? AND address = ?"
        found = self._outbox.rows(statement, pool.symbol, pool.address)
        return found[0][0] if found else None

    def advance(self, transaction: Transaction, symbols: Iterable[str], next_block: int) -> None:
        transaction.executemany(
            "UPDATE pools SET next_block = ? WHERE symbol = ?", [(next_block, symbol) for symbol in symbols]
        )

    def cover(self, transaction: Transaction, symbols: Iterable[str], since: int, until: int) -> None:
        """Report that blocks were read up to the time ``until``, exclusive. The reported range begins at the end of the
        symbol's coverage, or at ``since`` if the symbol has no coverage."""
        for symbol in symbols:
            start = transaction.execute(
                "SELECT coalesce(covered_to, ?) FROM pools WHERE symbol = ?", (since, symbol)
            ).fetchone()[0]
            if start < until:  # equal when two blocks have the same time
                put_coverage(transaction, symbol, start, until, "indexed")
                transaction.execute(
                    "UPDATE pools SET covered_from = coalesce(covered_from, ?), covered_to = ? WHERE symbol = ?",
                    (start, until, symbol),
                )

    def hash_of(self, number: int) -> str | None:
        """The hash of a known block; None if the block was not read or was forgotten."""
        found = self._outbox.rows("SELECT hash FROM blocks WHERE number = ?", number)
        return found[0][0] if found else None

    def blocks(self) -> list[ReadBlock]:
        """The known blocks, newest first."""
        return [ReadBlock(*row) for row in self._outbox.rows("SELECT * FROM blocks ORDER BY number DESC")]

    def keep(self, transaction: Transaction, block: Block, symbols: set[str]) -> None:
        """Remember a block that was read. If the block is already known from other pools, their symbols stay."""
        row = transaction.execute("SELECT symbols FROM blocks WHERE number = ?", (block.number,)).fetchone()
        both = symbols | set(json.loads(row[0])) if row else symbols
        values = ReadBlock(block.number, block.hash, json.dumps(sorted(both)), block.time)
        transaction.execute("INSERT OR REPLACE INTO blocks VALUES (?, ?, ?, ?)", values)

    def forget(self, transaction: Transaction, below: int) -> None:
        """Forget the blocks below the number ``below``.

        Nothing is forgotten while items wait. The API may have stored a waiting tick, although its response was lost,
        and the tick may have been retracted since. The API then refuses the waiting tick as retracted. To decide what
        to do with it, the ingestor must still know the tick's block.
        """
        if transaction.execute("SELECT NOT EXISTS (SELECT 1 FROM items)").fetchone()[0]:
            transaction.execute("DELETE FROM blocks WHERE number < ?", (below,))
            transaction.execute("DELETE FROM retracted WHERE number < ?", (below,))

    def retract(
        self, transaction: Transaction, gone: Sequence[ReadBlock], resumptions: Mapping[str, Resumption]
    ) -> None:
        """Retract blocks, newest first. Each symbol that was read beyond its resumption goes back to the resumption."""
        for block in gone:
            for symbol in json.loads(block.symbols):
                put(transaction, [{"retract": {"symbol": symbol, "block_hash": block.hash}}])
                row = (block.hash, symbol, block.number)
                transaction.execute("INSERT OR REPLACE INTO retracted VALUES (?, ?, ?)", row)
        transaction.execute("DELETE FROM blocks WHERE number >= ?", (gone[-1].number,))
        for symbol, resumption in resumptions.items():
            self._uncover(transaction, symbol, resumption)
            transaction.execute(
                "UPDATE pools SET next_block = min(next_block, ?) WHERE symbol = ?", (resumption.block, symbol)
            )

    def restores(self, transaction: Transaction, block: Block, symbols: Iterable[str]) -> list[Item]:
        """Returns the items that restore a retracted block, and forgets that the block was retracted. The items must
        precede the ticks of the block."""
        return [
            {"restore": {"symbol": symbol, "block_hash": block.hash}}
            for symbol in sorted(symbols)
            if transaction.execute("DELETE FROM retracted WHERE hash = ? AND symbol = ?", (block.hash, symbol)).rowcount
        ]

    def _uncover(self, transaction: Transaction, symbol: str, resumption: Resumption) -> None:
        """Take back the coverage of blocks that are read again, because the new blocks may have other times."""
        row = transaction.execute(
            "SELECT covered_from, covered_to FROM pools WHERE symbol = ? AND next_block > ? AND covered_to > ?",
            (symbol, resumption.block, resumption.time),
        ).fetchone()
        if row is None:
            return
        since, until = row
        start = max(since, resumption.time)
        put_coverage(transaction, symbol, start, until, "failed")
        left = (since, start) if start > since else (None, None)
        transaction.execute("UPDATE pools SET covered_from = ?, covered_to = ? WHERE symbol = ?", (*left, symbol))

    def finalized(self) -> dict[str, int]:
        """The last block that was reported as final, by symbol."""
        return dict(self._outbox.rows("SELECT symbol, block FROM finalized"))

    def finalize(self, transaction: Transaction, symbols: Iterable[str], block: int) -> None:
        """Report that symbols are final up to a block, unless this block or a later one was already reported."""
        row = transaction.execute(
            # Of a range that was read at once, not every block is known. The time of the nearest known block below is a
            # safe lower bound.
            "SELECT time FROM blocks WHERE number <= ? ORDER BY number DESC LIMIT 1",
            (block,),
        ).fetchone()
        time = row[0] if row is not None else None
        for symbol in symbols:
            changed = transaction.execute(
                "INSERT INTO finalized SELECT ?1, ?2 WHERE ?2 >= 0 "
                "ON CONFLICT DO UPDATE SET block = ?2 WHERE block < ?2",
                (symbol, block),
            ).rowcount
            if changed:
                put(transaction, [finality(symbol, block, time)])
