"""Ticks from the logs of swaps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from marketdata.source.evm import Header, Log
from marketdata.source.pools import KINDS
from marketdata.source.rpc_file import Pool
from marketdata.source.trade import NotATrade, trade

_SEQ_SHIFT = 20
"""A block has fewer than 2^20 logs: at 375 gas for each, that would be 400 million gas."""
_TICK_JSON = (
    '{"symbol":"%s","id":"%s:%d","ts":%d,"seq":%d,"price":"%s","size":"%s","side":"%s",'
    '"block":{"number":%d,"hash":"%s"},"tx":"%s"}'
)


class Tick(NamedTuple):
    """``body`` is its JSON, as ``POST /v1/ingest/tick`` takes it."""

    symbol: str
    body: str


Skip = Callable[[Pool, Log, str, ValueError], None]
"""Told of a swap that is no tick: the reason, ``no_price`` or ``not_a_swap``, and the error."""


def ticks(pools: Iterable[Pool], logs: Iterable[Log], headers: Mapping[int, Header], skip: Skip) -> list[Tick]:
    """Those of the pools, in the order of the logs, whose blocks are ``headers``."""
    by_address: dict[str, list[Pool]] = {}
    for pool in pools:
        by_address.setdefault(pool.address, []).append(pool)
    found = []
    for log in logs:
        for pool in by_address.get(log.address, ()):
            try:
                found.append(Tick(pool.symbol, tick_json(pool, log, headers[log.block_number])))
            except ValueError as error:
                skip(pool, log, "no_price" if isinstance(error, NotATrade) else "not_a_swap", error)
    return found


def tick_json(pool: Pool, log: Log, header: Header) -> str:
    """The tick of a swap. NotATrade for one without a price, ValueError for a log that is not of a swap of this kind of
    pool. An encoder would take as long as the decoding; no value needs an escape."""
    made = trade(KINDS[pool.kind].decode(log.data), pool.decimals, invert=pool.invert)
    number, hash, position = log.block_number, log.block_hash, log.position
    seq = (number << _SEQ_SHIFT) + position
    return _TICK_JSON % (
        pool.symbol, hash, position, header.time * 1000, seq, *made, number, hash, log.transaction,
    )  # fmt: skip
