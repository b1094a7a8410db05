"""The real contracts of Uniswap V4 on a private chain: the PoolManager, V4Router, and hooks."""

from __future__ import annotations

import math
from typing import Any

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
SWAP_EXACT_IN_SINGLE, SWAP_EXACT_IN, SWAP_EXACT_OUT_SINGLE, SETTLE_ALL, TAKE_ALL = 0x06, 0x07, 0x08, 0x0C, 0x0F


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
        return self._single(SWAP_EXACT_IN_SINGLE, pool, sell, amount, 0)

    def buy(self, pool: TestPool, amount: int, *, sell: bool) -> str:
        return self._single(SWAP_EXACT_OUT_SINGLE, pool, sell, amount, (1 << 128) - 1)

    def route(self, amount: int, token: str, *pools: TestPool) -> str:
        tokens = path(token, *pools)
        keys = [
            (taken, fee, SPACING, hooks, b"")
            for taken, (fee, hooks) in zip(tokens[1:], [pool.key for pool in pools], strict=True)
        ]
        return self._execute(SWAP_EXACT_IN, (token, keys, amount, 0), tokens)

    def _single(self, action: int, pool: TestPool, sell: bool, amount: int, limit: int) -> str:
        fee, hooks = pool.key
        parameters = (*pool.tokens, fee, SPACING, hooks, sell, amount, limit, b"")
        return self._execute(action, parameters, path(pool.tokens[not sell], pool))

    def _execute(self, action: int, parameters: tuple[Any, ...], tokens: list[str]) -> str:
        """Swap, pay the first token, and take the last one."""
        actions = bytes((action, SETTLE_ALL, TAKE_ALL))
        encoded = [words(parameters), words(tokens[0], SUPPLY), words(tokens[-1], 0)]
        data = words(actions, [bytes.fromhex(each) for each in encoded])
        value = BUDGET if tokens[0] == NATIVE else 0
        signature = "executeActionsAndSweepExcessETH(bytes)"
        return self._chain.invoke(self._router, signature, bytes.fromhex(data), value=value)
