"""The real contracts of Uniswap V3 on a private chain."""

from __future__ import annotations

import math

from tests.functional.exchanges.exchange import (
    DEADLINE,
    MAX_TICK,
    TestPool,
    Tokens,
    in_order,
    last_word,
    path,
)  # fmt: skip

FEE, SPACING = 3000, 60
RANGE = MAX_TICK // SPACING * SPACING


class UniswapV3:
    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self._chain = tokens.chain
        self.factory = tokens.deploy("UniswapV3Factory")
        self._router = tokens.deploy("SwapRouter", self.factory, tokens.weth)
        self._positions = tokens.deploy("NonfungiblePositionManager", self.factory, tokens.weth, tokens.chain.account)
        self.spenders = (self._router, self._positions)

    def pool(self, name: str, amounts: dict[str, int], *, invert: bool = False) -> TestPool:
        """The liquidity is spread over all prices."""
        (a, amount_a), (b, amount_b) = in_order(amounts)
        root = root_of_price(amount_a, amount_b)
        signature = "createAndInitializePoolIfNecessary(address,address,uint24,uint160)"
        self._chain.done(self._positions, signature, a, b, FEE, root)
        self._chain.done(
            self._positions,
            "mint((address,address,uint24,int24,int24,uint256,uint256,uint256,uint256,address,uint256))",
            a, b, FEE, -RANGE, RANGE, amount_a, amount_b, 0, 0, self._chain.account, DEADLINE,
        )  # fmt: skip
        address = last_word(self._chain.ask(self.factory, "getPool(address,address,uint24)", a, b, FEE))
        return self._tokens.pool("uniswap-v3", name, address, amounts, invert=invert)

    def swap(self, pool: TestPool, amount: int, *, sell: bool) -> str:
        given, taken = path(pool.tokens[not sell], pool)
        signature = "exactInputSingle((address,address,uint24,address,uint256,uint256,uint256,uint160))"
        return self._chain.invoke(
            self._router, signature, given, taken, FEE, self._chain.account, DEADLINE, amount, 0, 0
        )


def root_of_price(amount0: int, amount1: int) -> int:
    """The ``sqrtPriceX96`` of a pool with these amounts."""
    return math.isqrt((amount1 << 192) // amount0)
