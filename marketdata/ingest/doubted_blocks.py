"""The blocks of one chain of which a log is missing, although their bloom filter names it, in the outbox's file.

Their times are reported as failed for the pools concerned, and they are read again until the provider's answers agree.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from marketdata.ingest.chain_cursor import put_failed
from marketdata.ingest.outbox import Outbox, Transaction, put_coverage
from marketdata.source.evm import Block

_MIN_PAUSE, _MAX_PAUSE = 5.0, 600.0
"""Seconds before a block is read again. Each pause is twice as long as the one before."""


class DoubtedBlock(NamedTuple):
    """``symbols`` are those of the pools whose logs are missing."""

    block: Block
    symbols: Sequence[str]
    tries: int


class DoubtedBlocks:
    """Used by one thread. ``clock`` returns seconds since 1970."""

    def __init__(self, outbox: Outbox, chain: str, clock: Callable[[], float] = time.time) -> None:
        self._outbox = outbox
        self._chain = chain
        self._clock = clock

    def add(self, transaction: Transaction, block: Block, symbols: Collection[str], tries: int = 0) -> None:
        """Report the block's time as failed for these symbols, and read the block again after a pause."""
        row = transaction.execute(
            "SELECT symbols FROM doubted WHERE chain = ? AND number = ? AND hash = ?",
            (self._chain, block.number, block.hash),
        ).fetchone()
        both = sorted({*symbols, *(json.loads(row[0]) if row else ())})
        due = self._clock() + min(_MAX_PAUSE, _MIN_PAUSE * 2**tries)
        values = (self._chain, *block, json.dumps(both), tries, due)
        transaction.execute("INSERT OR REPLACE INTO doubted VALUES (?, ?, ?, ?, ?, ?, ?)", values)
        for symbol in symbols:
            put_failed(transaction, symbol, block.time, block.time + 1)

    def due(self) -> list[DoubtedBlock]:
        """The blocks whose pause is over. A clock that was set back ends the pause, too."""
        now = self._clock()
        rows = self._outbox.rows(
            "SELECT number, hash, time, symbols, tries FROM doubted WHERE chain = ? AND NOT due BETWEEN ? AND ? "
            "ORDER BY number",
            self._chain, now, now + _MAX_PAUSE,
        )  # fmt: skip
        return [
            DoubtedBlock(Block(number, hash, at), json.loads(symbols), tries)
            for number, hash, at, symbols, tries in rows
        ]

    def remove(self, transaction: Transaction, doubted: DoubtedBlock, read: Collection[str]) -> None:
        """The block was read for the symbols ``read``: its time is indexed for them, unless another block of the same
        second is doubted. For its other symbols it stays doubted."""
        number, _, at = doubted.block
        transaction.execute("DELETE FROM doubted WHERE chain = ? AND number = ?", (self._chain, number))
        self._cover(transaction, at, read)
        if others := set(doubted.symbols) - set(read):
            self.add(transaction, doubted.block, others, doubted.tries)

    def retract(self, transaction: Transaction, next_block: int, time: int) -> None:
        """Forget the blocks from ``next_block`` on, which are read again. Coverage before ``time`` stays, and was
        perhaps failed only because of them."""
        rows = transaction.execute(
            "DELETE FROM doubted WHERE chain = ? AND number >= ? RETURNING time, symbols", (self._chain, next_block)
        ).fetchall()
        begun = {
            symbol
            for (symbol,) in transaction.execute(
                "SELECT symbol FROM pools WHERE chain = ? AND first_block < ?", (self._chain, next_block)
            )
        }
        for at, symbols in rows:
            if at < time:
                self._cover(transaction, at, begun.intersection(json.loads(symbols)))

    def _cover(self, transaction: Transaction, at: int, symbols: Collection[str]) -> None:
        rows = transaction.execute(
            "SELECT symbols FROM doubted WHERE chain = ? AND time = ?", (self._chain, at)
        ).fetchall()
        left = {symbol for (found,) in rows for symbol in json.loads(found)}
        for symbol in symbols:
            if symbol not in left:
                put_coverage(transaction, symbol, at, at + 1, "indexed")
