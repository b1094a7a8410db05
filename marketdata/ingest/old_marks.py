"""Removes what an earlier release of the backfill recorded falsely: blocks below a pool's ``start_block`` as stored.

With ``--from-block`` it read these blocks, dropped their swaps, and recorded the blocks as stored and their times as
indexed. Swaps below ``start_block`` may have been stored at another time, but nothing tells which. So all these blocks
count as unread; reading them again stores nothing twice.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import NamedTuple

from marketdata.ingest.outbox import Outbox, Transaction
from marketdata.source.pools.pool import Pool
from marketdata.source.provider import Provider

_log = logging.getLogger("marketdata.ingestor")

Uncover = Callable[[Sequence[str], int, int], None]
"""Reports the times [start, end), in seconds since 1970, of symbols as failed."""


class _Mark(NamedTuple):
    """Blocks that are recorded as stored. ``start_block`` is that of the pool."""

    symbol: str
    first: int
    last: int
    start_block: int


def remove(outbox: Outbox, provider: Provider, pools: Sequence[Pool], uncover: Uncover) -> None:
    """Remove the false marks of pools of ``rpc.json``, and the coverage of their times."""
    false: dict[tuple[int, int], list[_Mark]] = {}
    for mark in _marks(outbox, pools):
        if mark.first < mark.start_block:
            after = min(mark.last + 1, mark.start_block)
            false.setdefault((mark.first, after), []).append(mark)
    headers = {each.number: each for each in provider.headers(sorted({number for key in false for number in key}))}
    for (first, after), marks in false.items():
        uncover([mark.symbol for mark in marks], headers[first].time, headers[after].time)
    with outbox.transaction() as transaction:  # a kill before it repeats the removal
        for marks in false.values():
            for mark in marks:
                _cut(transaction, mark)
        transaction.executemany(
            "DELETE FROM old_marks WHERE symbol = ? AND address = ?", [(pool.symbol, pool.address) for pool in pools]
        )
    for (first, after), marks in sorted(false.items()):
        _log.warning(
            "%s: the blocks %d to %d were marked as stored, but an earlier release stored no swap below start_block. "
            "The marks are removed; to read the blocks: bin/marketdata-backfill --from-block %d",
            ", ".join(mark.symbol for mark in marks), first, after - 1, first,
        )  # fmt: skip


def _marks(outbox: Outbox, pools: Sequence[Pool]) -> list[_Mark]:
    by_key = {(pool.symbol, pool.address): pool.start_block for pool in pools}
    rows = outbox.rows("SELECT symbol, address, first, last FROM old_marks ORDER BY first")
    return [
        _Mark(symbol, first, last, by_key[symbol, address])
        for symbol, address, first, last in rows
        if (symbol, address) in by_key
    ]


def _cut(transaction: Transaction, mark: _Mark) -> None:
    """Remove the part of a mark below the start block."""
    key = (mark.symbol, mark.first, mark.last)
    if mark.last < mark.start_block:
        transaction.execute("DELETE FROM backfilled WHERE symbol = ? AND first = ? AND last = ?", key)
    else:
        statement = "UPDATE backfilled SET first = ? WHERE symbol = ? AND first = ? AND last = ?"
        transaction.execute(statement, (mark.start_block, *key))
