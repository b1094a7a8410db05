"""Pools that are found by their factories, on a real node with the exchanges' own factories and routers."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from tests.functional.chain_market import stored_ticks
from tests.functional.evm_packages import EvmPackages
from tests.functional.exchanges.exchange import TestPool
from tests.functional.factory_market import KINDS, REVERTS, USES_UP_GAS, FactoryMarket, abi_string
from tests.functional.market_process import Client
from tests.functional.serving import until

pytestmark = [pytest.mark.functional, pytest.mark.full]

POOLS = 30


@pytest.fixture(scope="module")
def running(evm_packages: EvmPackages) -> Iterator[FactoryMarket]:
    with tempfile.TemporaryDirectory(prefix="market-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        found = FactoryMarket(evm_packages, Path(folder))
        for _ in range(4):  # before the first start
            found.create_another()
        found.trade(5)
        found.api.start()
        found.ingestor.settings = {"MARKET_INGESTOR_METRICS_PORT": "0"}
        yield found
        found.close()


@pytest.fixture
def market(running: FactoryMarket) -> Iterator[FactoryMarket]:
    """The tests share a chain: each test continues where the previous one ended, with a running ingestor."""
    running.ingestor.start()
    yield running
    running.ingestor.stop()


def test_pools_that_are_created_while_it_runs_are_found(market: FactoryMarket) -> None:
    before = len(market.announced())
    for _ in range(POOLS):
        market.create_another()
        market.trade(1)
    market.assert_complete()
    assert len(market.pools) >= before + POOLS
    market.assert_covered()


def test_swaps_in_the_block_of_the_creation_of_several_pools_are_read(market: FactoryMarket) -> None:
    with market.chain.one_block():
        made = [market.create_another() for _ in range(10)]
        market.exchanges.swap(made[0], made[0].amounts[1] // 500, sell=False)
    with market.chain.one_block():
        made += [market.create_another() for _ in range(2)]
    market.assert_complete()
    assert {pool.address for pool in made} <= {pool.address for pool in market.pools}


def test_ticks_are_what_the_trader_paid_and_got(market: FactoryMarket) -> None:
    """With several hops, the sums over the pools are the net amounts of the transaction."""
    on, chain = market.exchanges, market.chain
    transactions = []
    for pool in market.traded[-20:]:
        for sell in (True, False):
            transactions.append(on.swap(pool, pool.amounts[not sell] // 1000, sell=sell))
            chain.mine()
    hops = [on.v2.pool("", {a: 10**14, b: 10**14}) for a, b in itertools.pairwise([*market.coins[3:], market.weth])]
    for way in (hops, hops[::-1]):
        [first] = set(way[0].tokens) - set(way[1].tokens)
        transactions.append(on.v2.route(10**12, first, *way))
        chain.mine()
    market.assert_complete()
    pools = {f"TEST:{pool.name}": pool for pool in market.pools}
    gained: dict[str, dict[str, int]] = {transaction: {} for transaction in transactions}
    with closing(Client(market.api.port, market.api.token("read"))) as read:
        for symbol, pool in pools.items():
            for tick in stored_ticks(read, symbol):
                if tick["tx"] in gained:
                    sums = gained[tick["tx"]]
                    for token, amount in zip(pool.tokens, amounts(pool, tick), strict=True):
                        sums[token] = sums.get(token, 0) + amount
    for transaction, sums in gained.items():
        receipt = chain.receipt(transaction)
        assert sums == {token: on.tokens.spent(receipt, token) for token in sums}
        assert sorted(map(bool, sums.values()))[-2:] == [True, True]


def amounts(pool: TestPool, tick: dict[str, Any]) -> tuple[int, int]:
    """What the pool gained of each token, by its price, size and side."""
    base = Fraction(tick["size"]) * (-1 if tick["side"] == "buy" else 1)
    quote = -base * Fraction(tick["price"])
    whole = (quote, base) if pool.invert else (base, quote)
    gained0, gained1 = (round(each * 10**decimals) for each, decimals in zip(whole, pool.decimals, strict=True))
    return gained0, gained1


EIGHTEEN = (18).to_bytes(32, "big")
STRANGE_SYMBOLS = {
    "empty": (abi_string(b""), ""),
    "emoji": (abi_string("🚀🌕".encode()), ""),
    "from right to left": (abi_string("\u202eCDSU".encode()), "CDSU"),
    "10 000 characters": (abi_string(b"LONG.SYMBOL." * 1000), "LONG.SYMBOL."),
    "of another token": (abi_string(b"USD"), "USD"),
    "of the native currency": (abi_string(b"ETH"), "ETH"),
    "with separators": (abi_string(b" A-B/C:D\n\"'\\<E>#\x00"), "ABCDE"),
    "not UTF-8": (abi_string(b"\xff\xfeZ\xc3"), "Z"),
    "cut in a character": (abi_string("ABCé".encode() * 9), "ABCABCABCABC"),
    "of 32 bytes": (b"MKR".ljust(32, b"\0"), "MKR"),
    "with a wrong length": ((32).to_bytes(32, "big") + b"\xff" * 32 + b"LIE".ljust(32, b"\0"), "LIE"),
    "reverts": (REVERTS, ""),
    "takes all gas": (USES_UP_GAS, ""),
}
"""A token's answer to ``symbol()``, and what it becomes in names."""
STRANGE_DECIMALS = {
    "0": (0).to_bytes(32, "big"),
    "77": (77).to_bytes(32, "big"),
    "78": (78).to_bytes(32, "big"),
    "256 bits": b"\xff" * 32,
    "two words": bytes(64),
    "reverts": REVERTS,
    "takes all gas": USES_UP_GAS,
}


