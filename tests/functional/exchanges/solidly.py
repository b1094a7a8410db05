"""Solidly on a private chain. V2 uses the real contracts of Aerodrome, a fork of Velodrome V2. V1 uses test contracts
that emit its published events (``contracts/SolidlyV1.sol``)."""

from __future__ import annotations

from tests.functional.exchanges.exchange import DEADLINE, TestPool, Tokens, in_order, last_word, path


class Aerodrome:
    """``pool.key`` says whether the pool is stable."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self._chain = tokens.chain
        anyone = tokens.chain.other
        self.factory = tokens.deploy("PoolFactory", tokens.deploy("Pool"))
        registry = tokens.deploy("FactoryRegistry", self.factory, anyone, anyone, anyone)
        self._router = tokens.deploy("Router", anyone, registry, self.factory, anyone, tokens.weth)
        self.spenders = (self._router,)

    def pool(self, name: str, amounts: dict[str, int], *, invert: bool = False, stable: bool = False) -> TestPool:
        """A stable pool needs the same amount of both tokens, in whole tokens."""
        (a, amount_a), (b, amount_b) = amounts.items()
        signature = "addLiquidity(address,address,bool,uint256,uint256,uint256,uint256,address,uint256)"
        self._chain.done(self._router, signature, a, b, stable, amount_a, amount_b, 0, 0, self._chain.account, DEADLINE)
        address = last_word(self._chain.ask(self.factory, "getPool(address,address,bool)", a, b, stable))
        return self._tokens.pool("solidly", name, address, amounts, stable, invert=invert)

    def swap(self, pool: TestPool, amount: int, *, sell: bool) -> str:
        return self.route(amount, pool.tokens[not sell], pool)

    def route(self, amount: int, token: str, *pools: TestPool) -> str:
        tokens = path(token, *pools)
        routes = [
            word
            for pool, given, taken in zip(pools, tokens[:-1], tokens[1:], strict=True)
            for word in (given, taken, pool.key[0], self.factory)
        ]
        signature = "swapExactTokensForTokens(uint256,uint256,(address,address,bool,address)[],address,uint256)"
        return self._chain.invoke(
            self._router, signature, amount, 0, (len(pools), *routes), self._chain.account, DEADLINE
        )


class SolidlyV1:
    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self._chain = tokens.chain
        self.factory = tokens.deploy("SolidlyV1Factory")

    def pool(self, name: str, amounts: dict[str, int], *, invert: bool = False) -> TestPool:
        (a, amount_a), (b, amount_b) = in_order(amounts)
        self._chain.done(self.factory, "createPair(address,address,bool)", a, b, False)
        address = last_word(self._chain.ask(self.factory, "getPair(address,address,bool)", a, b, False))
        for token in (a, b):
            self._tokens.allow(token, address)
        self._chain.done(address, "mint(uint256,uint256)", amount_a, amount_b)
        return self._tokens.pool("solidly", name, address, amounts, invert=invert)

    def swap(self, pool: TestPool, amount: int, *, sell: bool) -> str:
        return self._chain.invoke(pool.address, "swap(bool,uint256)", sell, amount)
