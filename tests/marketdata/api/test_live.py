"""``/v1/live`` on a real listener and database: what a subscriber receives when a transaction is committed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from marketdata.api.serve import Service
from tests.marketdata.api.conftest import Api, check_shape
from tests.marketdata.api.live_client import LiveClient

T = 1_700_000_040_000
"""The opening time of a minute."""

Make = Callable[..., dict[str, Any]]


def chart(api: Api, symbol: str, interval: str = "1m", **query: Any) -> list[dict[str, Any]]:
    more = "".join(f"&{name}={value}" for name, value in query.items())
    found: list[dict[str, Any]] = api.get(f"/v1/chart?symbol={symbol}&interval={interval}{more}")["candles"]
    return found


def test_a_stored_tick_is_pushed_as_its_candle(api: Api, service: Service, read_token: str, tick: Make) -> None:
    api.ingest(tick(symbol="LIVE:A", id="1", ts=T))
    with LiveClient(service.port, read_token) as client:
        assert client.subscribe("LIVE:A", "1m") == {"type": "subscribed", "symbol": "LIVE:A", "interval": "1m"}
        api.ingest(tick(symbol="LIVE:A", id="2", ts=T + 1000, price="3"))
        message = client.receive()
        assert message == {
            "type": "candle", "symbol": "LIVE:A", "interval": "1m", "candle": chart(api, "LIVE:A")[-1]
        }  # fmt: skip
        check_shape("LiveMessage", message)
        assert (message["candle"]["n"], message["candle"]["h"]) == (2, "3")
