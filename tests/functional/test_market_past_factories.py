"""Pools that exist before the ingestor starts, which is killed again and again while it finds them."""

from __future__ import annotations

import http.client
import json
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.functional.anvil import SECONDS, Anvil
from tests.functional.evm_packages import EvmPackages
from tests.functional.factory_market import FactoryMarket
from tests.marketdata.source.provider import Provider, error

pytestmark = [pytest.mark.functional, pytest.mark.full]

MOST_BLOCKS = 7
"""The number of blocks that the provider answers for in one request."""


class NarrowProvider(Provider):
    """Passes requests on to the chain, but refuses long ranges. It holds the range with the number ``last``, counted
    from 1, until :meth:`release`."""

    def __init__(self, chain: Anvil) -> None:
        super().__init__(lambda request, _: self._answer(request))
        self._chain = chain
        self._released = threading.Event()
        self._ranges = 0
        self.last = 0
        self.holds = threading.Event()

    def hold(self, last: int) -> None:
        self._released.clear()
        self.holds.clear()
        self._ranges, self.last = 0, last

    def release(self) -> None:
        self.last = 0
        self._released.set()

    def close(self) -> None:
        self.release()
        super().close()

    def _answer(self, request: Any) -> Any:
        for call in request if isinstance(request, list) else [request]:
            if call["method"] == "eth_getLogs" and "fromBlock" in call["params"][0]:
                first, last = (int(call["params"][0][name], 16) for name in ("fromBlock", "toBlock"))
                if last - first >= MOST_BLOCKS:
                    return error(request, f"range {last - first + 1} exceeds limit of {MOST_BLOCKS}", -32602)
                self._ranges += 1
                if self._ranges == self.last:
                    self.holds.set()
                    self._released.wait(SECONDS)
        with closing(http.client.HTTPConnection("127.0.0.1", self._chain.port, timeout=SECONDS)) as connection:
            connection.request("POST", "/", json.dumps(request), {"Content-Type": "application/json"})
            return json.loads(connection.getresponse().read())


@pytest.fixture
def market(evm_packages: EvmPackages) -> Iterator[FactoryMarket]:
    with tempfile.TemporaryDirectory(prefix="market-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        found = FactoryMarket(evm_packages, Path(folder))
        found.api.start()
        yield found
        found.close()


def test_kills_while_the_past_of_factories_is_read_lose_no_pool(
    market: FactoryMarket, loops: Callable[..., int]
) -> None:
    for _ in range(12):
        market.create_another()
    market.trade(5)
    market.chain.mine(loops(quick=20, full=300))
    # The ingestor begins in the block of a listed pool, and reads the factories' past before it.
    address = market.create_another().address
    found = next(each for each in market.announced() if each.pool.address == address)
    market.listed[address] = replace(found.pool, name="LISTED")
    market.trade(3)
    provider = NarrowProvider(market.chain)
    entry = market.listed[address].entry() | {"start_block": found.block}
    market.ingestor.configure(url=provider.url, pools=[entry])
    kills = 0
    try:
        for _ in range(loops(quick=4, full=40)):
            provider.hold(market.random.randint(1, 8))
            market.ingestor.start()
            kills += provider.holds.wait(SECONDS)
            market.ingestor.kill()
            provider.release()
            if market.random.random() < 0.3:
                market.chain("anvil_reorg", market.random.randint(1, 3), [])
            market.trade(1)
        market.ingestor.start()
        market.assert_complete()
        assert market.ingestor.stop() == 0
        market.assert_covered()
    finally:
        market.ingestor.kill()
        provider.close()
    assert kills > 2
