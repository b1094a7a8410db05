"""A symbol is dropped while the API serves it: what readers and subscribers get, then and when it is stored anew."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest

from marketdata.api.serve import Service
from marketdata.operations.drop_symbol import drop
from marketdata.store.pool import connect
from tests.marketdata.api.conftest import Api, Make, check_shape
from tests.marketdata.api.live_client import LiveClient

T = 1_700_000_040_000


@pytest.fixture
def symbol(api: Api, tick: Make) -> str:
    found = f"DROP:{uuid.uuid4().hex}"
    store(api, tick, found)
    return found


def store(api: Api, tick: Make, symbol: str) -> None:
    api.ingest(*(tick(symbol=symbol, id=f"{n}", ts=T + n * 1000) for n in range(3)))


@pytest.fixture
def dropped(service: Service, database: str) -> Callable[[str], None]:
    """Drops a symbol from the served version."""

    def run(symbol: str) -> None:
        with connect(database) as connection:
            drop(connection, service.services.served.version(), symbol)

    return run


PATHS = ("/v1/chart?interval=1m&symbol=", "/v1/chart?interval=1s&symbol=", "/v1/ticks?symbol=", "/v1/summary?symbol=")


def test_an_answer_of_before_is_never_confirmed_though_the_counter_is_the_same(
    api: Api, tick: Make, symbol: str, dropped: Callable[[str], None]
) -> None:
    before = {path: api("GET", path + symbol, status=200) for path in PATHS}
    version = "SELECT version FROM md_symbols_v1 WHERE symbol = %s"
    counters = [stored(api, version, symbol)]
    dropped(symbol)
    for path, answer in before.items():
        tag = {"If-None-Match": answer.headers["ETag"]}
        api.problem("GET", path + symbol, status=404, code="unknown_symbol", headers=tag)
    assert symbol not in [each["symbol"] for each in api.get("/v1/symbols")["symbols"]]
    store(api, tick, symbol)
    counters.append(stored(api, version, symbol))
    assert counters == [1, 1]
    for path in PATHS[:3]:
        again = api("GET", path + symbol, headers={"If-None-Match": before[path].headers["ETag"]}, status=200)
        assert again.headers["ETag"] != before[path].headers["ETag"]


def stored(api: Api, statement: str, symbol: str) -> int:
    with api.service.services.pool.connection() as connection:
        row = connection.execute(statement, (symbol,)).fetchone()  # type: ignore[call-overload]
    return int(row[0])


@pytest.mark.parametrize("interval", ["1m", "ticks"])
def test_subscribers_learn_it_and_get_the_symbol_when_it_is_stored_anew(
    api: Api, service: Service, read_token: str, tick: Make, symbol: str, dropped: Callable[[str], None], interval: str
) -> None:
    with LiveClient(service.port, read_token) as client:
        since = {"since": T} if interval == "ticks" else {}
        client.subscribe(symbol, interval, **since)
        dropped(symbol)
        missed = {(each.get("symbol"), each["interval"]) for each in until_missed(client, 2)}
        assert missed == {(symbol, interval), (None, "symbols")}
        store(api, tick, symbol)
        while (message := client.receive())["type"] != ("tick" if interval == "ticks" else "candle"):
            pass
        assert message["symbol"] == symbol
        assert "retracted" not in message
        while symbol not in client.new_symbols:
            client.receive()


def until_missed(client: LiveClient, count: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    while len(found) < count:
        message = client.receive()
        if message["type"] == "error":
            assert message["code"] == "missed"
            check_shape("LiveMessage", message)
            found.append(message)
    return found
