"""Uniswap V3 and its forks; pure. Events of IUniswapV3PoolEvents.sol and IUniswapV3Factory.sol."""

from __future__ import annotations

from marketdata.source.evm import Log, address_word, signed, topic, words
from marketdata.source.pools.pool import Creation, Deltas, PoolKind

_MIN_COMPARED_AMOUNT = 1_000_000
"""The smallest amount whose price is checked, in the token's smallest unit. Rounding changes smaller amounts too
much."""
WHOLE = 1_000_000
"""Fees are in millionths of the amount."""
_MAX_FEE = WHOLE // 10
"""The highest fee that the price check expects. The factory of Uniswap V3 enables fees of up to 1 %; some forks have
higher fees."""


def decode(data: bytes) -> Deltas:
    """The deltas are the event's amounts. They must not contradict its ``sqrtPriceX96``."""
    amount0, amount1, root, _liquidity, _tick = words(data, 5)
    return checked(Deltas(signed(amount0), signed(amount1)), root)


def checked(deltas: Deltas, root: int, max_fee: int = _MAX_FEE) -> Deltas:
    """The deltas, if they do not contradict ``root``, the root of the price after the swap (``sqrtPriceX96``).

    A sale of token0 lowers the price, so the seller gets on average at least the price after the swap, less the fee.
    A purchase raises the price, so the buyer pays at most the price after the swap, plus the fee. The price before the
    swap is unknown, because the event does not contain it.
    """
    size0, size1 = abs(deltas.token0), abs(deltas.token1)
    if root >> 160:
        raise ValueError("has a price of more than 160 bits")
    if deltas.token0 * deltas.token1 < 0 and min(size0, size1) >= _MIN_COMPARED_AMOUNT:
        paid, at_end = size1 << 192, size0 * root * root
        kept = WHOLE - max_fee
        fits = paid * WHOLE >= at_end * kept if deltas.token0 > 0 else paid * kept <= at_end * WHOLE
        if not fits:
            raise ValueError("has amounts that contradict its sqrtPriceX96")
    return deltas


def created(log: Log) -> Creation:
    """The pool of ``PoolCreated(token0, token1, fee, tickSpacing, pool)``."""
    token0, token1, _fee = log.indexed(3)
    _spacing, pool = words(log.data, 2)
    return Creation(address_word(pool), (address_word(token0), address_word(token1)))


POOL_CREATED = topic("PoolCreated(address,address,uint24,int24,address)")

KIND = PoolKind(
    swap_topics=(topic("Swap(address,address,int256,int256,uint160,uint128,int24)"),),
    decode=decode,
    creations={POOL_CREATED: created},
    functions={"slot0()": 7, "lmPool()": 0},
)
