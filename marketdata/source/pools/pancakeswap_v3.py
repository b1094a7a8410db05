"""PancakeSwap V3; pure. Events of IPancakeV3PoolEvents.sol and IPancakeV3Factory.sol.

The contracts descend from Uniswap V3. The event of a swap has two more words: the parts of its fee that the protocol
gets. The pool holds them until they are collected, so they do not change the deltas.
"""

from __future__ import annotations

from marketdata.source.evm import signed, topic, words
from marketdata.source.pools import uniswap_v3
from marketdata.source.pools.pool import Deltas, PoolKind


def decode(data: bytes) -> Deltas:
    """The deltas are the event's amounts. They must not contradict its ``sqrtPriceX96``."""
    amount0, amount1, root, _liquidity, _tick, _protocol_fee0, _protocol_fee1 = words(data, 7)
    return uniswap_v3.checked(Deltas(signed(amount0), signed(amount1)), root)


KIND = PoolKind(
    swap_topics=(topic("Swap(address,address,int256,int256,uint160,uint128,int24,uint128,uint128)"),),
    decode=decode,
    creations={uniswap_v3.POOL_CREATED: uniswap_v3.created},
    functions={"slot0()": 7, "lmPool()": 1},
)
