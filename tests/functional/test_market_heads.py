"""The ingestor at a real node that announces its blocks."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.functional.anvil import EvmPackages
from tests.functional.chain_market import Market
from tests.functional.market_process import SECONDS
from tests.functional.serving import until

pytestmark = [pytest.mark.functional, pytest.mark.full]


@pytest.fixture
def market() -> Iterator[Market]:
    with tempfile.TemporaryDirectory(prefix="market-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        found = Market(EvmPackages.install(Path(folder)), Path(folder))
        found.trade(5)
        found.api.start()
        yield found
        found.close()


def test_announced_blocks_are_read_at_once_also_after_the_node_was_away(market: Market) -> None:
    # Without announcements, a block would be read a minute later.
    market.ingestor.configure(ws_url=f"ws://127.0.0.1:{market.chain.port}", poll_s=60)
    market.ingestor.start()
    market.assert_complete()
    for _ in range(5):
        market.trade(1)
        market.assert_complete(seconds=10)
    market.chain.stop()
    until(lambda: "does not announce new blocks" in market.ingestor.said(), SECONDS)
    market.chain.start()
    market.trade(1)  # possibly before the ingestor has connected again
    market.assert_complete(seconds=30)
    market.trade(1)
    market.assert_complete(seconds=10)
    assert market.ingestor.stop() == 0
    assert len(re.findall("does not announce new blocks", market.ingestor.said())) == 1
