"""The blocks of a chain whose ticks are stored, and that are not final."""

from __future__ import annotations

from typing import LiteralString, NamedTuple

from marketdata.store.pool import Connection
from marketdata.store.version import Version

_NOT_FINAL: LiteralString = """
    SELECT t.symbol, t.block_number, t.block_hash
    FROM {symbols} s LEFT JOIN {chains} h ON h.chain = %(chain)s JOIN {ticks} t ON t.symbol = s.symbol
    WHERE {chain_of}(s.symbol) = %(chain)s AND s.final_until < 'infinity'
      AND t.ts >= greatest(s.final_until, h.final_until)
      AND t.block_number > coalesce(greatest(s.finalized_block, h.finalized_block), -1)
      AND t.block_number < %(below)s AND t.block_hash IS NOT NULL
    GROUP BY t.symbol, t.block_number, t.block_hash
    ORDER BY t.block_number DESC, t.symbol, t.block_hash LIMIT %(limit)s"""


class StoredBlock(NamedTuple):
    """A block that has stored ticks of the symbol."""

    symbol: str
    number: int
    hash: str


def not_final(conn: Connection, version: Version, chain: str, below: int, limit: int) -> list[StoredBlock]:
    """The newest blocks with a number less than ``below``, newest first."""
    values = {"chain": chain, "below": below, "limit": limit}
    return [StoredBlock(*row) for row in conn.execute(version.query(_NOT_FINAL), values).fetchall()]
