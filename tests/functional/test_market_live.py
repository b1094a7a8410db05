"""``/v1/live`` of two launched processes on one database, and a clean end."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.functional.market_process import ApiProcess, Client
from tests.marketdata.api.live_client import LiveClient

pytestmark = pytest.mark.functional

T = 1_700_000_040_000


@pytest.fixture
def api(state_dir: Path) -> Iterator[ApiProcess]:
    process = ApiProcess(state_dir)
    process.start()
    yield process
    process.stop()


def tick(number: int, ts: int, price: str = "1") -> dict[str, Any]:
    return {"symbol": "LIVE:A", "id": f"{number}", "ts": ts, "price": price, "size": "1"}


def newest(port: int, token: str) -> Any:
    with closing(Client(port, token)) as client:
        return client("GET", "/v1/chart?symbol=LIVE:A&interval=1m&limit=1")[1]["candles"][0]


def until(client: LiveClient, candle: Any) -> list[Any]:
    """Receive until ``candle``, and return every candle of its bucket up to it."""
    received = []
    while not received or received[-1] != candle:
        message = client.receive()
        if message["type"] == "candle" and message["candle"]["t"] == candle["t"]:
            received.append(message["candle"])
    return received


def test_two_processes_on_one_database_both_push(api: ApiProcess) -> None:
    second = ApiProcess(api.state_dir)
    second.start()
    with closing(Client(api.port, api.token("alg"))) as writer:
        try:
            writer("POST", "/v1/ingest/tick", tick(0, T))
            with LiveClient(api.port, api.token("read")) as one, LiveClient(second.port, api.token("read")) as two:
                for client in (one, two):
                    client.subscribe("LIVE:A", "1m")
                writer("POST", "/v1/ingest/tick", tick(1, T))
                candle = newest(api.port, api.token("read"))
                assert candle["n"] == 2
                assert until(one, candle)
                assert until(two, candle)
                ending = threading.Thread(target=second.stop)
                ending.start()
                assert two.until_closed() == 1001
                ending.join()
        finally:
            second.stop()
