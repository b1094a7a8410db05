"""Uniswap V4; pure. Events of IPoolManager.sol. One contract, the PoolManager, holds all pools."""

from __future__ import annotations

from marketdata.source.evm import Log, address_word, signed, topic, words
from marketdata.source.pools import uniswap_v3
from marketdata.source.pools.pool import ID_SEPARATOR, Creation, Deltas, PoolKind

_ROUNDING = uniswap_v3.WHOLE // 100
"""What the price check adds to the fee of the swap, because each step of a swap is rounded."""
_CHANGING_FLAGS = {1 << 3: "BEFORE_SWAP_RETURNS_DELTA", 1 << 2: "AFTER_SWAP_RETURNS_DELTA"}
"""Bits of a hook contract's address (Hooks.sol). With one of them, the contract takes or adds tokens in a swap. The
event does not contain them, so its amounts are not what the trader paid and got."""


def decode(data: bytes) -> Deltas:
    """The event's amounts are those of the caller: what it pays is negative. The pool's deltas are the opposite. They
    must not contradict ``sqrtPriceX96`` and the fee of the event."""
    amount0, amount1, root, _liquidity, _tick, fee = words(data, 6)
    if fee > uniswap_v3.WHOLE:
        raise ValueError("has a fee of more than 100 %")
    deltas = Deltas(-_int128(amount0), -_int128(amount1))
    return uniswap_v3.checked(deltas, root, min(fee + _ROUNDING, uniswap_v3.WHOLE))


def _int128(word: int) -> int:
    value = signed(word)
    if not -(1 << 127) <= value < 1 << 127:
        raise ValueError("has an amount of more than 128 bits")
    return value


def _initialized(log: Log) -> Creation:
    _id, currency0, currency1 = log.indexed(3)
    _fee, _spacing, hooks, _root, _tick = words(log.data, 5)
    address_word(hooks)
    changing = [name for flag, name in _CHANGING_FLAGS.items() if hooks & flag]
    return Creation(
        f"{log.address}{ID_SEPARATOR}{log.topics[1]}",
        (address_word(currency0), address_word(currency1)),
        f"its hooks change the amounts of swaps ({', '.join(changing)})" if changing else "",
    )


KIND = PoolKind(
    swap_topics=(topic("Swap(bytes32,address,int128,int128,uint160,uint128,int24,uint24)"),),
    decode=decode,
    creations={topic("Initialize(bytes32,address,address,uint24,int24,address,uint160,int24)"): _initialized},
    functions={"protocolFeeController()": 1},
    is_singleton=True,
)
