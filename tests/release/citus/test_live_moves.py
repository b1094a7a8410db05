"""``/v1/live`` of a distributed version: its notifications come from the nodes, also while shards move."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from time import monotonic
from typing import Any

import pytest

from tests.marketdata.api.conftest import Api, eventually
from tests.marketdata.api.live_client import LiveClient
from tests.release.citus.cluster import Database
from tests.release.citus.serving import TABLE, serving

T = 1_700_000_040_000
SHARDS = 6
SYMBOLS = [f"LIVE:{number}" for number in range(12)]


@pytest.fixture(scope="module")
def apis(citus_database: Database) -> Iterator[list[Api]]:
    """Two processes. The first one writes nothing, so it cannot learn from its own writes where a shard is."""
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


def receive_until(
    client: LiveClient, shown: dict[str, Any], done: Callable[[], bool], *, reads: Api | None = None
) -> None:
    """Take candles until ``done``. ``reads`` reads those of a symbol of which some were missed; without it none may be
    missed."""
    deadline = monotonic() + 20
    while not done():
        message = client.receive(deadline - monotonic())
        if reads is not None and message.get("code") == "missed":
            shown[message["symbol"]] = chart(reads, message["symbol"])
        else:
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


def test_a_subscriber_sees_every_change_while_shards_move(
    citus_database: Database, apis: list[Api], client: LiveClient
) -> None:
    reader, writer = apis
    writer.ingest(*(tick(symbol, 0) for symbol in SYMBOLS))
    for symbol in SYMBOLS:
        assert client.subscribe(symbol, "1m")["type"] == "subscribed"
    with Writer(writer) as writing:
        for symbol, mode in zip(SYMBOLS, ("block_writes", "force_logical") * 2, strict=False):
            citus_database.execute("CALL citus_cleanup_orphaned_resources()")
            citus_database.move(TABLE, symbol, mode)
    assert writing.rounds > 4
    expected = {symbol: chart(reader, symbol) for symbol in SYMBOLS}
    shown: dict[str, Any] = {}
    receive_until(client, shown, lambda: shown == expected)
    assert shown["LIVE:0"]["n"] >= writing.rounds


def test_the_finality_of_a_chain_reaches_subscribers_of_all_nodes(apis: list[Api], client: LiveClient) -> None:
    """The nodes commit it a moment after the coordinator has notified."""
    reader, writer = apis
    symbols = [f"FINAL:{number}" for number in range(6)]
    rounds = 8
    for number in range(rounds):
        block = {"number": number, "hash": f"0x{number}"}
        writer.ingest(*(tick(symbol, 60_000 * number, block=block) for symbol in symbols))
    for symbol in symbols:
        assert client.subscribe(symbol, "1m")["type"] == "subscribed"
    for number in range(rounds):
        writer.ingest({"finalize": {"chain": "FINAL", "block": number, "ts": T + 60_000 * (number + 1)}})
        final: set[str] = set()
        while len(final) < len(symbols):
            message = client.receive()
            if message["candle"]["t"] == T + 60_000 * number and message["candle"]["finalized"]:
                final.add(message["symbol"])
    assert all(each["finalized"] for each in reader.get("/v1/chart?symbol=FINAL:0&interval=1m")["candles"])


def test_changes_on_a_node_that_was_added_are_seen(
    citus_database: Database, apis: list[Api], client: LiveClient
) -> None:
    reader, writer = apis
    writer.ingest(*(tick(symbol, 0) for symbol in SYMBOLS))
    for symbol in SYMBOLS:
        assert client.subscribe(symbol, "1m")["type"] == "subscribed"
    with Writer(writer):
        added = citus_database.add_node()
        citus_database.rebalance()
        eventually(lambda: shards(reader).get(f"127.0.0.1:{added.port}", 0) > 0)
    expected = {symbol: chart(reader, symbol) for symbol in SYMBOLS}
    shown: dict[str, Any] = {}
    receive_until(client, shown, lambda: shown == expected, reads=reader)
    citus_database.drain(added)
    eventually(lambda: f"127.0.0.1:{added.port}" not in shards(reader))
    writer.ingest(tick("LIVE:0", 59_000, price="9"))
    receive_until(client, shown, lambda: shown["LIVE:0"] == chart(reader, "LIVE:0"), reads=reader)


def shards(api: Api) -> dict[str, int]:
    return {each["host"]: each["shards"] for each in api.get("/ready")["nodes"]}
