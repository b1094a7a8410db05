"""One ingestor for several chains, each with a real node, while providers of other chains are dead, hang, or have a
long history."""

from __future__ import annotations

import re
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.functional.anvil import CHAIN_ID, Anvil
from tests.functional.chain_market import Market, stored_ticks
from tests.release.citus.citus_market import running_market
from tests.functional.evm_packages import EvmPackages
from tests.functional.exchanges.exchanges import Exchanges
from tests.functional.market_process import Client
from tests.functional.serving import until
from tests.functional.test_market_backfill import BackfillProcess
from tests.marketdata.source.synthetic_chain import SyntheticChain

pytestmark = [pytest.mark.functional, pytest.mark.full]

SECONDS = 60.0
MOST_LAG_S = 5.0
"""The longest time from a block of the live chain to its tick, on a busy machine."""


class Chains:
    """The chain TEST of a :class:`Market`, and the chain OTHER with a pool of its own."""

    def __init__(self, packages: EvmPackages, folder: Path, **settings: str) -> None:
        self.market = Market(packages, folder, **settings)
        self.other = Anvil(packages, "--state", str(folder / "other.json"))
        self.exchanges = Exchanges(self.other, packages)
        tokens = {self.exchanges.token(decimals): 10**24 for decimals in (18, 6)}
        self.pool = self.exchanges.v2.pool("A-B", tokens)
        self.market.api.start()
        self.read = Client(self.market.api.port, self.market.api.token("read"))

    def close(self) -> None:
        self.read.close()
        self.market.ingestor.stop()
        self.market.api.stop()
        self.market.chain.close()
        self.other.close()

    def start(self, *more: dict[str, Any]) -> None:
        shared = {"chain_id": CHAIN_ID, "confirmations": 3, "poll_s": 0.05, "requests_per_s": 5000}
        live = {"url": self.market.chain.url, "chain": "TEST", "pools": [pool.entry() for pool in self.market.pools]}
        other = {"url": self.other.url, "chain": "OTHER", "pools": [self.pool.entry()]}
        ingestor = self.market.ingestor
        self.listed = [shared | live, shared | other, *more]
        ingestor.configure(**dict.fromkeys([*shared, *live]), chains=self.listed)
        ingestor.settings = {"MARKET_INGESTOR_METRICS_PORT": "0"}
        ingestor.start()
        until(lambda: "metrics: " in ingestor.said(), SECONDS)

    def trade_other(self) -> None:
        self.exchanges.swap(self.pool, 10**12, sell=True)
        self.other.mine(4)

    def assert_other(self) -> None:
        """The ticks and the finality of the chain OTHER are those of the node."""
        expected = [tick | {"symbol": "OTHER:A-B"} for tick in self.exchanges.ticks(self.pool)]
        until(lambda: stored_ticks(self.read, "OTHER:A-B") == expected, SECONDS)
        final = int(self.other("eth_blockNumber"), 16) - 3
        until(lambda: self.finalized()["OTHER:A-B"] == final, SECONDS)

    def finalized(self) -> dict[str, int]:
        return {each["symbol"]: each["finalized_block"] for each in self.read("GET", "/v1/symbols")[1]["symbols"]}

    def lag(self) -> float:
        """The seconds from a block of the chain TEST until its tick is stored."""
        pool = self.market.pools[0]
        known = len(stored_ticks(self.read, f"TEST:{pool.name}"))
        self.market.exchanges.swap(pool, pool.amounts[0] // 1000, sell=True)
        self.market.chain.mine()
        began = time.monotonic()
        until(lambda: len(stored_ticks(self.read, f"TEST:{pool.name}")) > known, SECONDS)
        return time.monotonic() - began

    def chain_metrics(self, chain: str) -> dict[str, float]:
        """The ingestor's metrics of a chain that have no other label."""
        found = ((re.fullmatch(r'(.*)\{chain="(.*)"\}', name), value) for name, value in self._figures())
        return {name[1]: value for name, value in found if name is not None and name[2] == chain}

    def covered(self) -> set[str]:
        """The chains whose coverage the API knows."""
        text = self.read("GET", "/metrics")[1].decode()
        return set(re.findall(r'^marketdata_backfill_chain_lag_seconds\{chain="(\w+)"\} ', text, re.MULTILINE))

    def _figures(self) -> Iterator[tuple[str, float]]:
        for name, value in self.market.ingestor.figures().items():
            yield (name if "{" in name else f'{name}{{chain="TEST"}}'), value


@pytest.fixture(scope="module")
def packages() -> Iterator[EvmPackages]:
    with tempfile.TemporaryDirectory(prefix="market-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        yield EvmPackages.install(Path(folder))


@pytest.fixture(params=["plain", pytest.param("distributed", marks=pytest.mark.full)])
def chains(request: pytest.FixtureRequest, packages: EvmPackages) -> Iterator[Chains]:
    with (
        tempfile.TemporaryDirectory(prefix="market-", dir="/tmp", ignore_cleanup_errors=True) as folder,
        prepared_database(request, Path(folder)) as settings,
    ):
        found = Chains(packages, Path(folder), **settings)
        yield found
        found.close()


@contextmanager
def prepared_database(request: pytest.FixtureRequest, folder: Path) -> Iterator[dict[str, str]]:
    """The settings of an API whose database is a private cluster, or one with a distributed version."""
    if request.param == "plain":
        yield {}
        return
    with running_market(request.getfixturevalue("citus"), folder) as market:
        yield market.settings


@pytest.fixture
def silent() -> Iterator[dict[str, Any]]:
    """A chain whose provider accepts connections, and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        pool = {"symbol": "X-Y", "address": "0x" + "11" * 20, "kind": "uniswap-v2"}
        yield {
            "url": f"http://127.0.0.1:{server.getsockname()[1]}", "chain": "SILENT", "chain_id": 5,
            "confirmations": 3, "pools": [pool],
        }  # fmt: skip


def test_a_chain_that_is_dead_delays_no_other_and_catches_up(chains: Chains) -> None:
    chains.start()
    for _ in range(2):  # the coverage of a chain begins where the coverage of its first pool ends
        chains.trade_other()
        chains.assert_other()
    before = chains.chain_metrics("OTHER")
    chains.other.stop()
    until(lambda: "OTHER: " in chains.market.ingestor.said(), SECONDS)
    assert max(chains.lag() for _ in range(10)) < MOST_LAG_S
    assert chains.chain_metrics("OTHER")["read_until"] == before["read_until"]
    assert chains.chain_metrics("TEST")["head_block"] == int(chains.market.chain("eth_blockNumber"), 16)
    until(lambda: chains.covered() == {"TEST", "OTHER"})
    chains.other.start()
    chains.trade_other()
    chains.assert_other()
    assert chains.chain_metrics("OTHER")["read_until"] > before["read_until"]
    chains.market.assert_complete()


def test_a_deep_history_and_a_silent_provider_delay_no_other_chain(chains: Chains, silent: dict[str, Any]) -> None:
    with closing(SyntheticChain(head=100_000, swaps=20, most=500)) as deep:
        chains.start(silent, deep.rpc_file())
        until(lambda: chains.chain_metrics("SYN")["next_block"] > 1000, SECONDS)
        lags = [chains.lag() for _ in range(10)]
        assert chains.chain_metrics("SYN")["next_block"] < deep.head, "the history was too short for this test"
        assert chains.chain_metrics("SILENT")["head_block"] == 0
        assert max(lags) < MOST_LAG_S, lags
        began = time.monotonic()
        assert chains.market.ingestor.stop() == 0
        assert time.monotonic() - began < 10


def test_the_backfill_reads_the_chains_one_after_the_other(chains: Chains) -> None:
    chains.start()
    chains.market.ingestor.stop()
    first, second = chains.listed
    # Without its outbox, the backfill treats all blocks as unread.
    (chains.market.api.state_dir / "ingestor" / "md_ticks_v1.sqlite").unlink()
    chains.market.chain.mine(5)
    chains.trade_other()
    backfill = BackfillProcess(chains.market.api, "", ())
    backfill.configure(**dict.fromkeys(first), chains=[second, first])
    done = backfill.run()
    assert done.returncode == 0, done.stderr
    assert [line.partition(":")[0] for line in done.stdout.splitlines()] == ["OTHER", "TEST"]
    assert backfill.run("--chain", "TEST").stdout.startswith("TEST: nothing to read: ")
    done = backfill.run("--chain", "NONE")
    assert (done.returncode, done.stderr.endswith("rpc.json has no chain NONE: it has OTHER, TEST\n")) == (2, True)
    assert "add --chain" in backfill.run("--to-block", "5").stderr
    chains.other.stop()
    chains.market.trade(5)
    chains.market.chain.mine(5)
    done = backfill.run()
    assert (done.returncode, done.stdout.startswith("TEST: ")) == (1, True)
    assert "OTHER: 127.0.0.1:" in done.stderr
    chains.other.start()
