"""The ingestor on a real node with exchanges' contracts. The stored ticks are compared with the chain's receipts."""

from __future__ import annotations

import http.client
import json
import os
import random
import re
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from marketdata.ingest.lease import TTL
from marketdata.source.rpc import TIMEOUT
from tests.functional import small_disk
from tests.functional.anvil import CHAIN_ID, Anvil
from tests.functional.chain_market import Market
from tests.functional.citus_market import running_market
from tests.functional.evm_packages import EvmPackages
from tests.functional.exchanges.uniswap_v4 import AFTER_SWAP, AFTER_SWAP_RETURNS_DELTA
from tests.functional.factory_market import FactoryMarket
from tests.functional.ingestor_process import CLOCK_THAT_JUMPS, MARKETDATA
from tests.functional.market_process import SECONDS, Client
from tests.functional.serving import until
from tests.marketdata.citus.cluster import CitusCluster
from tests.marketdata.source.provider import Provider, Raw, error, result

pytestmark = pytest.mark.functional

MAX_BLOCKS = 50
"""The number of blocks that the bad provider answers for in one request."""


@contextmanager
def running(
    kind: type[Market], packages: EvmPackages, full: bool, citus: CitusCluster | None = None
) -> Iterator[Market]:
    """With ``citus`` the version is distributed."""
    with ExitStack() as stack:
        folder = stack.enter_context(
            tempfile.TemporaryDirectory(prefix="market-", dir="/tmp", ignore_cleanup_errors=True)
        )
        settings = stack.enter_context(running_market(citus, Path(folder))).settings if citus is not None else {}
        found = kind(packages, Path(folder), full=full, **settings)
        found.trade(5)  # before the first start
        found.api.start()
        yield found
        found.close()


@pytest.fixture(scope="module")
def listed(evm_packages: EvmPackages, loops: Callable[..., int]) -> Iterator[Market]:
    with running(Market, evm_packages, bool(loops(quick=0, full=1))) as found:
        yield found


@pytest.fixture(scope="module")
def factories(evm_packages: EvmPackages, loops: Callable[..., int]) -> Iterator[Market]:
    with running(FactoryMarket, evm_packages, bool(loops(quick=0, full=1))) as found:
        yield found


@pytest.fixture(scope="module")
def distributed(evm_packages: EvmPackages, citus: CitusCluster) -> Iterator[Market]:
    with running(Market, evm_packages, True, citus) as found:
        yield found


@pytest.fixture
def market(request: pytest.FixtureRequest) -> Iterator[Market]:
    """The tests share a chain: each test continues where the previous one ended, with a running ingestor. Its pools are
    listed in rpc.json, or found by their factories; or they are listed, and the version is distributed."""
    found: Market = request.getfixturevalue(getattr(request, "param", "listed"))
    found.ingestor.start()
    yield found
    found.ingestor.stop()


FOUND, DISTRIBUTED = (pytest.param(name, marks=pytest.mark.full) for name in ("factories", "distributed"))
listed_and_found = pytest.mark.parametrize("market", ["listed", FOUND], indirect=True)
listed_and_distributed = pytest.mark.parametrize("market", ["listed", DISTRIBUTED], indirect=True)
of_each_kind = pytest.mark.parametrize("market", ["listed", FOUND, DISTRIBUTED], indirect=True)


@listed_and_distributed
def test_live_ticks_and_candles_are_those_of_the_receipts(market: Market, loops: Callable[..., int]) -> None:
    for _ in range(loops(quick=3, full=40)):
        market.trade(10)
        market.assert_complete()


def test_check_finds_what_is_wrong(market: Market) -> None:
    done = market.ingestor.run("check")
    assert done.returncode == 0, done.stderr
    assert f"chain {CHAIN_ID}, block " in done.stdout
    assert done.stdout.count("with 18 decimals") == sum(pool.decimals.count(18) for pool in market.pools)
    decimals, address, kind, *rest = [pool.entry() for pool in market.pools]
    decimals["decimals"] = [18, 18]
    address["address"] = "0x" + "ab" * 20
    kind["kind"] = "uniswap-v2"
    [id] = [entry for entry in rest if entry["symbol"] == "ETH-SIX"]
    id["address"] = id["address"][:-64] + "ab" * 32
    market.ingestor.configure(pools=[decimals, address, kind, *rest])
    done = market.ingestor.run("check")
    market.ingestor.configure(pools=[pool.entry() for pool in market.pools])
    assert done.returncode == 1
    wrong = [line for line in done.stdout.splitlines() if "WRONG" in line]
    expected = ("and rpc.json says 18", "no pool", "it is a uniswap-v3 pool", "no pool with this id was ever created")
    assert [part in line for part, line in zip(expected, wrong, strict=True)] == [True] * 4


