"""One ingestor for four chains: the provider of one is silent, and another one has a long history."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from tests.functional.evm_packages import EvmPackages
from tests.functional.serving import until
from tests.functional.two_chains import SECONDS, running_chains
from tests.marketdata.source.synthetic_chain import SyntheticChain


@pytest.fixture
def silent() -> Iterator[dict[str, Any]]:
    """A chain whose provider accepts connections, and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        pool = {"symbol": "X-Y", "address": "0x" + "11" * 20, "kind": "uniswap-v2"}
        yield {
            "url": f"http://127.0.0.1:{server.getsockname()[1]}", "chain": "SILENT", "chain_id": 5,
            "confirmations": 3, "pools": [pool],
        }  # fmt: skip


def test_a_deep_history_and_a_silent_provider_delay_no_other_chain(
    evm_packages: EvmPackages, silent: dict[str, Any]
) -> None:
    with (
        running_chains(evm_packages) as chains,
        closing(SyntheticChain(head=100_000, swaps=20, most=500)) as deep,
    ):
        chains.start(silent, deep.rpc_file())
        until(lambda: chains.chain_metrics("SYN")["next_block"] > 1000, SECONDS)
        for _ in range(10):
            chains.trade_live()
        assert chains.chain_metrics("SYN")["next_block"] < deep.head, "the history was too short for this test"
        assert chains.chain_metrics("SILENT")["head_block"] == 0
        assert chains.market.ingestor.stop() == 0
