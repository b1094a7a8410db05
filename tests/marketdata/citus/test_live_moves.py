"""``/v1/live`` of a distributed version: its notifications come from the nodes, also while shards move."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from time import monotonic
from typing import Any

import pytest

from tests.marketdata.api.conftest import Api
from tests.marketdata.api.live_client import LiveClient
from tests.marketdata.citus.cluster import Database
from tests.marketdata.citus.serving import TABLE, serving

T = 1_700_000_040_000
SHARDS = 6
SYMBOLS = [f"LIVE:{number}" for number in range(12)]


@pytest.fixture(scope="module")
def apis(citus_database: Database) -> Iterator[list[Api]]:
    """Two processes. The first one is not told by its own writes where a shard is."""
    with serving(citus_database, SHARDS, 2) as apis:
        yield apis


@pytest.fixture
def client(apis: list[Api]) -> Iterator[LiveClient]:
    with LiveClient(apis[0].service.port, apis[0].tokens["read"]) as connected:
        yield connected


def tick(symbol: str, number: int, **more: Any) -> dict[str, Any]:
    return {"symbol": symbol, "id": f"{number}", "ts": T + number, "price": f"1.{number}", "size": "1", **more}


def chart(api: Api, symbol: str) -> dict[str, Any]:
    (candle,) = api.get(f"/v1/chart?symbol={symbol}&interval=1m")["candles"]
    return dict(candle)


def receive_until(client: LiveClient, shown: dict[str, Any], done: Callable[[], bool], seconds: float = 20.0) -> None:
    """Take candles until ``done``."""
    deadline = monotonic() + seconds
    while not done():
        message = client.receive(deadline - monotonic())
        assert message["type"] == "candle", message
        shown[message["symbol"]] = message["candle"]


class Writer:
    """Stores a tick of each symbol again and again, in a thread. What a move has refused is sent again."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.rounds = 1

    def __enter__(self) -> Writer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ending.wait(0.01):
            body = {"ticks": [tick(symbol, self.rounds) for symbol in SYMBOLS]}
            if self._api("POST", "/v1/ingest/tick", body).status_int == 200:
                self.rounds += 1


@pytest.mark.parametrize("mode", ["block_writes", "force_logical"])
def test_a_subscriber_sees_every_change_while_shards_move(
    citus_database: Database, apis: list[Api], client: LiveClient, mode: str
) -> None:
    reader, writer = apis
    writer.ingest(*(tick(symbol, 0) for symbol in SYMBOLS))
    for symbol in SYMBOLS:
        assert client.subscribe(symbol, "1m")["type"] == "subscribed"
    with Writer(writer) as writing:
        for symbol in SYMBOLS[:4]:
            citus_database.execute("CALL citus_cleanup_orphaned_resources()")
            citus_database.move(TABLE, symbol, mode)
    assert writing.rounds > 4
    expected = {symbol: chart(reader, symbol) for symbol in SYMBOLS}
    shown: dict[str, Any] = {}
    receive_until(client, shown, lambda: shown == expected)
    assert shown["LIVE:0"]["n"] >= writing.rounds