@pytest.mark.full
def test_of_two_ingestors_started_at_once_one_runs(market: Market, loops: Callable[..., int]) -> None:
    market.ingestor.stop()
    # On another machine: the same table, but neither the lock nor the outbox.
    state = market.api.state_dir
    elsewhere = {"MARKET_STATE_DIR": str(state / "elsewhere"), "MARKET_SECRETS_DIR": str(state / "secrets")}
    said = {"here": r"another ingestor, process [0-9]+, holds", "there": r" holds the lease ingestor-md_ticks_v1"}
    for place, settings in (("here", {}), ("there", elsewhere)) * loops(quick=1, full=10):
        both = [market.ingestor.begin(), market.ingestor.begin(**settings)]
        try:
            ended = until(lambda both=both: [each for each in both if each.poll() is not None], 30)
            [running] = [each for each in both if each not in ended]
            [(_, reason)] = [each.communicate(timeout=SECONDS) for each in ended]
            assert (ended[0].returncode, bool(re.search(said[place], reason))) == (4, True), reason
            market.trade(1)
            market.assert_complete()
            assert running.poll() is None
            running.terminate()
            assert running.wait(SECONDS) == 0
        finally:
            for each in both:
                each.kill()
                each.communicate()


@listed_and_distributed
def test_candles_are_finalized_up_to_the_block_that_the_chain_calls_final(market: Market) -> None:
    market.ingestor.stop()
    market.ingestor.configure(confirmations="finalized")
    try:
        market.ingestor.start()
        market.trade(8)  # the last of these blocks are not final
        market.assert_complete()
        last = int(market.chain("eth_blockNumber"), 16) - 4
        end = int(market.chain("eth_getBlockByNumber", hex(last), False)["timestamp"], 16) * 1000
        with closing(Client(market.api.port, market.api.token("read"))) as read:
            until(lambda: {each["finalized_block"] for each in read("GET", "/v1/symbols")[1]["symbols"]} == {last})
            for pool in market.pools:
                path = f"/v1/chart?symbol=TEST:{pool.name}&interval=1s&fill=previous&limit=10000"
                candles = read("GET", f"{path}&startTime={end - 600_000}")[1]["candles"]
                assert {each["T"] < end for each in candles} == {True, False}
                assert [each["finalized"] for each in candles] == [each["T"] < end for each in candles]
    finally:
        market.ingestor.stop()
        market.ingestor.configure(confirmations=12)
        market.ingestor.start()


@listed_and_found
def test_a_restart_of_the_node_loses_nothing(market: Market, loops: Callable[..., int]) -> None:
    for is_noticed in (False, *(True for _ in range(loops(quick=0, full=5)))):
        before = market.ingestor.said().count("no answer")
        market.trade(2)  # perhaps while the ingestor reads
        market.chain.stop()
        if is_noticed:
            until(lambda before=before: market.ingestor.said().count("no answer") > before, 60)
        market.chain.start()
        market.trade(3)
        market.assert_complete()


@pytest.mark.full
@listed_and_found
def test_a_clock_that_jumps_loses_nothing(market: Market, loops: Callable[..., int]) -> None:
    market.ingestor.stop()
    market.ingestor.program = CLOCK_THAT_JUMPS
    try:
        market.ingestor.start()
        for _ in range(loops(quick=1, full=10)):
            market.trade(5)
            market.chain("anvil_reorg", 3, [])
            market.trade(2)
            market.assert_complete()
        assert market.ingestor.stop() == 0
    finally:
        market.ingestor.kill()
        market.ingestor.program = MARKETDATA
    market.assert_covered()
    market.ingestor.start()


def test_metrics_count_blocks_ticks_and_deliveries(market: Market) -> None:
    market.ingestor.stop()
    market.ingestor.settings = {"MARKET_INGESTOR_METRICS_PORT": "0"}
    market.ingestor.start()
    market.ingestor.settings = {}
    market.trade(3)
    market.assert_complete()
    head = int(market.chain("eth_blockNumber"), 16)
    found = until(lambda: (shown := market.ingestor.figures())["outbox_items"] == 0 and shown)
    assert (found["head_block"], found["next_block"], found["dead_letters"]) == (head, head + 1, 0)
    assert found["blocks_total"] >= 3
    assert found["delivered_total"] >= found["ticks_total"] > 0


