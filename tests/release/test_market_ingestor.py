"""The ingestor, the API and the database are killed many times at random moments."""

from __future__ import annotations

from functools import partial

import pytest

from tests.functional.chain_market import Market, kill_in_turn, running
from tests.functional.evm_packages import EvmPackages
from tests.functional.factory_market import FactoryMarket

pytestmark = pytest.mark.timeout(900)


def test_kills_lose_nothing_and_double_nothing_of_listed_pools(evm_packages: EvmPackages) -> None:
    with running(partial(Market, full=True), evm_packages) as market:
        market.ingestor.start()
        kill_in_turn(market, 40)


def test_kills_lose_nothing_and_double_nothing_of_pools_that_are_found(evm_packages: EvmPackages) -> None:
    with running(partial(FactoryMarket, full=True), evm_packages) as market:
        market.ingestor.settings = {"MARKET_INGESTOR_METRICS_PORT": "0"}
        market.ingestor.start()
        kill_in_turn(market, 25)
