"""The ingestor for minutes: random kills, a provider that often fails, a full disk, and changed factories."""

from __future__ import annotations

import http.client
import json
import random
import shutil
import threading
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from typing import Any

import pytest

from marketdata.source.rpc import TIMEOUT
from tests.functional import small_disk
from tests.functional.anvil import Anvil
from tests.functional.chain_market import Market, kill_in_turn, running
from tests.functional.evm_packages import EvmPackages
from tests.functional.factory_market import FactoryMarket
from tests.functional.market_process import SECONDS
from tests.functional.serving import until
from tests.marketdata.source.provider import Provider, Raw, error, result

pytestmark = pytest.mark.timeout(900)

MAX_BLOCKS = 50
"""The number of blocks that the bad provider answers for in one request."""


@pytest.fixture(scope="module")
def listed(evm_packages: EvmPackages) -> Iterator[Market]:
    with running(partial(Market, full=True), evm_packages) as found:
        yield found


@pytest.fixture(scope="module")
def found(evm_packages: EvmPackages) -> Iterator[FactoryMarket]:
    with running(partial(FactoryMarket, full=True), evm_packages) as market:
        market.ingestor.settings = {"MARKET_INGESTOR_METRICS_PORT": "0"}
        yield market


def test_kills_lose_nothing_and_double_nothing_of_listed_pools(listed: Market) -> None:
    listed.ingestor.start()
    kill_in_turn(listed, 40)


def test_kills_lose_nothing_and_double_nothing_of_pools_that_are_found(found: FactoryMarket) -> None:
    found.ingestor.start()
    kill_in_turn(found, 25)


def has_read(market: FactoryMarket, block: int) -> bool:
    try:
        return market.ingestor.figures()["next_block"] > block
    except OSError:  # the ingestor has just been started
        return False


def test_other_factories_tokens_and_pools_may_be_selected_later(found: FactoryMarket) -> None:
    """When a selection grows, the past of the pools that it adds is read."""
    found.ingestor.start()
    found.trade(3)
    found.assert_complete()
    first, *others = found.entries()
    usd_only = [each | {"tokens": [found.usd]} for each in others]
    pool = next(each.pool for each in reversed(found.announced()) if each.pool.kind == "uniswap-v3")
    listed = pool.entry()
    del listed["decimals"]  # the decimals are then read from the chain
    for content in (
        {"factories": usd_only},
        {"factories": [each | {"exclude": [found.coins[0], found.weth]} for each in (first, *usd_only)]},
        {"factories": [first, *others], "pools": [listed]},
    ):
        assert found.ingestor.stop() == 0
        found.ingestor.configure(**content)
        found.ingestor.start()
        found.create_another()
        found.trade(3)
        found.chain("anvil_reorg", 2, [])
        found.trade(1)
        head = int(found.chain("eth_blockNumber"), 16)
        until(lambda head=head: has_read(found, head), 30)
    assert found.ingestor.stop() == 0
    found.ingestor.configure(factories=found.entries(), pools=None)
    found.ingestor.start()
    found.assert_complete()
    found.assert_covered()


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


def test_a_provider_that_often_fails_loses_nothing(listed: Market) -> None:
    market = listed
    market.ingestor.stop()
    shutil.rmtree(market.api.state_dir / "ingestor", ignore_errors=True)  # so that all is read again, in ranges too
    provider = BadProvider(market.chain, 0.3)
    market.ingestor.configure(url=provider.url)
    try:
        market.ingestor.start()
        market.trade(1)
        # All blocks are read again, with about a thousand requests one after the other, of which one gets no answer.
        market.assert_complete(240)
        for _ in range(5):
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


def test_after_a_full_disk_everything_is_delivered(listed: Market) -> None:
    market = listed
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
