"""Uniswap V2 and its forks; pure. Events of UniswapV2Pair.sol and UniswapV2Factory.sol."""

from __future__ import annotations

from marketdata.source.evm import Log, address_word, topic, words
from marketdata.source.pools.pool import Creation, Deltas, PoolKind


def decode(data: bytes) -> Deltas:
    """A flash swap may take and return the same token in one event, so the delta is the difference of both amounts.
    Sender and recipient are indexed: they are topics, not data."""
    in0, in1, out0, out1 = words(data, 4)
    return Deltas(in0 - out0, in1 - out1)


def _created(log: Log) -> Creation:
    token0, token1 = log.indexed(2)
    pair, _count = words(log.data, 2)
    return Creation(address_word(pair), (address_word(token0), address_word(token1)))


KIND = PoolKind(
    swap_topics=(topic("Swap(address,uint256,uint256,uint256,uint256,address)"),),
    decode=decode,
    creations={topic("PairCreated(address,address,address,uint256)"): _created},
    functions={"getReserves()": 3, "stable()": 0},
)
