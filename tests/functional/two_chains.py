"""One ingestor for two chains, each with a real node."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.functional.anvil import CHAIN_ID, Anvil
from tests.functional.chain_market import Market, stored_ticks
from tests.functional.evm_packages import EvmPackages
from tests.functional.exchanges.exchanges import Exchanges
from tests.functional.market_process import Client
from tests.functional.serving import until

SECONDS = 60.0


class Chains:
    """The chain TEST of a :class:`Market`, and the chain OTHER with a pool of its own."""

    def __init__(self, packages: EvmPackages, folder: Path) -> None:
        self.market = Market(packages, folder)
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
        ingestor.stop()
        self.listed = [shared | live, shared | other, *more]
        ingestor.configure(**dict.fromkeys([*shared, *live]), chains=self.listed)
        ingestor.settings = {"MARKET_INGESTOR_METRICS_PORT": "0"}
        said = len(ingestor.said()) if ingestor.log.exists() else 0
        ingestor.start()
        until(lambda: "metrics: " in ingestor.said()[said:], SECONDS)

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

    def trade_live(self) -> None:
        """Wait until the tick of a new block of the chain TEST is stored."""
        pool = self.market.pools[0]
        known = len(stored_ticks(self.read, f"TEST:{pool.name}"))
        self.market.exchanges.swap(pool, pool.amounts[0] // 1000, sell=True)
        self.market.chain.mine()
        until(lambda: len(stored_ticks(self.read, f"TEST:{pool.name}")) > known, SECONDS)

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


@contextmanager
def running_chains(packages: EvmPackages) -> Iterator[Chains]:
    with tempfile.TemporaryDirectory(prefix="market-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        found = Chains(packages, Path(folder))
        yield found
        found.close()
