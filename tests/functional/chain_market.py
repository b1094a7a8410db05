"""A real chain with pools of every kind, the API, the ingestor between them, and what they must have stored."""

from __future__ import annotations

import json
import random
import re
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from marketdata.tick import parse_tick
from tests.functional.anvil import Anvil
from tests.functional.evm_packages import EvmPackages
from tests.functional.exchanges.exchange import NATIVE, TestPool
from tests.functional.exchanges.exchanges import Exchanges
from tests.functional.exchanges.uniswap_v4 import AFTER_INITIALIZE, BEFORE_SWAP, DYNAMIC_FEE
from tests.functional.ingestor_process import IngestorProcess
from tests.functional.market_process import ApiProcess, Client
from tests.functional.serving import until
from tests.marketdata.store import brute_force

INTERVALS = ("1m", "15m", "1h")


class Market:
    """A chain with pools, and the API that their ticks go into. Prices are from about 1e-18 to 1e18."""

    has_idle_pools = False
    """Whether there may be pools without a swap."""

    def __init__(self, packages: EvmPackages, state_dir: Path, *, durable: bool = False, full: bool = False) -> None:
        """``durable`` as of :class:`ApiProcess`. With ``full`` there are pools of every variant of a kind."""
        # With the last argument, the chain reports all blocks but the newest four as final.
        self.chain = Anvil(packages, "--state", str(state_dir / "chain.json"), "--slots-in-an-epoch", "2")
        self.api = ApiProcess(state_dir, durable=durable)
        self.exchanges = exchanges = Exchanges(self.chain, packages)
        six, eight, coin, other = (exchanges.token(decimals) for decimals in (6, 8, 18, 18))
        self.route = (
            exchanges.v2.pool("COIN-SIX", {coin: 10**24, six: 2500 * 10**12}),
            exchanges.v2.pool("OTHER-COIN", {other: 10**33, coin: 10**15}),
        )
        self.pools = (
            *self.route,
            exchanges.v3.pool("EIGHT-COIN", {eight: 10**16, coin: 3 * 10**24}, invert=True),
            exchanges.v3.pool("SIX-OTHER", {six: 10**8, other: 10**38}, invert=True),
            exchanges.pancakeswap.pool("SIX-EIGHT", {six: 10**12, eight: 10**14}),
            exchanges.aerodrome.pool("SIX-EIGHT-STABLE", {six: 10**12, eight: 10**14}, stable=True),
            exchanges.v4.pool("ETH-SIX", {NATIVE: 10**21, six: 2500 * 10**9}),
            *(self._more_pools(six, coin, other) if full else ()),
        )
        self._six = six
        self.traded = list(self.pools)
        for pool in self.pools:
            exchanges.swap(pool, pool.amounts[0] // 1000, sell=True)
        self.chain.mine()
        self.random = random.Random(7)
        self.ingestor = IngestorProcess(self.api, self.chain.url, self.pools)

    def _more_pools(self, six: str, coin: str, other: str) -> Iterator[TestPool]:
        exchanges = self.exchanges
        yield exchanges.aerodrome.pool("COIN-OTHER", {coin: 10**24, other: 10**27}, invert=True)
        yield exchanges.solidly.pool("COIN-SIX-V1", {coin: 10**24, six: 2500 * 10**12})
        yield exchanges.v4.pool("COIN-OTHER-V4", {coin: 10**24, other: 10**27})
        hooks = exchanges.v4.hooks("DynamicFeesTestHook", AFTER_INITIALIZE | BEFORE_SWAP)
        self.chain.done(hooks, "setManager(address)", exchanges.v4.manager)
        self.chain.done(hooks, "setFee(uint24)", 100_000)
        yield exchanges.v4.pool("ETH-COIN", {NATIVE: 10**21, coin: 10**24}, invert=True, hooks=hooks, fee=DYNAMIC_FEE)

    def close(self) -> None:
        self.ingestor.stop()
        self.api.stop()
        self.chain.close()

    def trade(self, blocks: int) -> None:
        """Mine this number of blocks with one to four swaps each. About one swap in ten goes through two pools at
        once."""
        for _ in range(blocks):
            for _ in range(self.random.randint(1, 4)):
                if self.random.random() < 0.1:
                    self.exchanges.v2.route(self.random.randint(10**3, 10**5), self._six, *self.route)
                else:
                    pool, sell = self.random.choice(self.traded), self.random.random() < 0.5
                    amount = pool.amounts[0 if sell else 1]
                    self.exchanges.swap(pool, self.random.randint(amount // 10**4, amount // 100), sell=sell)
            self.chain.mine()

    def assert_complete(self, seconds: float = 60) -> None:
        """The stored ticks and candles are exactly those that the receipts of the chain give."""
        expected: dict[str, list[dict[str, Any]]] = {f"TEST:{pool.name}": [] for pool in self.pools}
        for tick in self.exchanges.ticks(*self.pools):
            expected[tick["symbol"]].append(tick)
        assert self.has_idle_pools or all(expected.values()), "every pool should have had a swap"
        with closing(Client(self.api.port, self.api.token("read"))) as read:
            with suppress(AssertionError):
                until(lambda: {symbol: stored_ticks(read, symbol) for symbol in expected} == expected, seconds)
            for symbol, wanted in expected.items():
                assert stored_ticks(read, symbol) == wanted, self.ingestor.said()[-3000:]
                parsed = [parse_tick(each) for each in wanted]
                for interval in INTERVALS:
                    made = [
                        json.loads(f"{brute_force.json_prefix(each)}}}")
                        for each in brute_force.candles(parsed, interval)
                    ]
                    assert stored_candles(read, symbol, interval) == made

    def assert_covered(self, seconds: float = 30) -> None:
        """Each pool is recorded as indexed from the first block to the newest one, and for no time after it."""
        first, newest = (self.chain("eth_getBlockByNumber", each, False) for each in ("0x0", "latest"))
        expected = [int(first["timestamp"], 16) * 1000, int(newest["timestamp"], 16) * 1000 + 1000]
        with closing(Client(self.api.port, self.api.token("read"))) as read:
            for pool in self.pools:
                with suppress(AssertionError):
                    until(lambda pool=pool: indexed(read, f"TEST:{pool.name}") == [expected], seconds)
                assert indexed(read, f"TEST:{pool.name}") == [expected]
            lags = re.findall(r'backfill_lag_seconds{symbol="TEST:.*"} (.*)', read("GET", "/metrics")[1].decode())
        assert len(lags) == len(self.pools)
        assert all(abs(time.time() - float(lag) - expected[1] / 1000) < 60 for lag in lags)


M = TypeVar("M", bound=Market)


@contextmanager
def running(kind: Callable[[EvmPackages, Path], M], packages: EvmPackages) -> Iterator[M]:
    """A market in a folder of its own, with some blocks and a running API. The ingestor is not started."""
    with tempfile.TemporaryDirectory(prefix="market-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        found = kind(packages, Path(folder))
        found.trade(5)
        found.api.start()
        yield found
        found.close()


def kill_in_turn(market: Market, count: int) -> None:
    """Kill the ingestor, the database and the API in turn, at random moments, while pools are traded. Nothing is lost,
    and nothing is stored twice."""
    kills = (market.ingestor.kill, market.api.kill_database, market.api.kill)
    for number in range(count):
        kill, port = kills[number % len(kills)], market.api.port
        instant = threading.Timer(market.random.uniform(0, 0.3), kill)
        instant.start()
        market.trade(market.random.randint(5, 15))
        instant.join()
        if market.random.random() < 0.3:
            market.chain("anvil_reorg", market.random.randint(1, 3), [])
        market.trade(2)
        if kill == market.api.kill:
            market.api.start(port)
        elif kill == market.ingestor.kill:
            market.ingestor.start()
            if number % 9 == 0:  # at once, although the one that was killed held the lease
                market.assert_complete()
    market.trade(5)
    market.assert_complete(90)
    done = market.ingestor.run("dead-letters", "list")
    assert (done.returncode, done.stdout) == (0, "0 dead letters\n")
    assert market.ingestor.stop() == 0
    market.assert_covered()


def stored_ticks(read: Client, symbol: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    cursor = ""
    while True:
        status, answer = read("GET", f"/v1/ticks?symbol={symbol}&limit=10000&startTime=1600000000000{cursor}")
        if status != 200:
            return []
        found += answer["ticks"]
        if answer["next_cursor"] is None:
            return found
        cursor = f"&cursor={answer['next_cursor']}"


def indexed(read: Client, symbol: str) -> list[list[int]]:
    """The times that were indexed, with trades or without."""
    found: list[list[int]] = []
    status, answer = read("GET", f"/v1/coverage?symbol={symbol}")
    for each in answer["ranges"] if status == 200 else ():
        if each["state"] == "failed":
            continue
        if found and found[-1][1] == each["from"]:
            found[-1][1] = each["to"]
        else:
            found.append([each["from"], each["to"]])
    return found


def stored_candles(read: Client, symbol: str, interval: str) -> list[dict[str, Any]]:
    """The stored candles, without the members that depend on the time of the request."""
    path = f"/v1/chart?symbol={symbol}&interval={interval}&limit=10000&startTime=1600000000000"
    status, answer = read("GET", path)
    if status == 404:
        return []
    assert status == 200
    assert not answer["more"]
    return [
        {name: value for name, value in row.items() if name not in ("closed", "finalized")} for row in answer["candles"]
    ]
