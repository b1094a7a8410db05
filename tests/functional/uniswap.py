"""The real contracts of Uniswap V2 and V3 on a chain of the test's own, and what its swaps must become.

The ticks are worked out from the receipts of the chain as it is at the end, with fractions, and without any code of the
product.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

from tests.functional.anvil import Anvil, EvmPackages, words

FEE = 3000
FULL_RANGE = 887_220
DEADLINE = 1 << 40
SUPPLY = 1 << 200
V2_SWAP = "0xd78ad95fa46c994b6551d0da85fc275fe613ce37657fb8d5e3d130840159d822"
V3_SWAP = "0xc42079f94a6350d7e6235f29174924f928cc2ac818eb64fed8004e115fbcca67"
DECIMALS_OF_ERC20 = "5b60128156"
"""Where the code of the test token of Uniswap V2 has its 18 decimals."""


@dataclass(frozen=True)
class TestPool:
    """A pool and its entry in ``rpc.json``."""

    __test__ = False

    name: str
    address: str
    kind: str
    tokens: tuple[str, str]
    decimals: tuple[int, int]
    amounts: tuple[int, int]
    """At the beginning, in the smallest units."""
    invert: bool

    def entry(self) -> dict[str, Any]:
        return {
            "symbol": self.name, "address": self.address, "kind": self.kind, "decimals": list(self.decimals),
            "invert": self.invert,
        }  # fmt: skip


class Uniswap:
    """Both exchanges on ``chain``; the chain's account holds all tokens."""

    def __init__(self, chain: Anvil, packages: EvmPackages) -> None:
        self.chain = chain
        self._packages = packages
        self.decimals: dict[str, int] = {}
        weth = self._deploy("v2-periphery/build/WETH9.json")
        self._v2_factory = self._deploy("v2-core/build/UniswapV2Factory.json", chain.account)
        self.v2 = self._deploy("v2-periphery/build/UniswapV2Router02.json", self._v2_factory, weth)
        core = "v3-core/artifacts/contracts/UniswapV3Factory.sol/UniswapV3Factory.json"
        periphery = "v3-periphery/artifacts/contracts/{0}.sol/{0}.json"
        self._v3_factory = self._deploy(core)
        self.v3 = self._deploy(periphery.format("SwapRouter"), self._v3_factory, weth)
        manager = periphery.format("NonfungiblePositionManager")
        self._positions = self._deploy(manager, self._v3_factory, weth, chain.account)

    def token(self, decimals: int) -> str:
        code = self._packages.bytecode("v2-periphery/build/ERC20.json")
        assert code.count(DECIMALS_OF_ERC20) == 1
        address = self.chain.deploy(code.replace(DECIMALS_OF_ERC20, f"5b60{decimals:02x}8156") + words(SUPPLY))
        for spender in (self.v2, self.v3, self._positions):
            self.chain.invoke(address, "approve(address,uint256)", spender, (1 << 256) - 1)
        self.chain.mine()
        self.decimals[address] = decimals
        return address

    def v2_pool(self, name: str, amounts: dict[str, int], *, invert: bool = False) -> TestPool:
        """A pool with these amounts of two tokens in their smallest units."""
        (a, amount_a), (b, amount_b) = amounts.items()
        signature = "addLiquidity(address,address,uint256,uint256,uint256,uint256,address,uint256)"
        added = self.chain.invoke(self.v2, signature, a, b, amount_a, amount_b, 0, 0, self.chain.account, DEADLINE)
        self.chain.mine()
        self.chain.receipt(added)
        address = self.chain.ask(self._v2_factory, "getPair(address,address)", a, b)
        return self._pool(name, address, "uniswap-v2", amounts, invert)

    def v3_pool(self, name: str, amounts: dict[str, int], *, invert: bool = False) -> TestPool:
        """A pool with these amounts of two tokens in their smallest units, spread over all prices."""
        (a, amount_a), (b, amount_b) = sorted(amounts.items(), key=lambda each: int(each[0], 16))
        root = math.isqrt((amount_b << 192) // amount_a)
        signature = "createAndInitializePoolIfNecessary(address,address,uint24,uint160)"
        self.chain.invoke(self._positions, signature, a, b, FEE, root)
        self.chain.mine()
        added = self.chain.invoke(
            self._positions,
            "mint((address,address,uint24,int24,int24,uint256,uint256,uint256,uint256,address,uint256))",
            a, b, FEE, -FULL_RANGE, FULL_RANGE, amount_a, amount_b, 0, 0, self.chain.account, DEADLINE,
        )  # fmt: skip
        self.chain.mine()
        self.chain.receipt(added)
        address = self.chain.ask(self._v3_factory, "getPool(address,address,uint24)", a, b, FEE)
        return self._pool(name, address, "uniswap-v3", amounts, invert)

    def swap(self, pool: TestPool, amount: int, *, sell: bool) -> str:
        """Give ``amount`` of token0 (``sell``) or token1, in the next block; the transaction."""
        given, taken = pool.tokens if sell else pool.tokens[::-1]
        if pool.kind == "uniswap-v2":
            return self.route(amount, given, taken)
        signature = "exactInputSingle((address,address,uint24,address,uint256,uint256,uint256,uint160))"
        return self.chain.invoke(self.v3, signature, given, taken, FEE, self.chain.account, DEADLINE, amount, 0, 0)

    def route(self, amount: int, *tokens: str) -> str:
        """Swap along tokens, through the V2 pools between them, in one transaction of the next block."""
        signature = "swapExactTokensForTokens(uint256,uint256,address[],address,uint256)"
        return self.chain.invoke(self.v2, signature, amount, 0, list(tokens), self.chain.account, DEADLINE)

    def ticks(self, *pools: TestPool) -> list[dict[str, Any]]:
        """What ``GET /v1/ticks`` must show of these pools, in the order of the chain."""
        by_address = {pool.address: pool for pool in pools}
        found = []
        for number in range(int(self.chain("eth_blockNumber"), 16) + 1):
            block = self.chain("eth_getBlockByNumber", hex(number), False)
            if not block["transactions"]:
                continue
            for receipt in self.chain("eth_getBlockReceipts", hex(number)):
                for log in receipt["logs"]:
                    pool = by_address.get(log["address"])
                    if pool is not None and log["topics"][0] in (V2_SWAP, V3_SWAP):
                        found.append(_tick(pool, log, int(block["timestamp"], 16)))
        return found

    def _deploy(self, path: str, *arguments: str) -> str:
        return self.chain.deploy(self._packages.bytecode(path) + words(*arguments))

    def _pool(self, name: str, address: str, kind: str, amounts: dict[str, int], invert: bool) -> TestPool:
        a, b = sorted(amounts, key=lambda token: int(token, 16))
        decimals = (self.decimals[a], self.decimals[b])
        return TestPool(name, "0x" + address[-40:], kind, (a, b), decimals, (amounts[a], amounts[b]), invert)


def _tick(pool: TestPool, log: dict[str, Any], seconds: int) -> dict[str, Any]:
    values = [int(log["data"][at : at + 64], 16) for at in range(2, len(log["data"]), 64)]
    if pool.kind == "uniswap-v2":
        gained = [values[0] - values[2], values[1] - values[3]]
    else:
        gained = [value - (1 << 256) if value >> 255 else value for value in values[:2]]
    whole = [Fraction(each, 10**decimals) for each, decimals in zip(gained, pool.decimals, strict=True)]
    base, quote = whole[::-1] if pool.invert else whole
    number, index = int(log["blockNumber"], 16), int(log["logIndex"], 16)
    return {
        "symbol": f"TEST:{pool.name}",
        "id": f"{log['blockHash']}:{index}",
        "ts": datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.000000Z"),
        "seq": number * 2**20 + index,
        "price": _decimal(abs(quote / base), 36),
        "size": _decimal(abs(base), 60),
        "side": "buy" if base < 0 else "sell",
        "block": {"number": number, "hash": log["blockHash"]},
        "tx": log["transactionHash"],
    }


def _decimal(value: Fraction, significant: int) -> str:
    """Round half-even to ``significant`` digits and at most 30 places, as ``round`` does with a fraction."""
    places = 30
    while places and value * 10**places >= 10**significant:
        places -= 1
    text = f"{round(value * 10**places):0{places + 1}d}"
    return f"{text[: len(text) - places]}.{text[len(text) - places :]}".rstrip("0").rstrip(".")
