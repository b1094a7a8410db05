"""The ingestor between two real nodes with the same blocks. The first one is killed, and comes back with others."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.functional.anvil import Anvil
from tests.functional.chain_market import Market
from tests.functional.evm_packages import EvmPackages
from tests.functional.serving import until

pytestmark = pytest.mark.functional

PAUSE_SECONDS = 30
"""How long a failed endpoint is not asked again."""
CONFIRMATIONS = 12


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="market-", dir="/tmp", ignore_cleanup_errors=True) as found:
        yield Path(found)


@pytest.fixture
def market(evm_packages: EvmPackages, folder: Path) -> Iterator[Market]:
    found = Market(evm_packages, folder)
    found.trade(5)
    found.chain.stop()
    shutil.copy(folder / "chain.json", folder / "old.json")
    found.chain.start()
    found.trade(5)
    found.chain.mine(2 * CONFIRMATIONS)
    yield found
    found.close()


@pytest.fixture
def first(market: Market, evm_packages: EvmPackages, folder: Path) -> Iterator[Anvil]:
    """A second node with the market's blocks. It is the first one in ``rpc.json``."""
    market.chain.stop()
    shutil.copy(folder / "chain.json", folder / "first.json")
    market.chain.start()
    found = Anvil(evm_packages, "--state", str(folder / "first.json"), "--slots-in-an-epoch", "2")
    yield found
    found.close()


def test_a_killed_and_a_lying_node_change_nothing(market: Market, first: Anvil, folder: Path) -> None:
    newest = [node("eth_getBlockByNumber", "latest", False)["hash"] for node in (first, market.chain)]
    assert newest[0] == newest[1]
    market.api.start()
    market.ingestor.settings["MARKET_INGESTOR_METRICS_PORT"] = "0"
    market.ingestor.configure(url=None, urls=[first.url, market.chain.url], confirmations=CONFIRMATIONS)
    market.ingestor.start()
    market.assert_complete()
    asked = market.ingestor.figures()
    assert asked[f'requests_total{{endpoint="{market.chain.url[7:]}"}}'] == 0
    first.kill()
    market.trade(5)
    market.assert_complete()
    assert f"{first.url[7:]}: no answer" in market.ingestor.said()
    shutil.copy(folder / "old.json", folder / "first.json")
    first.start()
    first.mine(3 * CONFIRMATIONS)  # instead of blocks that are final
    until(lambda: f"{first.url[7:]} contradicts a final block" in market.ingestor.said(), 4 * PAUSE_SECONDS)
    for _ in range(3):
        market.trade(2)
        market.assert_complete()
    assert "reorganisation" not in market.ingestor.said()
    figures = market.ingestor.figures()
    assert figures["reorganisations_total"] == 0
    assert figures["switches_total"] >= 3  # to the second node, to the first one, and back after a wrong block
