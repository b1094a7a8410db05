"""Pools that are found by their factories, on a real node with the exchanges' own factories and routers."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.functional.evm_packages import EvmPackages
from tests.functional.factory_market import FactoryMarket

pytestmark = pytest.mark.functional

POOLS = 30


@pytest.fixture(scope="module")
def running(evm_packages: EvmPackages) -> Iterator[FactoryMarket]:
    with tempfile.TemporaryDirectory(prefix="market-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        found = FactoryMarket(evm_packages, Path(folder))
        for _ in range(4):  # before the first start
            found.create_another()
        found.trade(5)
        found.api.start()
        yield found
        found.close()


@pytest.fixture
def market(running: FactoryMarket) -> Iterator[FactoryMarket]:
    """The tests share a chain: each goes on where the one before it ended, with an ingestor that runs."""
    running.ingestor.start()
    yield running
    running.ingestor.stop()


def test_pools_that_are_created_while_it_runs_are_found(market: FactoryMarket) -> None:
    before = len(market.announced())
    for _ in range(POOLS):
        market.create_another()
        market.trade(1)
    market.assert_complete()
    assert len(market.pools) == before + POOLS
    market.assert_covered()