def test_strange_tokens_break_no_symbol(market: FactoryMarket) -> None:
    """A pool with a token that does not say its decimals is not read, and other pools are."""
    strange = [market.any_token(answer, EIGHTEEN, label) for answer, label in STRANGE_SYMBOLS.values()]
    strange += [market.any_token(abi_string(b"D"), decimals, "D") for decimals in STRANGE_DECIMALS.values()]
    for number, token in enumerate(strange):
        market.create(number % 2, token, market.usd if number % 3 else market.coins[0])
    with market.chain.one_block():
        market.create(0, strange[1], strange[2])
        market.create(1, strange[1], strange[2])
    market.trade(3)
    market.assert_complete()
    assert market.ingestor.run("pools").stdout.count("does not say its decimals") == 5
    names = [pool.name for pool in market.pools]
    assert {"CDSU-USD", "USD-USD", "ETH-USD", "Z-USD", "LIE-USD"} <= set(names)
    assert len(set(names)) == len(names)


def test_pools_that_a_reorganisation_removes_are_made_again_in_another_order(
    market: FactoryMarket, loops: Callable[..., int]
) -> None:
    """The tokens exchange their addresses, so that the pool at an address has tokens with other decimals."""
    kinds = [("FIRST", 6), ("SECOND", 18), ("SAME", 18), ("SAME", 8)]
    for number in range(loops(quick=2, full=30)):
        before = int(market.chain("eth_blockNumber"), 16)
        for _ in range(2):
            market.random.shuffle(kinds)
            tokens = [market.token(f"{label}{number}", decimals) for label, decimals in kinds]
            for token in market.random.sample(tokens, len(tokens)):
                market.create(market.random.randrange(KINDS), token, market.usd)
            market.trade(market.random.randint(1, 5))
            market.assert_complete()
            market.chain("anvil_reorg", int(market.chain("eth_blockNumber"), 16) - before, [])
        market.trade(1)
        market.assert_complete()
        assert not [pool for pool in market.pools if pool.name.startswith(("FIRST", "SECOND", "SAME"))]
    market.assert_covered()


def has_read(market: FactoryMarket, block: int) -> bool:
    try:
        return market.ingestor.figures()["next_block"] > block
    except OSError:  # the ingestor has just been started
        return False


def test_other_factories_tokens_and_pools_may_be_selected_later(market: FactoryMarket) -> None:
    """When a selection grows, the past of the pools that it adds is read."""
    market.trade(3)
    market.assert_complete()
    first, *others = market.entries()
    usd_only = [each | {"tokens": [market.usd]} for each in others]
    pool = next(each.pool for each in reversed(market.announced()) if each.pool.kind == "uniswap-v3")
    listed = pool.entry()
    del listed["decimals"]  # the decimals are then read from the chain
    for content in (
        {"factories": usd_only},
        {"factories": [each | {"exclude": [market.coins[0], market.weth]} for each in (first, *usd_only)]},
        {"factories": [first, *others], "pools": [listed]},
    ):
        assert market.ingestor.stop() == 0
        market.ingestor.configure(**content)
        market.ingestor.start()
        market.create_another()
        market.trade(3)
        market.chain("anvil_reorg", 2, [])
        market.trade(1)
        head = int(market.chain("eth_blockNumber"), 16)
        until(lambda head=head: has_read(market, head), 30)
    assert market.ingestor.stop() == 0
    market.ingestor.configure(factories=market.entries(), pools=None)
    market.ingestor.start()
    market.assert_complete()
    market.assert_covered()
