"""Ticks from the logs of swaps."""

from __future__ import annotations

from typing import Any

from marketdata.source.evm import Header, Log
from marketdata.source.pools import KINDS
from marketdata.source.rpc_file import Pool
from marketdata.source.trade import trade

_SEQ_SHIFT = 20
"""A block has fewer than 2^20 logs: at 375 gas for each, that would be 400 million gas."""


_TICK_JSON = (
    '{"symbol":"%s","id":"%s:%d","ts":%d,"seq":%d,"price":"%s","size":"%s","side":"%s",'
    '"block":{"number":%d,"hash":"%s"},"tx":"%s"}'
)


def tick_json(pool: Pool, log: Log, header: Header) -> str:
    """As :func:`tick`, as JSON. An encoder would take as long as the decoding; no value needs an escape."""
    made = trade(KINDS[pool.kind].decode(log.data), pool.decimals, invert=pool.invert)
    number, hash, position = log.block_number, log.block_hash, log.position
    seq = (number << _SEQ_SHIFT) + position
    return _TICK_JSON % (
        pool.symbol, hash, position, header.time * 1000, seq, *made, number, hash, log.transaction,
    )  # fmt: skip


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
