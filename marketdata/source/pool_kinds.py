"""The kinds of pools, each with its swap event and the event's decoder; pure. A new kind is an entry of ``KINDS``."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from marketdata.source.evm import signed, topic, words
from marketdata.source.rpc_file import Pool


class Deltas(NamedTuple):
    """What the pool gained (positive) or paid out (negative) of each token, in the token's smallest unit."""

    token0: int
    token1: int


@dataclass(frozen=True)
class PoolKind:
    topic: str
    """The first topic of the swap event."""
    state_function: str
    """A function without arguments that only pools of this kind have."""
    state_words: int
    """The length of its result, in ABI words."""
    decode: Callable[[bytes], Deltas]
    """Returns the deltas of an event's data. Raises ValueError if the data belongs to another event or contradicts
    itself."""


_MIN_COMPARED_AMOUNT = 1_000_000
"""The smallest amount whose price is checked, in the token's smallest unit. Rounding changes smaller amounts too
much."""
_MAX_FEE = 10
"""The highest fee that the price check expects, in percent. The factory of Uniswap V3 enables fees of up to 1 %; some
forks have higher fees."""


def _decode_v2(data: bytes) -> Deltas:
    """A flash swap may take and return the same token in one event, so the delta is the difference of both amounts."""
    in0, in1, out0, out1 = words(data, 4)
    return Deltas(in0 - out0, in1 - out1)


def _decode_v3(data: bytes) -> Deltas:
    """The deltas are the event's amounts. They must not contradict ``sqrtPriceX96``, the root of the price after the
    swap.

    A sale of token0 lowers the price, so the seller gets on average at least the price after the swap, less the fee.
    A purchase raises the price, so the buyer pays at most the price after the swap, plus the fee. The price before the
    swap is unknown, because the event does not contain it.
    """
    amount0, amount1, root, _liquidity, _tick = words(data, 5)
    deltas = Deltas(signed(amount0), signed(amount1))
    size0, size1 = abs(deltas.token0), abs(deltas.token1)
    if root >> 160:
        raise ValueError("has a price of more than 160 bits")
    if deltas.token0 * deltas.token1 < 0 and min(size0, size1) >= _MIN_COMPARED_AMOUNT:
        paid, at_end = size1 << 192, size0 * root * root
        kept = 100 - _MAX_FEE
        fits = paid * 100 >= at_end * kept if deltas.token0 > 0 else paid * kept <= at_end * 100
        if not fits:
            raise ValueError("has amounts that contradict its sqrtPriceX96")
    return deltas


KINDS = {
    # UniswapV2Pair.sol. Sender and recipient are indexed: they are topics, not data.
    "uniswap-v2": PoolKind(
        topic("Swap(address,uint256,uint256,uint256,uint256,address)"), "getReserves()", 3, _decode_v2
    ),
    # IUniswapV3PoolEvents.sol
    "uniswap-v3": PoolKind(
        topic("Swap(address,address,int256,int256,uint160,uint128,int24)"), "slot0()", 7, _decode_v3
    ),
}
"""The kinds of pools, by their name in ``rpc.json``. Forks that emit the same event are of the same kind."""


def swap_topics(pools: Iterable[Pool]) -> dict[str, str]:
    """The topic of the swap event of each pool, by the pool's address."""
    return {pool.address: KINDS[pool.kind].topic for pool in pools}
