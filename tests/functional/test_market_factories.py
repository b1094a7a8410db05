"""Pools that are found by their factories, on a real node with the exchanges' own factories and routers."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.functional.evm_packages import FIRST_INSTALL_SECONDS, EvmPackages
from tests.functional.factory_market import REVERTS, USES_UP_GAS, FactoryMarket, abi_string
from tests.functional.ingestor_process import BackfillProcess

pytestmark = [pytest.mark.functional, pytest.mark.timeout(FIRST_INSTALL_SECONDS)]

POOLS = 8


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
    backfill = BackfillProcess(market.api, market.chain.url, (), factories=market.entries(), quotes=market.quotes())
    backfill.configure()
    last = int(market.chain("eth_blockNumber"), 16) - 12
    done = backfill.run("--from-block", "0", "--to-block", f"{last}")
    known = sum(tick["block"]["number"] <= last for tick in market.exchanges.ticks(*market.pools))
    assert f" s: {known} ticks, 0 new, {known} known, 0 refused" in done.stdout, done.stderr


def test_swaps_in_the_block_of_the_creation_of_several_pools_are_read(market: FactoryMarket) -> None:
    with market.chain.one_block():
        made = [market.create_another() for _ in range(6)]
        market.exchanges.swap(made[0], made[0].amounts[1] // 500, sell=False)
    with market.chain.one_block():
        made += [market.create_another() for _ in range(2)]
    market.assert_complete()
    assert {pool.address for pool in made} <= {pool.address for pool in market.pools}


EIGHTEEN = (18).to_bytes(32, "big")
STRANGE_SYMBOLS = (
    (abi_string(b""), ""), (abi_string("🚀🌕".encode()), ""), (abi_string("\u202eCDSU".encode()), "CDSU"),
    (abi_string(b"LONG.SYMBOL." * 1000), "LONG.SYMBOL."), (abi_string(b"USD"), "USD"), (abi_string(b"ETH"), "ETH"),
    (abi_string(b" A-B/C:D\n\"'\\<E>#\x00"), "ABCDE"), (b"MKR".ljust(32, b"\0"), "MKR"), (REVERTS, ""),
    (USES_UP_GAS, ""),
)  # fmt: skip
"""A token's answer to ``symbol()``, and what it becomes in names."""
STRANGE_DECIMALS = (*((number).to_bytes(32, "big") for number in (0, 77, 78)), bytes(64), REVERTS, USES_UP_GAS)


def test_strange_tokens_break_no_symbol(market: FactoryMarket) -> None:
    """A pool with a token that does not say its decimals is not read, and other pools are."""
    strange = [market.any_token(answer, EIGHTEEN, label) for answer, label in STRANGE_SYMBOLS]
    strange += [market.any_token(abi_string(b"D"), decimals, "D") for decimals in STRANGE_DECIMALS]
    for number, token in enumerate(strange):
        market.create(number % 2, token, market.usd if number % 3 else market.coins[0])
    with market.chain.one_block():
        market.create(0, strange[1], strange[2])
        market.create(1, strange[1], strange[2])
    market.trade(3)
    market.assert_complete()
    assert market.ingestor.run("pools").stdout.count("does not say its decimals") == 4
    names = [pool.name for pool in market.pools]
    assert {"CDSU-USD", "USD-USD", "ETH-USD"} <= set(names)
    assert len(set(names)) == len(names)
