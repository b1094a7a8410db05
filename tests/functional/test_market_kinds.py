"""Each kind of pools on a real node, with the exchanges' own contracts: a tick is the change of the trader's balances.

The contracts of Solidly V1 are the test's own, because no package has them. They emit its published events. Also the
deployer and the router of PancakeSwap V3 are the test's own; its factory and pools are real.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import closing
from itertools import product
from typing import Any

import pytest

from marketdata.source import swaps
from marketdata.source.log_filter import swap_filter
from marketdata.source.pools import KINDS
from marketdata.source.pools.pool import Pool, PoolIndex
from marketdata.source.provider import RpcProvider
from marketdata.source.rpc import Rpc
from marketdata.source.rpc_file import Endpoint
from tests.functional.anvil import CHAIN_ID, Anvil
from tests.functional.evm_packages import FIRST_INSTALL_SECONDS, EvmPackages
from tests.functional.exchanges.exchange import NATIVE, ExactExchange, RoutingExchange, TestPool
from tests.functional.exchanges.exchanges import Exchanges, trade

pytestmark = [pytest.mark.functional, pytest.mark.timeout(FIRST_INSTALL_SECONDS)]


class Stage:
    """A chain with all exchanges and pools of every kind, and a provider that reads it."""

    def __init__(self, packages: EvmPackages) -> None:
        self.chain = Anvil(packages)
        self.exchanges = Exchanges(self.chain, packages)
        self.provider = RpcProvider(Rpc(Endpoint(self.chain.url, {}, 100_000), stopping=threading.Event()), CHAIN_ID)
        self.six, self.coin, self.other = (self.exchanges.token(decimals) for decimals in (6, 18, 18))
        six_coin, coin_other = {self.six: 2500 * 10**12, self.coin: 10**24}, {self.coin: 10**24, self.other: 3 * 10**25}
        exchanges = self.exchanges
        self.pools = {
            pool.name: pool
            for pool in (
                exchanges.v2.pool("V2", six_coin),
                exchanges.v2.pool("V2-NEXT", coin_other),
                exchanges.v3.pool("V3", six_coin, invert=True),
                exchanges.v3.pool("V3-NEXT", coin_other),
                exchanges.pancakeswap.pool("PANCAKE", six_coin),
                exchanges.pancakeswap.pool("PANCAKE-NEXT", coin_other, invert=True),
                exchanges.aerodrome.pool("VOLATILE", six_coin),
                exchanges.aerodrome.pool("STABLE", {self.coin: 10**24, self.other: 10**24}, stable=True),
                exchanges.solidly.pool("SOLIDLY-V1", six_coin),
                exchanges.v4.pool("V4", six_coin, invert=True),
                exchanges.v4.pool("V4-NEXT", coin_other),
                exchanges.v4.pool("V4-NATIVE", {NATIVE: 10**21, self.six: 2500 * 10**9}),
            )
        }

    def close(self) -> None:
        self.provider.close()
        self.chain.close()

    def run(self, transaction: str) -> dict[str, Any]:
        """Mine a transaction. Returns its receipt."""
        self.chain.mine()
        return self.chain.receipt(transaction)

    def ticks(self, receipt: dict[str, Any], *pools: TestPool) -> list[dict[str, Any]]:
        """The ticks that the product makes of the transaction's block."""
        listed = [product_pool(pool) for pool in pools]
        headers = self.provider.headers([int(receipt["blockNumber"], 16)])
        [logs] = self.provider.logs_of(headers, swap_filter(listed))
        return [json.loads(tick.body) for tick in swaps.ticks(PoolIndex(listed), logs, fail)]


def product_pool(pool: TestPool) -> Pool:
    return Pool(f"TEST:{pool.name}", pool.address, pool.kind, pool.decimals, pool.invert, 0)


def fail(pool: Pool, _log: Any, _reason: str, error: ValueError) -> None:
    pytest.fail(f"{pool.symbol}: {error}")