@of_each_kind
def test_reorganisations_of_any_depth_are_followed(market: Market, loops: Callable[..., int]) -> None:
    market.trade(30)
    market.assert_complete()
    before = market.ingestor.said().count("reorganisation: ")
    depths = (1, 5, 30) * loops(quick=1, full=5)
    for depth in depths:
        market.chain("anvil_reorg", depth, [])
        market.trade(2)
        market.assert_complete()
    assert market.ingestor.said().count("reorganisation: ") >= before + len(depths)
    assert market.ingestor.stop() == 0  # a stop reports the coverage without delay
    market.assert_covered()


@pytest.mark.full
@of_each_kind
def test_a_reorganisation_while_the_ingestor_is_down_is_followed_at_its_start(market: Market) -> None:
    market.trade(10)
    market.assert_complete()
    market.ingestor.kill()
    market.chain("anvil_reorg", 7, [])
    market.trade(3)
    market.chain.mine(150)  # enough blocks that the ingestor reads ranges
    market.ingestor.start()
    market.assert_complete()


class BadProvider(Provider):
    """Passes requests on to the chain, and fails for a part of them, each time in another way."""

    def __init__(self, chain: Anvil, part: float) -> None:
        super().__init__(lambda request, _: self._failure(request) or self._forward(request))
        self._chain = chain
        self._part = part
        self._chance = random.Random(1)
        self._release = threading.Event()
        self._was_wrong_chain = False
        self.was_silent = False
        """Whether one request got no answer until the ingestor gave it up."""

    def close(self) -> None:
        self._release.set()
        super().close()

    def _failure(self, request: Any) -> Any:
        calls = request if isinstance(request, list) else [request]
        for call in calls:
            if call["method"] == "eth_getLogs" and "fromBlock" in call["params"][0]:
                first, last = (int(call["params"][0][name], 16) for name in ("fromBlock", "toBlock"))
                if last - first >= MAX_BLOCKS:
                    return error(request, f"range {last - first + 1} exceeds limit of {MAX_BLOCKS}", -32602)
        if not self._was_wrong_chain and any(call["method"] == "eth_chainId" for call in calls):
            self._was_wrong_chain = True
            return result(request, lambda *_: "0x5")
        if not self.was_silent:
            self.was_silent = True
            self._release.wait(TIMEOUT + 5)
        if self._chance.random() > self._part:
            return None
        good = self._forward(request)
        text = json.dumps(good).encode()
        failures = (
            Raw(b"slow down", 429, (("Retry-After", "0"),)),
            Raw(b"<html>bad gateway</html>", 502),
            Raw(text[: len(text) // 2]),
            Raw(text[: len(text) // 2], length=len(text)),
            error(request, "header not found"),
            Raw(b"payload too large", 413),
        )
        return self._chance.choice(failures)

    def _forward(self, request: Any) -> Any:
        with closing(http.client.HTTPConnection("127.0.0.1", self._chain.port, timeout=SECONDS)) as connection:
            connection.request("POST", "/", json.dumps(request), {"Content-Type": "application/json"})
            return json.loads(connection.getresponse().read())


@pytest.mark.full
@listed_and_found
def test_a_provider_that_often_fails_loses_nothing(market: Market, loops: Callable[..., int]) -> None:
    market.ingestor.stop()
    shutil.rmtree(market.api.state_dir / "ingestor", ignore_errors=True)  # so that all is read again, in ranges too
    provider = BadProvider(market.chain, loops(quick=1, full=3) / 10)
    market.ingestor.configure(url=provider.url)
    try:
        market.ingestor.start()
        market.trade(1)
        # All blocks are read again, with about a thousand requests one after the other, of which one gets no answer.
        market.assert_complete(240)
        for _ in range(loops(quick=2, full=20)):
            market.trade(3)
            market.chain("anvil_reorg", 2, [])
            market.trade(1)
            market.assert_complete(90)
        assert market.ingestor.stop() == 0
    finally:
        market.ingestor.kill()
        provider.close()
        market.ingestor.configure(url=market.chain.url)
    assert "is on the chain 5" in market.ingestor.said()
    assert provider.was_silent
    market.ingestor.start()


@pytest.mark.full
@listed_and_found
def test_after_a_full_disk_everything_is_delivered(market: Market) -> None:
    market.ingestor.stop()
    folder = market.api.state_dir / "ingestor"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    market.ingestor.inside = small_disk.inside(folder, 8 << 20)
    market.ingestor.settings = {"MARKET_INGESTOR_METRICS_PORT": "0"}
    market.ingestor.start()
    market.ingestor.settings = {}
    try:
        market.trade(1)
        market.assert_complete()
        disk = small_disk.Disk(market.ingestor.pid, folder)
        disk.fill()
        market.trade(40)
        until(lambda: "disk is full" in market.ingestor.said(), 30)
        disk.free()
        market.assert_complete()
        # The items that are on the full disk are delivered nevertheless. New ones follow when there is space.
        port = market.api.port
        market.api.kill()
        market.trade(10)
        head = int(market.chain("eth_blockNumber"), 16)
        until(lambda: market.ingestor.figures()["next_block"] > head, 30)
        disk.fill()
        market.api.start(port)
        market.assert_complete()
        market.trade(10)
        disk.free()
        market.assert_complete(15)
        assert market.ingestor.stop() == 0
    finally:
        market.ingestor.kill()
        market.ingestor.inside = ()
    market.ingestor.start()


@pytest.mark.full
def test_it_stops_in_time_while_the_api_is_down(market: Market) -> None:
    market.trade(1)
    market.assert_complete()
    port, before = market.api.port, market.ingestor.said().count("does not answer")
    market.api.kill()
    market.trade(2)
    until(lambda: market.ingestor.said().count("does not answer") > before, 30)
    started = time.monotonic()
    assert market.ingestor.stop() == 0
    assert time.monotonic() - started < 10
    market.api.start(port)
    market.ingestor.start()
    market.assert_complete()


@pytest.mark.full
@pytest.mark.parametrize("trades", [0, 2])
def test_it_stops_in_time_while_the_api_does_not_answer(market: Market, trades: int) -> None:
    """Without a trade, the stop itself sends the first request."""
    market.trade(1)
    market.assert_complete()
    os.kill(market.api.pid, signal.SIGSTOP)  # the kernel accepts connections nevertheless
    try:
        market.trade(trades)
        started = time.monotonic()
        assert market.ingestor.stop() == 0
        assert time.monotonic() - started < 10
    finally:
        os.kill(market.api.pid, signal.SIGCONT)
    market.ingestor.start()
    market.assert_complete()


def test_a_pool_whose_hooks_change_amounts_is_not_read_but_listed_with_the_reason(market: Market) -> None:
    v4 = market.exchanges.v4
    [listed] = [pool for pool in market.pools if pool.name == "ETH-SIX"]
    hooks = v4.hooks("DeltaReturningHook", AFTER_SWAP | AFTER_SWAP_RETURNS_DELTA, v4.manager)
    pool = v4.pool("DELTA", dict(zip(listed.tokens, listed.amounts, strict=True)), hooks=hooks)
    market.ingestor.stop()
    market.ingestor.configure(factories=[{"kind": "uniswap-v4", "address": v4.manager, "start_block": 0}])
    market.ingestor.start()
    v4.swap(pool, 10**6, sell=False)
    market.trade(2)
    market.assert_complete()
    done = market.ingestor.run("pools")
    reason = "its hooks change the amounts of swaps (AFTER_SWAP_RETURNS_DELTA)"
    assert f"{pool.address}  not read: {reason}\n" in done.stdout, done.stdout + done.stderr
    assert done.stdout.endswith(f"\n{len(market.pools)} pools are read, 1 are not\n")
    with closing(Client(market.api.port, market.api.token("read"))) as read:
        symbols = {each["symbol"] for each in read("GET", "/v1/symbols")[1]["symbols"]}
    assert symbols == {f"TEST:{each.name}" for each in market.pools}
    market.ingestor.configure(factories=[])


@listed_and_found
def test_kills_lose_nothing_and_double_nothing(market: Market, loops: Callable[..., int]) -> None:
    """The ingestor, the database and the API are killed in turn, at random moments, while pools are traded."""
    kills = (market.ingestor.kill, market.api.kill_database, market.api.kill)
    for number in range(loops(quick=3, full=100)):
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
                market.assert_complete(TTL / 2)
    market.trade(5)
    market.assert_complete(90)
    done = market.ingestor.run("dead-letters", "list")
    assert (done.returncode, done.stdout) == (0, "0 dead letters\n")
    assert market.ingestor.stop() == 0
    market.assert_covered()
