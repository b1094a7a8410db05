"""All exchanges on a private chain, and the ticks that must result from their swaps.

The expected ticks are computed from the receipts of the final chain, with fractions, and without any code of the
product.
"""

from __future__ import annotations

from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

from tests.functional.anvil import Anvil
from tests.functional.evm_packages import EvmPackages
from tests.functional.exchanges.exchange import Exchange, TestPool, Tokens
from tests.functional.exchanges.pancakeswap_v3 import PancakeSwapV3
from tests.functional.exchanges.solidly import Aerodrome, SolidlyV1
from tests.functional.exchanges.uniswap_v2 import UniswapV2
from tests.functional.exchanges.uniswap_v3 import UniswapV3
from tests.functional.exchanges.uniswap_v4 import UniswapV4

V2_SWAP = "0xd78ad95fa46c994b6551d0da85fc275fe613ce37657fb8d5e3d130840159d822"
SWAPS = {
    "uniswap-v2": (V2_SWAP,),
    "uniswap-v3": ("0xc42079f94a6350d7e6235f29174924f928cc2ac818eb64fed8004e115fbcca67",),
    "pancakeswap-v3": ("0x19b47279256b2a23a1665c810c8d55a1758940ee09377d4f8d26497a3577dc83",),
    "solidly": (V2_SWAP, "0xb3e2773606abfd36b5bd91394b3a54d1398336c65005baf7bf7a05efeffaf75b"),
    "uniswap-v4": ("0x40e9cecb9f5f1f1c5b9c97dec2917b7ee92e57ba5563708daca94dd84ad7112f",),
}


class Exchanges:
    """The exchanges, and the tokens of the chain's account, which all exchanges may transfer."""

    def __init__(self, chain: Anvil, packages: EvmPackages) -> None:
        self.chain = chain
        self.tokens = Tokens(chain, packages)
        self.v2 = UniswapV2(self.tokens)
        self.v3 = UniswapV3(self.tokens)
        self.pancakeswap = PancakeSwapV3(self.tokens)
        self.aerodrome = Aerodrome(self.tokens)
        self.solidly = SolidlyV1(self.tokens)
        self.v4 = UniswapV4(self.tokens)

        exchanges = (self.v2, self.v3, self.pancakeswap, self.aerodrome, self.v4)
        self._spenders = [spender for each in exchanges for spender in each.spenders]

    def token(self, decimals: int) -> str:
        return self.tokens.create(decimals, *self._spenders)

    def any_token(self, symbol: bytes, decimals: bytes) -> str:
        """A token with these answers to ``symbol()`` and ``decimals()``; see ``contracts/AnyToken.sol``."""
        return self.tokens.create_any(symbol, decimals, *self._spenders)

    def allow(self, token: str) -> None:
        """Allow all exchanges to transfer the account's token."""
        self.tokens.allow(token, *self._spenders)

    def swap(self, pool: TestPool, amount: int, *, sell: bool) -> str:
        """Give ``amount`` of token0 (``sell``) or token1, in the next block. Returns the transaction."""
        exchanges: dict[str, Exchange] = {
            "uniswap-v2": self.v2, "uniswap-v3": self.v3, "pancakeswap-v3": self.pancakeswap,
            "solidly": self.aerodrome if pool.key else self.solidly, "uniswap-v4": self.v4,
        }  # fmt: skip
        return exchanges[pool.kind].swap(pool, amount, sell=sell)

    def ticks(self, *pools: TestPool) -> list[dict[str, Any]]:
        """What ``GET /v1/ticks`` must show of these pools, in the order of the chain. A swap gives no tick if it
        exchanges nothing, or if its price or size rounds to 0 or has more than 30 digits before the point."""
        by_address = {pool.address: pool for pool in pools}
        found = []
        for block, receipts in self.chain.blocks():
            for receipt in receipts:
                for log in receipt["logs"]:
                    id = f"#{log['topics'][1]}" if len(log["topics"]) > 1 else ""
                    pool = by_address.get(log["address"]) or by_address.get(log["address"] + id)
                    if pool is None or log["topics"][0] not in SWAPS[pool.kind]:
                        continue
                    if all(_gained(pool.kind, log["data"])):
                        found.append(_tick(pool, log, int(block["timestamp"], 16)))
        return [tick for tick in found if all(_fits(tick[name]) for name in ("price", "size"))]


def _tick(pool: TestPool, log: dict[str, Any], seconds: int) -> dict[str, Any]:
    number, index = int(log["blockNumber"], 16), int(log["logIndex"], 16)
    return {
        "symbol": f"TEST:{pool.name}",
        "id": f"{log['blockHash']}:{index}",
        "ts": datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.000000Z"),
        "seq": number * 2**20 + index,
        **trade(pool, *_gained(pool.kind, log["data"])),
        "block": {"number": number, "hash": log["blockHash"]},
        "tx": log["transactionHash"],
    }


def _gained(kind: str, data: str) -> tuple[int, int]:
    """The amount of each token that the pool gained."""
    values = [int(data[at : at + 64], 16) for at in range(2, len(data), 64)]
    if kind in ("uniswap-v2", "solidly"):
        return values[0] - values[2], values[1] - values[3]
    first, second = (value - (1 << 256) if value >> 255 else value for value in values[:2])
    return (-first, -second) if kind == "uniswap-v4" else (first, second)


def trade(pool: TestPool, gained0: int, gained1: int) -> dict[str, Any]:
    """Price, size and side of a swap in which the pool gained these amounts."""
    whole = [Fraction(each, 10**decimals) for each, decimals in zip((gained0, gained1), pool.decimals, strict=True)]
    base, quote = whole[::-1] if pool.invert else whole
    return {
        "price": _decimal(abs(quote / base), 36),
        "size": _decimal(abs(base), 60),
        "side": "buy" if base < 0 else "sell",
    }


def _fits(value: str) -> bool:
    return value != "0" and len(value.partition(".")[0]) <= 30


def _decimal(value: Fraction, significant: int) -> str:
    """Round half-even to ``significant`` digits and at most 30 places, as ``round`` does with a fraction."""
    places = 30
    while places and value * 10**places >= 10**significant:
        places -= 1
    text = f"{round(value * 10**places):0{places + 1}d}"
    return f"{text[: len(text) - places]}.{text[len(text) - places :]}".rstrip("0").rstrip(".")