@pytest.fixture(scope="module")
def stage(evm_packages: EvmPackages) -> Iterator[Stage]:
    with closing(Stage(evm_packages)) as found:
        yield found


POOLS = ("V2", "V3", "PANCAKE", "VOLATILE", "STABLE", "SOLIDLY-V1", "V4", "V4-NATIVE")


def assert_tick_is_the_balance_change(stage: Stage, pool: TestPool, transaction: str) -> dict[str, Any]:
    receipt = stage.run(transaction)
    [tick] = stage.ticks(receipt, pool)
    gained = [stage.exchanges.tokens.spent(receipt, token) for token in pool.tokens]
    assert {name: tick[name] for name in ("price", "size", "side")} == trade(pool, *gained)
    assert tick["tx"] == receipt["transactionHash"]
    return tick


@pytest.mark.parametrize("name", POOLS)
def test_a_swap_is_what_the_trader_paid_and_got(stage: Stage, name: str) -> None:
    pool = stage.pools[name]
    for sell, part in product((True, False), (100, 150, 3000)):
        swapped = stage.exchanges.swap(pool, pool.amounts[not sell] // part, sell=sell)
        tick = assert_tick_is_the_balance_change(stage, pool, swapped)
        assert tick["side"] == ("sell" if sell != pool.invert else "buy")


def test_a_swap_for_an_exact_output_is_what_the_trader_paid_and_got(stage: Stage) -> None:
    exchanges: dict[str, ExactExchange] = {
        "V2": stage.exchanges.v2, "V3": stage.exchanges.v3, "PANCAKE": stage.exchanges.pancakeswap,
        "V4": stage.exchanges.v4, "V4-NATIVE": stage.exchanges.v4,
    }  # fmt: skip
    for (name, exchange), sell in product(exchanges.items(), (True, False)):
        pool = stage.pools[name]
        bought = exchange.buy(pool, pool.amounts[sell] // 1000, sell=sell)
        tick = assert_tick_is_the_balance_change(stage, pool, bought)
        assert tick["side"] == ("sell" if sell != pool.invert else "buy"), name


@pytest.mark.parametrize(
    "names",
    [("V2", "V2-NEXT"), ("V3", "V3-NEXT"), ("PANCAKE", "PANCAKE-NEXT"), ("VOLATILE", "STABLE"),
     ("V4-NATIVE", "V4", "V4-NEXT")],
)  # fmt: skip
def test_the_sums_over_several_hops_are_the_net_of_the_transaction(stage: Stage, names: tuple[str, ...]) -> None:
    exchanges: dict[str, RoutingExchange] = {
        "V2": stage.exchanges.v2, "V3": stage.exchanges.v3, "PANCAKE": stage.exchanges.pancakeswap,
        "VOLATILE": stage.exchanges.aerodrome, "V4-NATIVE": stage.exchanges.v4,
    }  # fmt: skip
    there = [stage.pools[name] for name in names]
    for pools in (there, there[::-1]):
        [first] = set(pools[0].tokens) - set(pools[1].tokens)
        amount = pools[0].amounts[pools[0].tokens.index(first)] // 1000
        receipt = stage.run(exchanges[names[0]].route(amount, first, *pools))
        assert [tick["symbol"] for tick in stage.ticks(receipt, *pools)] == [f"TEST:{pool.name}" for pool in pools]
        [logs] = stage.provider.logs_of(
            stage.provider.headers([int(receipt["blockNumber"], 16)]), swap_filter(map(product_pool, pools))
        )
        sums: dict[str, int] = {}
        for pool, log in zip(pools, logs, strict=True):
            for token, gained in zip(pool.tokens, KINDS[pool.kind].decode(log.data), strict=True):
                sums[token] = sums.get(token, 0) + gained
        assert sums == {token: stage.exchanges.tokens.spent(receipt, token) for token in sums}
        assert sums[first] == amount
        assert sorted(map(bool, sums.values())) == [False] * (len(pools) - 1) + [True, True]
