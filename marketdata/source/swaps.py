"""Ticks from the logs of swaps."""

from __future__ import annotations

from typing import Any

from marketdata.source.evm import Header, Log
from marketdata.source.pools import KINDS
from marketdata.source.rpc_file import Pool
from marketdata.source.trade import trade

_SEQ_SHIFT = 20
"""A block has fewer than 2^20 logs: at 375 gas for each, that would be 400 million gas."""


def tick(pool: Pool, log: Log, header: Header) -> dict[str, Any]:
    """The tick as ``POST /v1/ingest/tick`` takes it. NotATrade for a swap without a price, ValueError for a log that
    is not of a swap of this kind of pool."""
    made = trade(KINDS[pool.kind].decode(log.data), pool.decimals, invert=pool.invert)
    return {
        "symbol": pool.symbol,
        "id": f"{log.block_hash}:{log.position}",
        "ts": header.time * 1000,
        "seq": (log.block_number << _SEQ_SHIFT) + log.position,
        "price": made.price,
        "size": made.size,
        "side": made.side,
        "block": {"number": log.block_number, "hash": log.block_hash},
        "tx": log.transaction,
    }
