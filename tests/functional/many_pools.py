"""A generated chain with many pools of a factory, together with the API, the ingestor and the backfill."""

from __future__ import annotations

import http.client
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

from marketdata.ingest.discovery import CAUGHT_UP_BLOCKS
from tests.functional.chain_market import indexed, stored_ticks
from tests.functional.ingestor_process import BackfillProcess, IngestorProcess
from tests.functional.market_process import ApiProcess, Client
from tests.functional.serving import until
from tests.marketdata.source.provider import Provider, Raw
from tests.marketdata.source.synthetic_factory import FactoryChain, SyntheticPool

FIRST = 10_000
"""The block where the ingestor begins. The backfill reads the earlier blocks."""
LENGTH = FIRST + CAUGHT_UP_BLOCKS + 10
SECONDS = 90.0


class Relay(Provider):
    """Passes requests on to the API, and notes their methods, paths and bodies."""

    def __init__(self, api: ApiProcess) -> None:
        super().__init__(lambda *_: None)
        self._api = api
        self.writes: list[tuple[str, str, str]] = []

    def respond(self, method: str, path: str, body: bytes) -> Any:
        with closing(http.client.HTTPConnection("127.0.0.1", self._api.port, timeout=SECONDS)) as connection:
            headers = {name: value for name, value in self.headers.items() if name != "Host"}
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            if "lease" not in path and method != "GET":
                self.writes.append((method, path, body.decode()))
            return Raw(answer.read(), answer.status, (("Content-Type", answer.headers["Content-Type"]),))


class ManyPools:
    def __init__(self, folder: Path, pools: int) -> None:
        self.chain = FactoryChain(pools, LENGTH)
        self.api = ApiProcess(folder)
        self.api.start()
        self.relay = Relay(self.api)
        self.ingestor = IngestorProcess(self.api, self.chain.url, ())
        self.backfill = BackfillProcess(self.api, self.chain.url, ())
        for each in (self.ingestor, self.backfill):
            each.configure(**self.chain.rpc_file())
        self.ingestor.settings = {"API_UPSTREAM": self.relay.url, "MARKET_INGESTOR_METRICS_PORT": "0"}

    def close(self) -> None:
        self.ingestor.stop()
        self.relay.close()
        self.api.stop()
        self.chain.close()

    def start(self) -> None:
        said = len(self.ingestor.said()) if self.ingestor.log.exists() else 0
        self.ingestor.start()
        until(lambda: "metrics: " in self.ingestor.said()[said:], SECONDS)
        self.settle()

    def settle(self) -> None:
        """Wait until everything is read and delivered."""
        until(self._is_settled, SECONDS)

    def _is_settled(self) -> bool:
        figures = self.ingestor.figures()
        return figures["next_block"] > self.chain.head and figures["outbox_items"] == 0

    def assert_ticks(self, symbols: dict[str, SyntheticPool], first: int) -> None:
        with closing(Client(self.api.port, self.api.token("read"))) as read:
            for symbol, pool in symbols.items():
                assert stored_ticks(read, quote(symbol)) == self.chain.ticks(symbol, pool, first), symbol

    def assert_covered(self, symbols: dict[str, SyntheticPool], first: int) -> None:
        """Each pool is recorded as indexed up to the newest block: from ``first`` on, or from its creation if that is
        later."""
        end = (self.chain.time(self.chain.head) + 1) * 1000
        with closing(Client(self.api.port, self.api.token("read"))) as read:
            for symbol, pool in symbols.items():
                expected = [[self.chain.time(max(pool.block, first)) * 1000, end]]
                until(lambda symbol=symbol, expected=expected: indexed(read, symbol) == expected, SECONDS)
