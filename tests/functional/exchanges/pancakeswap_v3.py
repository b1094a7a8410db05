"""The real factory and pools of PancakeSwap V3 on a private chain. The package has neither the deployer of pools nor a
router; test contracts replace both (``contracts/PancakeV3.sol``)."""

from __future__ import annotations

import math

from tests.functional.exchanges.exchange import MAX_TICK, TestPool, Tokens, in_order, last_word
from tests.functional.exchanges.uniswap_v3 import root_of_price

FEE, SPACING = 2500, 50
RANGE = MAX_TICK // SPACING * SPACING


class PancakeSwapV3:
    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self._chain = tokens.chain
        deployer = tokens.deploy("PancakeDeployer", tokens.deploy_data("PancakeV3Pool"))
        self.factory = tokens.deploy("PancakeV3Factory", deployer)
        self._trader = tokens.deploy("PancakeTrader")
        self.spenders = (self._trader,)

    def pool(self, name: str, amounts: dict[str, int], *, invert: bool = False) -> TestPool:
        """The liquidity is spread over all prices."""
        (a, amount_a), (b, amount_b) = in_order(amounts)
        self._chain.done(self.factory, "createPool(address,address,uint24)", a, b, FEE)
        address = last_word(self._chain.ask(self.factory, "getPool(address,address,uint24)", a, b, FEE))
        root, liquidity = root_of_price(amount_a, amount_b), math.isqrt(amount_a * amount_b)
        signature = "mint(address,uint160,int24,int24,uint128)"
        self._chain.done(self._trader, signature, address, root, -RANGE, RANGE, liquidity)
        return self._tokens.pool("pancakeswap-v3", name, address, amounts, invert=invert)

    def swap(self, pool: TestPool, amount: int, *, sell: bool) -> str:
        return self._chain.invoke(self._trader, "swap(address,bool,int256)", pool.address, sell, amount)
