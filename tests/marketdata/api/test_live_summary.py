"""The subscription ``summary`` of ``/v1/live``: items of ``/v1/summary``, and then those that change."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

import psycopg

from marketdata.api.live.subscriptions import SUMMARY_SECONDS
from tests.marketdata.api.conftest import Api, Make, check_shape, now
from tests.marketdata.api.live_client import LiveClient

Item = dict[str, Any]

DAY = 86_400_000


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


def test_all_items_come_first_and_then_those_that_change(api: Api, client: LiveClient, tick: Make) -> None:
    names = [f"LS:ALL-{n}" for n in range(5)]
    api.ingest(*(tick(symbol=name, ts=now() - 5000) for name in names))
    api.ingest(tick(symbol=names[0], id="before", ts=now() - 2 * DAY))
    client.send(op="subscribe", interval="summary", symbols=names)
    assert client.receive() == {"type": "subscribed", "interval": "summary", "symbols": names}
    assert items(client) == summary(api, *names)
    api.ingest(tick(symbol=names[3], id="2", ts=now(), price="3"), tick(symbol=names[1], id="2", ts=now()))
    received = items(client)
    assert sorted(received, key=lambda each: each["symbol"]) == summary(api, names[1], names[3])
    api.ingest(tick(symbol=names[0], id="old", ts=now() - 3 * DAY, price="9"))  # changes nothing
    api.ingest(tick(symbol=names[2], id="late", ts=now() - DAY // 2, price="9"))
    assert items(client) == summary(api, names[2])


def test_messages_are_a_second_apart_and_have_the_newest_state(api: Api, client: LiveClient, tick: Make) -> None:
    symbol, sent = "LS:PACE", 0
    api.ingest(tick(symbol=symbol, ts=now()))
    follow(client, symbol)
    began, received = time.monotonic(), []
    while len(received) < 3:
        sent += 1
        api.ingest(tick(symbol=symbol, id=f"more-{sent}", ts=now()))
        with suppress(TimeoutError):
            received += client.receive(0.01)["items"]
    assert len(received) <= (time.monotonic() - began) / SUMMARY_SECONDS + 1
    final = summary(api, symbol)
    while received[-1:] != final:
        received += items(client)


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


def test_another_subscribe_replaces_the_symbols(
    api: Api, client: LiveClient, tick: Make, admin: psycopg.Connection[Any]
) -> None:
    admin.execute("INSERT INTO market_aliases (alias, symbol) VALUES ('LS-ALIAS', 'LS:C')")
    api.ingest(*(tick(symbol=f"LS:{name}", id="1", ts=now()) for name in "ABC"))
    follow(client, "LS:A", "LS:B")
    client.send(op="subscribe", interval="summary", symbols=["LS-ALIAS", "LS:B", "LS:C"])
    assert client.receive() == {"type": "subscribed", "interval": "summary", "symbols": ["LS:C", "LS:B"]}
    assert [each["symbol"] for each in items(client)] == ["LS:C", "LS:B"]
    api.ingest(*(tick(symbol=f"LS:{name}", id="2", ts=now()) for name in "ABC"))
    assert {each["symbol"] for each in items(client)} == {"LS:B", "LS:C"}
    client.send(op="unsubscribe", interval="summary", symbols=["LS:B", "LS:C"])
    assert client.receive() == {"type": "unsubscribed", "interval": "summary"}
    api.ingest(tick(symbol="LS:B", id="3", ts=now()))
    client.send(op="unsubscribe", interval="summary")
    assert client.receive()["code"] == "not_subscribed"
    assert [each["symbol"] for each in follow(client, "LS:A")] == ["LS:A"]


def test_it_counts_as_one_subscription(api: Api, client: LiveClient, tick: Make) -> None:
    api.ingest(tick(symbol="LS:COUNT", ts=now()), tick(symbol="LS:COUNT-2", ts=now()))
    follow(client, "LS:COUNT", "LS:COUNT-2")
    for n in range(63):
        client.send(op="subscribe", symbol="LS:COUNT", interval="1d", timeZone=f"+{n // 60:02}:{n % 60:02}")
        assert client.answer()["type"] == "subscribed"
    client.send(op="subscribe", symbol="LS:COUNT", interval="1h")
    assert client.answer()["code"] == "too_many_subscriptions"
    follow(client, "LS:COUNT-2")
    for op, interval in (("subscribe", "1d"), ("unsubscribe", "1d"), ("subscribe", "1h")):  # the first replaces one
        client.send(op=op, symbol="LS:COUNT", interval=interval)
        assert client.answer()["type"] == f"{op}d"
