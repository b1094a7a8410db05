"""Uniswap V3 and pools with its event: ``Swap`` of ``IUniswapV3PoolEvents.sol``."""

from __future__ import annotations

from marketdata.source.evm import signed, topic, words
from marketdata.source.trade import Deltas

TOPIC = topic("Swap(address,address,int256,int256,uint160,uint128,int24)")
STATE = "slot0()"
STATE_WORDS = 7

_EXACT_ENOUGH = 1_000_000
"""Amounts below this many smallest units are changed too much by their rounding to be compared."""
_MAX_FEE = 10
"""Percent. The factory enables fees of up to 1 %; forks have higher ones."""


def decode(data: bytes) -> Deltas:
    """The amounts decide; ``sqrtPriceX96``, the root of the price after the swap, must not contradict them.

    A swap moves the price towards its end, so who sells token0 gets no less than the price at the end, but for the fee,
    and who buys it pays no more. (What the price was before is not in the event.)
    """
    amount0, amount1, root, _liquidity, _tick = words(data, 5)
    deltas = Deltas(signed(amount0), signed(amount1))
    given, taken = abs(deltas.token1), abs(deltas.token0)
    if root >> 160:
        raise ValueError("has a price of more than 160 bits")
    if deltas.token0 * deltas.token1 < 0 and min(given, taken) >= _EXACT_ENOUGH:
        paid, at_end = given << 192, taken * root * root
        kept = 100 - _MAX_FEE
        fits = paid * 100 >= at_end * kept if deltas.token0 > 0 else paid * kept <= at_end * 100
        if not fits:
            raise ValueError("has amounts that contradict its sqrtPriceX96")
    return deltas
