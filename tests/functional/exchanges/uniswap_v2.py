"""The real contracts of Uniswap V2 on a private chain."""

from __future__ import annotations

from tests.functional.exchanges.exchange import DEADLINE, TestPool, Tokens, last_word, path


class UniswapV2:
    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self._chain = tokens.chain
        self.factory = tokens.deploy("UniswapV2Factory", tokens.chain.account)
        self._router = tokens.deploy("UniswapV2Router02", self.factory, tokens.weth)
        self.spenders = (self._router,)

    def pool(self, name: str, amounts: dict[str, int], *, invert: bool = False) -> TestPool:
        (a, amount_a), (b, amount_b) = amounts.items()
        signature = "addLiquidity(address,address,uint256,uint256,uint256,uint256,address,uint256)"
        self._chain.done(self._router, signature, a, b, amount_a, amount_b, 0, 0, self._chain.account, DEADLINE)
        address = last_word(self._chain.ask(self.factory, "getPair(address,address)", a, b))
        return self._tokens.pool("uniswap-v2", name, address, amounts, invert=invert)

    def swap(self, pool: TestPool, amount: int, *, sell: bool) -> str:
        return self.route(amount, pool.tokens[not sell], pool)

    def route(self, amount: int, token: str, *pools: TestPool) -> str:
        signature = "swapExactTokensForTokens(uint256,uint256,address[],address,uint256)"
        tokens = path(token, *pools)
        return self._chain.invoke(self._router, signature, amount, 0, tokens, self._chain.account, DEADLINE)
