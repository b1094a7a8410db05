"""The subscription ``summary`` of ``/v1/live``: items of ``/v1/summary``, and then those that change."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import psycopg
import pytest

from marketdata.api.live import summaries
from marketdata.api.live.subscriptions import SUMMARY_SECONDS
from marketdata.api.live.summaries import Summaries
from marketdata.api.serve import Service
from marketdata.limits import MAX_SUMMARIES
from tests.marketdata.api.conftest import Api, check_shape, eventually
from tests.marketdata.api.live_client import LiveClient

Make = Callable[..., dict[str, Any]]
Item = dict[str, Any]

DAY = 86_400_000


def now() -> int:
    return time.time_ns() // 1_000_000


@pytest.fixture
def client(service: Service, read_token: str) -> Iterator[LiveClient]:
    with LiveClient(service.port, read_token) as connected:
        yield connected


def summary(api: Api, *symbols: str) -> list[Item]:
    found: list[Item] = api.get(f"/v1/summary?symbol={','.join(symbols)}")["items"]
    return found


def follow(client: LiveClient, *symbols: str) -> list[Item]:
    """Subscribe, and return the first items."""
    client.send(op="subscribe", interval="summary", symbols=list(symbols))
    assert client.answer()["type"] == "subscribed"
    return items(client)


def items(client: LiveClient) -> list[Item]:
    """The items of the next message."""
    message = client.receive()
    assert message.keys() == {"type", "items"}
    assert message["type"] == "summary"
    check_shape("LiveMessage", message)
    found: list[Item] = message["items"]
    return found


def quiet(client: LiveClient) -> None:
    """Nothing is received for longer than two readings may be apart."""
    with pytest.raises(TimeoutError):
        client.receive(2.5)


def test_all_items_come_first_and_then_those_that_change(api: Api, client: LiveClient, tick: Make) -> None:
    names = [f"LS:ALL-{n}" for n in range(5)]
    api.ingest(*(tick(symbol=name, ts=now() - 5000) for name in names))
    client.send(op="subscribe", interval="summary", symbols=names)
    assert client.receive() == {"type": "subscribed", "interval": "summary", "symbols": names}
    assert items(client) == summary(api, *names)
    api.ingest(tick(symbol=names[3], id="2", ts=now(), price="3"), tick(symbol=names[1], id="2", ts=now()))
    received = items(client)
    assert sorted(received, key=lambda each: each["symbol"]) == summary(api, names[1], names[3])
    quiet(client)


@pytest.mark.full
def test_messages_are_a_second_apart_and_have_the_newest_state(api: Api, client: LiveClient, tick: Make) -> None:
    symbol = "LS:PACE"
    api.ingest(tick(symbol=symbol, ts=now()))
    follow(client, symbol)
    began, received = time.monotonic(), []
    for n in range(10_000):
        if time.monotonic() > began + 3.5:
            break
        api.ingest(tick(symbol=symbol, id=f"more-{n}", ts=now()))
        with suppress(TimeoutError):
            received += client.receive(0.01)["items"]
    assert 2 <= len(received) <= (time.monotonic() - began) / SUMMARY_SECONDS + 1
    final = summary(api, symbol)
    while received[-1:] != final:
        received += items(client)


def test_more_symbols_than_one_reading_takes_are_sent(api: Api, service: Service, read_token: str, tick: Make) -> None:
    parts = [[f"LS:PART-{part}-{n:03}" for n in range(MAX_SUMMARIES)] for part in range(2)]
    api.ingest(*(tick(symbol=name, id="1", ts=now()) for part in parts for name in part))
    with LiveClient(service.port, read_token) as one, LiveClient(service.port, read_token) as two:
        for client, part in zip((one, two), parts, strict=True):
            assert len(follow(client, *part)) == len(part)
        api.ingest(*(tick(symbol=name, id="2", ts=now()) for part in parts for name in part))
        for client, part in zip((one, two), parts, strict=True):
            changed: set[str] = set()
            while len(changed) < len(part):
                changed |= {each["symbol"] for each in items(client) if each["trades24h"] == 2}
            assert changed == set(part)


def test_a_retraction_changes_the_item(api: Api, client: LiveClient, tick: Make) -> None:
    symbol, at = "LS:REORG", now()
    api.ingest(
        tick(symbol=symbol, id="1", ts=at - 3, price="2", block={"number": 1, "hash": "0x1"}),
        tick(symbol=symbol, id="2", ts=at - 2, price="9", block={"number": 2, "hash": "0x2"}),
    )
    (first,) = follow(client, symbol)
    assert (first["last"], first["high24h"], first["change24h"]) == ("9", "9", "3.5")
    api.ingest({"retract": {"symbol": symbol, "block_hash": "0x2"}})
    (then,) = items(client)
    assert (then["last"], then["high24h"], then["trades24h"]) == ("2", "2", 1)


@pytest.mark.full
def test_a_late_tick_changes_the_item_only_within_24_hours(api: Api, client: LiveClient, tick: Make) -> None:
    symbol, at = "LS:LATE", now()
    api.ingest(tick(symbol=symbol, id="1", ts=at), tick(symbol=symbol, id="old", ts=at - 2 * DAY))
    follow(client, symbol)
    quiet(client)
    api.ingest(tick(symbol=symbol, id="older", ts=at - 3 * DAY, price="9"))
    quiet(client)
    api.ingest(tick(symbol=symbol, id="late", ts=at - DAY // 2, price="9"))
    assert items(client) == summary(api, symbol)


@pytest.mark.full
def test_a_trade_that_leaves_the_24_hours_changes_the_item(
    api: Api, service: Service, client: LiveClient, tick: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(summaries, "REFRESH_SECONDS", 0.5)
    monkeypatch.setattr(service.services.live._summaries, "_refresh_at", 0.0)
    symbol = "LS:AGES"
    api.ingest(tick(symbol=symbol, id="1", ts=now() - DAY + 5000), tick(symbol=symbol, id="2", ts=now() - DAY // 2))
    (first,) = follow(client, symbol)
    assert first["trades24h"] == 2
    (then,) = items(client)
    assert then == first | {"trades24h": 1, "volume24h": "2", "quote_volume24h": "3"}


@pytest.mark.full
def test_a_tick_of_a_clock_that_is_ahead_counts_when_its_time_has_come(
    api: Api, client: LiveClient, tick: Make
) -> None:
    symbol = "LS:AHEAD"
    api.ingest(tick(symbol=symbol, id="1", ts=now()))
    follow(client, symbol)
    ahead = now() + 3000
    api.ingest(tick(symbol=symbol, id="2", ts=ahead, price="7"))
    (item,) = items(client)
    assert (item["last"], item["ts"]) == ("7", ahead)
    assert now() >= ahead


@pytest.mark.full
def test_another_subscribe_replaces_the_symbols(api: Api, client: LiveClient, tick: Make) -> None:
    api.ingest(*(tick(symbol=f"LS:{name}", id="1", ts=now()) for name in "ABC"))
    follow(client, "LS:A", "LS:B")
    assert [each["symbol"] for each in follow(client, "LS:C", "LS:B", "LS:C")] == ["LS:C", "LS:B"]
    api.ingest(*(tick(symbol=f"LS:{name}", id="2", ts=now()) for name in "ABC"))
    assert {each["symbol"] for each in items(client)} == {"LS:B", "LS:C"}
    client.send(op="unsubscribe", interval="summary", symbols=["LS:B", "LS:C"])
    assert client.receive() == {"type": "unsubscribed", "interval": "summary"}
    api.ingest(tick(symbol="LS:B", id="3", ts=now()))
    quiet(client)
    client.send(op="unsubscribe", interval="summary")
    assert client.receive()["code"] == "not_subscribed"


def test_it_counts_as_one_subscription(api: Api, client: LiveClient, tick: Make) -> None:
    api.ingest(tick(symbol="LS:COUNT", ts=now()), tick(symbol="LS:COUNT-2", ts=now()))
    follow(client, "LS:COUNT", "LS:COUNT-2")
    for n in range(63):
        client.send(op="subscribe", symbol="LS:COUNT", interval="1d", timeZone=f"+{n // 60:02}:{n % 60:02}")
        assert client.answer()["type"] == "subscribed"
    client.send(op="subscribe", symbol="LS:COUNT", interval="1h")
    assert client.answer()["code"] == "too_many_subscriptions"
    follow(client, "LS:COUNT-2")


def test_as_many_long_names_as_allowed_are_followed(api: Api, client: LiveClient, tick: Make) -> None:
    names = [f"LS:{'X' * 57}-{n:03}" for n in range(MAX_SUMMARIES)]
    assert len(names[0]) == 64
    api.ingest(*(tick(symbol=name, ts=now()) for name in names))
    assert [each["symbol"] for each in follow(client, *names)] == names


def test_an_alias_stands_for_its_symbol(
    api: Api, client: LiveClient, tick: Make, admin: psycopg.Connection[Any]
) -> None:
    admin.execute("INSERT INTO market_aliases (alias, symbol) VALUES ('LS-ALIAS', 'LS:REAL')")
    api.ingest(tick(symbol="LS:REAL", id="1", ts=now()))
    client.send(op="subscribe", interval="summary", symbols=["LS-ALIAS", "LS:REAL"])
    assert client.receive() == {"type": "subscribed", "interval": "summary", "symbols": ["LS:REAL"]}
    assert [each["symbol"] for each in items(client)] == ["LS:REAL"]
    api.ingest(tick(symbol="LS-ALIAS", id="2", ts=now()))
    assert [each["symbol"] for each in items(client)] == ["LS:REAL"]


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ({"op": "subscribe"}, "invalid_value"),
        ({"op": "subscribe", "symbols": []}, "invalid_value"),
        ({"op": "subscribe", "symbols": ["LS:A"] * (MAX_SUMMARIES + 1)}, "invalid_value"),
        ({"op": "subscribe", "symbol": "LS:A", "symbols": ["LS:A"]}, "invalid_value"),
        ({"op": "subscribe", "symbols": ["LS:A"], "timeZone": "+01:00"}, "invalid_value"),
        ({"op": "subscribe", "symbols": ["LS:A"], "since": 0}, "invalid_value"),
        ({"op": "subscribe", "symbols": ["LS:A"], "symbol": "LS:A", "interval": "1m"}, "invalid_value"),
        ({"op": "subscribe", "symbols": ["LS:A", "LS:NONE"]}, "unknown_symbol"),
        ({"op": "unsubscribe"}, "not_subscribed"),
    ],
)
def test_a_wrong_message_is_answered_by_an_error(
    api: Api, client: LiveClient, tick: Make, message: dict[str, Any], code: str
) -> None:
    api.ingest(tick(symbol="LS:A", id="known", ts=now()))
    client.send_text(json.dumps({"interval": "summary"} | message))
    received = client.receive()
    assert (received["type"], received["code"]) == ("error", code), received
    assert code != "unknown_symbol" or "LS:NONE" in received["detail"]
    check_shape("LiveMessage", received)


def test_changes_during_a_lost_connection_to_the_database_are_sent(
    api: Api, service: Service, client: LiveClient, tick: Make, admin: psycopg.Connection[Any]
) -> None:
    symbol = "LS:LOST"
    api.ingest(tick(symbol=symbol, id="1", ts=now()))
    follow(client, symbol)
    admin.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE application_name = 'marketdata-api-revocations' AND datname = current_database()"
    )
    api.ingest(tick(symbol=symbol, id="2", ts=now()))
    assert items(client) == summary(api, symbol)


def test_the_end_of_a_connection_ends_its_reading(api: Api, service: Service, read_token: str, tick: Make) -> None:
    watched: Summaries = service.services.live._summaries
    api.ingest(tick(symbol="LS:END", ts=now()), tick(symbol="LS:END-2", ts=now()))
    with LiveClient(service.port, read_token) as one, LiveClient(service.port, read_token) as two:
        follow(one, "LS:END", "LS:END-2")
        follow(two, "LS:END")
        assert watched._watchers == {"LS:END": 2, "LS:END-2": 1}
    eventually(lambda: not watched._watchers)
    assert not watched._items
