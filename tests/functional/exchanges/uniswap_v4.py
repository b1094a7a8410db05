"""The real contracts of Uniswap V4 on a private chain: the PoolManager, V4Router, and hooks."""

from __future__ import annotations

import math

from tests.functional.anvil import words
from tests.functional.exchanges.exchange import MAX_TICK, NATIVE, SUPPLY, TestPool, Tokens, in_order, path
from tests.functional.exchanges.uniswap_v3 import root_of_price

FEE, SPACING = 3000, 60
DYNAMIC_FEE = 0x800000
"""This value in place of a fee means that the pool's hooks set the fee."""
RANGE = MAX_TICK // SPACING * SPACING
NO_HOOKS = NATIVE
BEFORE_SWAP, AFTER_SWAP, AFTER_INITIALIZE = 1 << 7, 1 << 6, 1 << 12
BEFORE_SWAP_RETURNS_DELTA, AFTER_SWAP_RETURNS_DELTA = 1 << 3, 1 << 2
BUDGET = 10**20
"""The amount of native currency sent with a swap that pays in it. The router returns the rest."""
# From Actions.sol.
SWAP_EXACT_IN_SINGLE, SETTLE_ALL, TAKE_ALL = 0x06, 0x0C, 0x0F


class UniswapV4:
    """``pool.key`` is the pool's fee and hooks."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self._chain = tokens.chain
        self.manager = tokens.deploy("PoolManager", tokens.chain.account)
        self._liquidity = tokens.deploy("PoolModifyLiquidityTest", self.manager)
        self._router = tokens.deploy("MockV4Router", self.manager)  # adds an entry point to V4Router
        self.spenders = (self._liquidity, self._router)

    def hooks(self, contract: str, flags: int, *arguments: str) -> str:
        """A hooks contract whose address has these flags."""
        deployed = self._tokens.deploy(contract, *arguments)
        address = f"0x{(int(deployed, 16) >> 14 << 14) | flags:040x}"
        self._chain("anvil_setCode", address, self._chain("eth_getCode", deployed, "latest"))
        return address

    def pool(
        self, name: str, amounts: dict[str, int], *, invert: bool = False, hooks: str = NO_HOOKS, fee: int = FEE
    ) -> TestPool:
        """The liquidity is spread over all prices."""
        (a, amount_a), (b, amount_b) = in_order(amounts)
        key = (a, b, fee, SPACING, hooks)
        initialize = "initialize((address,address,uint24,int24,address),uint160)"
        self._chain.done(self.manager, initialize, *key, root_of_price(amount_a, amount_b))
        id = self._chain("web3_sha3", "0x" + words(*key))
        self._chain.done(
            self._liquidity,
            "modifyLiquidity((address,address,uint24,int24,address),(int24,int24,int256,bytes32),bytes)",
            *key, -RANGE, RANGE, math.isqrt(amount_a * amount_b), 0, b"", value=2 * amount_a if a == NATIVE else 0,
        )  # fmt: skip
        return self._tokens.pool("uniswap-v4", name, f"{self.manager}#{id}", amounts, fee, hooks, invert=invert)

    def swap(self, pool: TestPool, amount: int, *, sell: bool) -> str:
        """Swap, pay one token, and take the other one."""
        fee, hooks = pool.key
        given, taken = path(pool.tokens[not sell], pool)
        actions = bytes((SWAP_EXACT_IN_SINGLE, SETTLE_ALL, TAKE_ALL))
        parameters = words((*pool.tokens, fee, SPACING, hooks, sell, amount, 0, b""))
        encoded = [parameters, words(given, SUPPLY), words(taken, 0)]
        data = words(actions, [bytes.fromhex(each) for each in encoded])
        value = BUDGET if given == NATIVE else 0
        signature = "executeActionsAndSweepExcessETH(bytes)"
        return self._chain.invoke(self._router, signature, bytes.fromhex(data), value=value)
