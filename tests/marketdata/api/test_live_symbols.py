"""The message ``symbol`` of ``/v1/live``: a symbol that has got its first tick."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import suppress

import pytest

from marketdata.api.serve import Service
from tests.marketdata.api.conftest import Api, Make, check_shape
from tests.marketdata.api.live_client import LiveClient

T = 1_700_000_040_000


@pytest.fixture
def client(api: Api, service: Service, read_token: str, tick: Make) -> Iterator[LiveClient]:
    """A connection that follows the ticks of one symbol."""
    api.ingest(tick(symbol="NEW:OWN", id="1", ts=T))
    with LiveClient(service.port, read_token) as connected:
        connected.subscribe("NEW:OWN", "ticks")
        yield connected


def name() -> str:
    return f"NEW:{uuid.uuid4().hex}"


def until_named(client: LiveClient, symbol: str) -> list[str]:
    """Receive until a message names ``symbol``. Returns every symbol that was named."""
    while symbol not in client.new_symbols:
        with suppress(TimeoutError):
            client.receive(0.05)
    return client.new_symbols


def test_a_symbol_is_named_at_its_first_tick_alone(api: Api, client: LiveClient, tick: Make) -> None:
    first, second = name(), name()
    api.ingest(tick(symbol=first, id="1", ts=T))
    api.ingest(tick(symbol=first, id="2", ts=T))
    api.ingest({"finalize": {"symbol": second, "block": 1}})
    api.ingest(tick(symbol=second, id="1", ts=T))
    until_named(client, first)
    named = until_named(client, second)
    # Symbols of earlier tests may be named, too. Those of one reading are named by name.
    assert sorted(symbol for symbol in named if symbol in (first, second)) == sorted([first, second])
    check_shape("LiveMessage", {"type": "symbol", "symbol": first})


def test_the_new_symbols_of_a_batch_are_named(api: Api, client: LiveClient, tick: Make) -> None:
    made = sorted(name() for _ in range(20))
    api.ingest(*(tick(symbol=each, id="1", ts=T) for each in made), tick(symbol="NEW:OWN", id="batch", ts=T))
    assert [symbol for symbol in until_named(client, made[-1]) if symbol in made] == made


def test_a_connection_without_a_subscription_gets_none(
    api: Api, client: LiveClient, service: Service, read_token: str, tick: Make
) -> None:
    symbol = name()
    with LiveClient(service.port, read_token) as idle:
        api.ingest(tick(symbol=symbol, id="1", ts=T))
        until_named(client, symbol)
        assert idle.subscribe("NEW:OWN", "1m")["type"] == "subscribed"
        assert idle.new_symbols == []
