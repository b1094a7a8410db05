"""Solidly and its forks, like Velodrome and Aerodrome; pure. Events of BaseV1-core.sol (V1), and of IPool.sol and
IPoolFactory.sol of Velodrome V2 and Aerodrome (V2).

Stable and volatile pools emit the same events. The amounts include the fee, which a pool passes on to another contract.
"""

from __future__ import annotations

from marketdata.source.evm import Log, address_word, topic, words
from marketdata.source.pools import uniswap_v2
from marketdata.source.pools.pool import Creation, PoolKind


def _v1_created(log: Log) -> Creation:
    token0, token1 = log.indexed(2)
    _is_stable, pair, _count = words(log.data, 3)
    return Creation(address_word(pair), (address_word(token0), address_word(token1)))


def _v2_created(log: Log) -> Creation:
    token0, token1, _is_stable = log.indexed(3)
    pool, _count = words(log.data, 2)
    return Creation(address_word(pool), (address_word(token0), address_word(token1)))


KIND = PoolKind(
    # In V2 the recipient is the second argument instead of the last one. It is indexed, so the data is the same.
    swap_topics=(*uniswap_v2.KIND.swap_topics, topic("Swap(address,address,uint256,uint256,uint256,uint256)")),
    decode=uniswap_v2.decode,
    creations={
        topic("PairCreated(address,address,bool,address,uint256)"): _v1_created,
        topic("PoolCreated(address,address,bool,address,uint256)"): _v2_created,
    },
    functions={"getReserves()": 3, "stable()": 1},
)
