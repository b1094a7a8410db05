"""A market whose pools are found by their factories, and what these pools must be called.

Names, orientation and ticks are worked out from the receipts of the chain as it is at the end, without any code of the
product.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from tests.functional.chain_market import Market, indexed
from tests.functional.evm_packages import EvmPackages
from tests.functional.exchanges.exchange import NATIVE, TestPool
from tests.functional.ingestor_process import IngestorProcess
from tests.functional.market_process import Client
from tests.functional.serving import until

CREATIONS = {
    "PairCreated(address,address,address,uint256)": ("uniswap-v2", 0),
    "PoolCreated(address,address,uint24,int24,address)": ("", 1),
    "PairCreated(address,address,bool,address,uint256)": ("solidly", 1),
    "PoolCreated(address,address,bool,address,uint256)": ("solidly", 0),
    "Initialize(bytes32,address,address,uint24,int24,address,uint160,int24)": ("uniswap-v4", 0),
}
"""The events of factories: the kind of the pool (empty: that of the factory) and the word of the data that has its
address."""
REVERTS, USES_UP_GAS = b"", b"\0"
"""With these answers a token reverts a call, or uses up its gas; see ``contracts/AnyToken.sol``."""
NO_DECIMALS = -1
MAX_DECIMALS = 77
MAX_DIGITS = 30
"""Digits of an amount in a pool, in the smallest unit of the token. A pool of Uniswap V2 holds less than 2**112."""
KINDS = 7
"""The number of ways to create a pool."""


class Announced(NamedTuple):
    """A pool, and the time of the block of its creation in milliseconds."""

    pool: TestPool
    time: int


class FactoryMarket(Market):
    """The pools of :class:`Market` exist already when the ingestor starts, and no pool is listed. ``create`` makes
    more."""

    has_idle_pools = True

    def __init__(self, packages: EvmPackages, state_dir: Path, *, full: bool = False) -> None:
        super().__init__(packages, state_dir, full=full)
        on = self.exchanges
        self.factories = {
            on.v2.factory: "uniswap-v2", on.v3.factory: "uniswap-v3", on.pancakeswap.factory: "pancakeswap-v3",
            on.aerodrome.factory: "solidly", on.solidly.factory: "solidly", on.v4.manager: "uniswap-v4",
        }  # fmt: skip
        self._creations = {self.chain("web3_sha3", "0x" + text.encode().hex()): text for text in CREATIONS}
        self.labels = dict.fromkeys(on.tokens.decimals, "TT") | {NATIVE: "ETH", on.tokens.weth: "WETH"}
        """What a token's symbol becomes in names; empty if none of its characters is allowed."""
        self.usd = self.token("USD", 6)
        self.weth = on.tokens.weth
        on.tokens.decimals[self.weth] = 18
        self.chain.done(self.weth, "deposit()", value=10**26)
        on.allow(self.weth)
        self.coins = [self.token(f"COIN{number}", 18 - number) for number in range(6)]
        pairs = itertools.combinations([self.usd, *self.coins], 2)
        self._ways = [(kind, *pair) for pair in pairs for kind in range(KINDS)]
        self.random.shuffle(self._ways)
        self._made: dict[tuple[int, str, str], str] = {}
        """The address of each pool, by the way in which it was made."""
        self.native_pool = on.v2.pool("", {self.weth: 10**22, self.usd: 3 * 10**13})
        self.traded.append(self.native_pool)
        self.ingestor = IngestorProcess(self.api, self.chain.url, (), factories=self.entries(), quotes=self.quotes())

    def token(self, label: str, decimals: int) -> str:
        return self.any_token(abi_string(label.encode()), decimals.to_bytes(32, "big"), label)

    def any_token(self, symbol: bytes, decimals: bytes, label: str) -> str:
        """A token with these answers to ``symbol()`` and ``decimals()``."""
        address = self.exchanges.any_token(symbol, decimals)
        self.labels[address] = label
        if len(decimals) != 32 or self.exchanges.tokens.decimals[address] > MAX_DECIMALS:
            self.exchanges.tokens.decimals[address] = NO_DECIMALS
        return address

    def entries(self) -> list[dict[str, Any]]:
        return [{"kind": kind, "address": address, "start_block": 0} for address, kind in self.factories.items()]

    def quotes(self) -> dict[str, list[str]]:
        return {"usd": [self.usd], "native": [self.native_pool.address]}

    # -- what happens on the chain -----------------------------------------------------------------------------------

    def trade(self, blocks: int) -> None:
        """Like the method of :class:`Market`. Sometimes a new pool is created, or a pool that a reorganisation has
        removed."""
        for _ in range(blocks):
            super().trade(1)
            if self.random.random() < 0.1:
                self.create_again_or_another()

    def create_another(self) -> TestPool:
        """A pool of any exchange."""
        way = self._ways.pop()
        self._made[way] = self.create(*way).address
        return self.traded[-1]

    def create_again_or_another(self) -> None:
        there = {each.pool.address for each in self.announced()}
        for way in [way for way, address in self._made.items() if address not in there]:
            del self._made[way]
            self._ways.append(way)
        if self._ways:
            self.create_another()

    def create(self, kind: int, a: str, b: str) -> TestPool:
        """A pool of the exchange with this number, with 10**6 of each token, or as much as a pool can hold. It has a
        swap in the next block."""
        on = self.exchanges
        makers: list[Callable[..., TestPool]] = [
            on.v2.pool, on.v3.pool, on.pancakeswap.pool, on.aerodrome.pool, on.solidly.pool, on.v4.pool,
            partial(on.aerodrome.pool, stable=True),
        ]  # fmt: skip
        decimals = on.tokens.decimals
        amounts = {token: 10 ** min(6 + max(0, decimals[token]), MAX_DIGITS) for token in (a, b)}
        pool = makers[kind]("", amounts)
        self.traded.append(pool)
        on.swap(pool, pool.amounts[0] // 1000, sell=True)
        return pool

    # -- what must be known ------------------------------------------------------------------------------------------

    def announced(self) -> list[Announced]:
        """The pools that the factories have announced and that can be read, in the order of their creation."""
        found: list[Announced] = []
        taken: set[str] = set()
        for block, receipts in self.chain.blocks():
            for log in (log for receipt in receipts for log in receipt["logs"]):
                if log["address"] not in self.factories or log["topics"][0] not in self._creations:
                    continue
                pool = self._named(log, taken)
                if pool is not None:
                    taken.add(pool.name)
                    found.append(Announced(pool, int(block["timestamp"], 16) * 1000))
        return found

    def _named(self, log: dict[str, Any], taken: set[str]) -> TestPool | None:
        kind, word = CREATIONS[self._creations[log["topics"][0]]]
        topics = [topic[-40:] for topic in log["topics"][1:]]
        a, b = (f"0x{topic}" for topic in (topics[1:3] if kind == "uniswap-v4" else topics[:2]))
        address = "0x" + log["data"][2 + 64 * word :][24:64]
        if kind == "uniswap-v4":
            address = f"{log['address']}#{log['topics'][1]}"
        decimals = (self.exchanges.tokens.decimals[a], self.exchanges.tokens.decimals[b])
        if NO_DECIMALS in decimals:
            return None
        preferred = [token for token in (b, a) if token == self.usd] + [
            token for token in (b, a) if token in (self.weth, NATIVE)
        ]
        quote = (preferred or [b])[0]
        base = a if quote == b else b
        name = "-".join(self.labels[token] or token[-6:] for token in (base, quote))
        if name in taken:
            name = f"{name}-{address[-6:]}"
        made = kind or self.factories[log["address"]]
        return TestPool(name, address, made, (a, b), decimals, (0, 0), invert=quote == a)

    def assert_complete(self, seconds: float = 60) -> None:
        """Also check that no other symbol has a tick."""
        self.pools = tuple(each.pool for each in self.announced())
        wanted = {tick["symbol"] for tick in self.exchanges.ticks(*self.pools)}
        with closing(Client(self.api.port, self.api.token("read"))) as read:

            def symbols() -> set[str]:
                return {each["symbol"] for each in read("GET", "/v1/symbols")[1]["symbols"]}

            with suppress(AssertionError):
                until(lambda: symbols() == wanted, seconds)
            assert symbols() == wanted, symbols() ^ wanted
        super().assert_complete(seconds)

    def assert_covered(self, seconds: float = 30) -> None:
        """Each pool is recorded as indexed from the block of its creation, or an earlier one, to the newest block."""
        end = int(self.chain("eth_getBlockByNumber", "latest", False)["timestamp"], 16) * 1000 + 1000
        with closing(Client(self.api.port, self.api.token("read"))) as read:
            for each in self.announced():

                def is_covered(symbol: str = f"TEST:{each.pool.name}", time: int = each.time) -> bool:
                    found = indexed(read, symbol)
                    return len(found) == 1 and found[0][0] <= time and found[0][1] == end

                until(is_covered, seconds)


def abi_string(text: bytes) -> bytes:
    """The ABI encoding of a string that a function returns."""
    return (32).to_bytes(32, "big") + len(text).to_bytes(32, "big") + text + bytes(-len(text) % 32)
