"""``/v1/live`` on a real listener and database: what a subscriber receives when a transaction is committed."""

from __future__ import annotations

import json
import time
import uuid
from contextlib import suppress
from typing import Any

import psycopg
import pytest

from marketdata.api.live.feed_reader import PACE_SECONDS
from marketdata.api.live.readings import PAGE_ROWS
from marketdata.api.serve import Service, Times
from marketdata.settings import Settings
from marketdata.store import tokens
from marketdata.store.pool import connect
from tests.marketdata.api.conftest import Api, Make, check_shape, new_token, running_api
from tests.marketdata.api.live_client import LiveClient

T = 1_700_000_040_000
"""The opening time of a minute."""
MINUTE, DAY = 60_000, 86_400_000

Admin = psycopg.Connection[Any]


def chart(api: Api, symbol: str, interval: str = "1m", **query: Any) -> list[dict[str, Any]]:
    more = "".join(f"&{name}={value}" for name, value in query.items())
    found: list[dict[str, Any]] = api.get(f"/v1/chart?symbol={symbol}&interval={interval}{more}")["candles"]
    return found


def block(number: int) -> dict[str, Any]:
    return {"number": number, "hash": f"0x{number}"}


def retract(symbol: str, number: int) -> dict[str, Any]:
    return {"retract": {"symbol": symbol, "block_hash": f"0x{number}"}}


def settle(api: Api, client: LiveClient, tick: Make) -> None:
    """Wait until every earlier change has been pushed. Later messages then belong to the test."""
    symbol = f"MARK:{uuid.uuid4().hex}"
    api.ingest(tick(symbol=symbol, id="0", ts=T))
    client.send(op="subscribe", symbol=symbol, interval="1m")
    while client.receive() != {"type": "subscribed", "symbol": symbol, "interval": "1m"}:
        pass
    api.ingest(tick(symbol=symbol, id="1", ts=T))
    while (received := client.receive())["symbol"] != symbol or received["candle"]["n"] != 2:
        pass
    client.send(op="unsubscribe", symbol=symbol, interval="1m")
    assert client.receive()["type"] == "unsubscribed"


def cut_notifications(admin: Admin) -> None:
    """End the connection on which the service is notified."""
    admin.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE application_name = 'marketdata-api-revocations' AND datname = current_database()"
    )


def test_a_stored_tick_is_pushed_as_its_candle(api: Api, client: LiveClient, tick: Make) -> None:
    api.ingest(tick(symbol="LIVE:A", id="1", ts=T, price="1.10", size="0"))
    assert client.subscribe("LIVE:A", "1m") == {"type": "subscribed", "symbol": "LIVE:A", "interval": "1m"}
    settle(api, client, tick)
    api.ingest(tick(symbol="LIVE:A", id="2", ts=T + 1000, price="3"))
    message = client.receive()
    assert message == {"type": "candle", "symbol": "LIVE:A", "interval": "1m", "candle": chart(api, "LIVE:A")[-1]}
    assert (message["candle"]["n"], message["candle"]["h"]) == (2, "3")
    check_shape("LiveMessage", message)
    client.subscribe("LIVE:A", "5m", since=0)
    text = json.dumps(client.receive()["candle"], separators=(",", ":"))
    assert text in api("GET", "/v1/chart?symbol=LIVE:A&interval=5m", status=200).text, "the bytes are the same, too"


def test_pushed_candles_of_all_intervals_equal_the_charts(api: Api, client: LiveClient, tick: Make) -> None:
    symbol, zones = "LIVE:EACH", {"1s": "", "1h": "+05:30", "1d": "America/New_York", "1w": "", "1M": "-08:00"}
    api.ingest(tick(symbol=symbol, id="1", ts=T - 3 * DAY))
    for interval, zone in zones.items():
        named = {"timeZone": zone} if zone else {}
        asked = {name: each.lower() for name, each in named.items()}
        subscribed = {"type": "subscribed", "symbol": symbol, "interval": interval}
        assert client.subscribe(symbol, interval, **asked) == subscribed | named
    settle(api, client, tick)
    api.ingest(tick(symbol=symbol, id="2", ts=T))
    for message in [client.receive() for _ in zones]:
        zone = zones.pop(message["interval"])
        asked = {"timeZone": zone.replace("+", "%2B")} if zone else {}
        assert message["candle"] == chart(api, symbol, message["interval"], **asked)[-1]
        assert message.get("timeZone", "") == zone
    assert not zones


def test_late_ticks_retractions_and_finality_are_pushed(api: Api, client: LiveClient, tick: Make) -> None:
    symbol = "LIVE:REORG"
    api.ingest(*(tick(symbol=symbol, id=f"{n}", ts=T + n * MINUTE, block=block(n)) for n in range(5)))
    client.subscribe(symbol, "1m")
    settle(api, client, tick)
    api.ingest(
        tick(symbol=symbol, id="late", ts=T + 1, price="9", block=block(9)), tick(symbol=symbol, id="b", ts=T + DAY)
    )
    received = sorted(client.candles(2), key=lambda candle: candle["t"])
    stored = chart(api, symbol)
    assert (received, received[0]["h"]) == ([stored[0], stored[-1]], "9")
    api.ingest(retract(symbol, 9))
    assert client.candles() == [chart(api, symbol)[0]]
    api.ingest(retract(symbol, 4))
    message = client.receive()
    assert message["candle"] == {"t": T + 4 * MINUTE, "n": 0}
    check_shape("LiveMessage", message)
    api.ingest({"finalize": {"symbol": symbol, "block": 1}})
    assert [(each["t"], each["finalized"]) for each in client.candles()] == [(T, True)]
    api.ingest({"finalize": {"symbol": symbol, "block": 3}})
    received = client.candles(2)
    assert [each["finalized"] for each in received] == [True, True]
    assert received == chart(api, symbol)[1:3]


def test_a_close_that_changes_is_pushed_as_the_next_open_too(api: Api, client: LiveClient, tick: Make) -> None:
    symbol = "LIVE:OPEN"
    api.ingest(
        tick(symbol=symbol, id="1", ts=T, price="5"),
        tick(symbol=symbol, id="2", ts=T + 10 * MINUTE, price="6", block=block(1)),
        tick(symbol=symbol, id="3", ts=T + 20 * MINUTE, price="8"),
    )
    subscribed = {"type": "subscribed", "symbol": symbol, "interval": "1m", "open": "previous"}
    assert client.subscribe(symbol, "1m", open="previous", since=T) == subscribed
    assert [client.receive()["candle"]["o"] for _ in range(3)] == ["5", "5", "6"]
    settle(api, client, tick)
    for item, opens in (
        (tick(symbol=symbol, id="4", ts=T + 1000, price="4"), {0: "5", 10: "4"}),
        (retract(symbol, 1), {10: None, 20: "4"}),
    ):
        api.ingest(item)
        found: dict[int, str | None] = {}
        while any(found.get(at, "") != price for at, price in opens.items()):
            message = client.receive()
            assert message["open"] == "previous"
            check_shape("LiveMessage", message)
            found[(message["candle"]["t"] - T) // MINUTE] = message["candle"].get("o")
    client.send(op="unsubscribe", symbol=symbol, interval="1m")
    assert client.receive()["code"] == "not_subscribed", "the subscription with another open"
    client.send(op="unsubscribe", symbol=symbol, interval="1m", open="previous")
    assert client.receive()["type"] == "unsubscribed"
    client.send(op="subscribe", symbol=symbol, interval="ticks", open="previous")
    assert client.receive()["detail"].endswith("has no meaning for the interval ticks")


@pytest.mark.parametrize(("interval", "count"), [("1s", 40), ("1m", 2), ("1h", 40)])
def test_a_retraction_sends_only_the_candles_that_changed(
    api: Api, client: LiveClient, tick: Make, interval: str, count: int
) -> None:
    """The ticks of the block are far apart; between them are minutes with other ticks and minutes without."""
    symbol, apart = f"LIVE:FEW{interval}{count}", 3 * 60 // count * MINUTE
    api.ingest(
        *(tick(symbol=symbol, id=f"{n}", ts=T + n * apart, block=block(1)) for n in range(count)),
        *(tick(symbol=symbol, id=f"other-{n}", ts=T + n * 7 * MINUTE) for n in range(30)),
    )
    settle(api, client, tick)
    client.subscribe(symbol, interval)
    client.subscribe(symbol, "ticks")
    before = {each["t"]: each for each in chart(api, symbol, interval)}
    api.ingest(retract(symbol, 1))
    api.ingest(tick(symbol=symbol, id="mark", ts=T + DAY))
    candles: list[dict[str, Any]] = []
    others: list[str] = []
    while not (candles and candles[-1]["t"] > T + 80_000_000) or "mark" not in others:
        message = client.receive()
        if message["type"] == "candle":
            candles.append(message["candle"])
        else:
            others.append(message.get("code") or message["id"])
    after = {each["t"]: each for each in chart(api, symbol, interval)}
    changed = {t: after.get(t, {"t": t, "n": 0}) for t in before | after if before.get(t) != after.get(t)}
    assert sorted(candles, key=lambda candle: candle["t"]) == [changed[t] for t in sorted(changed)]
    # Ticks between those of the block may be sent again.
    assert [each for each in others if not each.startswith("other-")] == ["missed", "mark"]


def test_a_candle_is_pushed_again_when_its_bucket_ends(api: Api, client: LiveClient, tick: Make) -> None:
    api.ingest(tick(symbol="LIVE:NOW", id="1", ts=T))
    client.subscribe("LIVE:NOW", "1s")
    settle(api, client, tick)
    api.ingest(tick(symbol="LIVE:NOW", id="2", ts=int(time.time() * 1000)))
    (first,) = (last,) = client.candles()
    if not first["closed"]:
        (last,) = client.candles()
    assert last == first | {"closed": True, "finalized": True}


def test_since_sends_all_candles_from_a_time_and_then_changes(api: Api, client: LiveClient, tick: Make) -> None:
    symbol, count = "LIVE:SINCE", 2 * PAGE_ROWS + 7
    api.ingest(*(tick(symbol=symbol, id=f"{n}", ts=T + n * MINUTE) for n in range(count)))
    settle(api, client, tick)
    client.subscribe(symbol, "1m", since=T + 2 * MINUTE)
    assert client.candles(count - 2) == chart(api, symbol, limit=10_000)[2:]
    settle(api, client, tick)
    api.ingest(tick(symbol=symbol, id="more", ts=T + count * MINUTE))
    assert client.candles() == chart(api, symbol)[-1:]


# -- ticks -------------------------------------------------------------------------------------------------------------


def test_ticks_are_pushed_once_and_named_when_they_are_retracted(api: Api, client: LiveClient, tick: Make) -> None:
    symbol = "LIVE:TICKS"
    api.ingest(tick(symbol=symbol, id="0", ts=T - 1))
    client.subscribe(symbol, "ticks", since=T - 1)
    assert client.receive()["id"] == "0"
    api.ingest(tick(symbol=symbol, id="1", ts=T, block=block(1)), tick(symbol=symbol, id="},{", ts=T, block=block(1)))
    messages = [client.receive(), client.receive()]
    if messages[0]["id"] == "0":  # its notification came after the subscription, which had read it
        messages = [messages[1], client.receive()]
    stored = api.get(f"/v1/ticks?symbol={symbol}")["ticks"]
    assert messages == [{"type": "tick", **each} for each in stored[1:]]
    api.ingest(tick(symbol=symbol, id="2", ts=T, block=block(2)))  # at the same time
    assert client.receive()["id"] == "2"
    api.ingest(retract(symbol, 2))
    message = client.receive()
    assert message == {"type": "tick", "symbol": symbol, "id": "2", "retracted": True}
    check_shape("LiveMessage", message)
    api.ingest({"restore": {"symbol": symbol, "block_hash": "0x2"}}, tick(symbol=symbol, id="2", ts=T, block=block(2)))
    assert "price" in client.receive()


# -- many changes ------------------------------------------------------------------------------------------------------


def test_a_range_of_many_candles_is_sent_in_part_and_reported_as_missed(
    api: Api, client: LiveClient, tick: Make
) -> None:
    symbol = "LIVE:WIDE"
    api.ingest(tick(symbol=symbol, id="first", ts=T))
    client.subscribe(symbol, "1m")
    settle(api, client, tick)
    start = T - T % DAY
    api.ingest(*(tick(symbol=symbol, id=f"{n}", ts=start + n * MINUTE) for n in range(PAGE_ROWS + 100)))
    missed, *rest = [client.receive() for _ in range(PAGE_ROWS + 1)]
    assert (missed["type"], missed["code"], missed["symbol"], missed["interval"]) == ("error", "missed", symbol, "1m")
    assert [each["candle"] for each in rest] == chart(api, symbol, limit=PAGE_ROWS + 1)[:-1]


def test_a_bucket_is_sent_at_most_once_in_fifty_milliseconds(api: Api, client: LiveClient, tick: Make) -> None:
    api.ingest(tick(symbol="LIVE:PACE", id="first", ts=T))
    client.subscribe("LIVE:PACE", "1m")
    settle(api, client, tick)
    began = time.monotonic()
    for n in range(60):
        api.ingest(tick(symbol="LIVE:PACE", id=f"{n}", ts=T + n))
    received = [client.receive()]
    while received[-1]["candle"]["n"] < 61:
        received.append(client.receive())
    assert len(received) <= (time.monotonic() - began) / PACE_SECONDS + 1


def test_a_slow_client_gets_the_newest_state(api: Api, service: Service, read_token: str, tick: Make) -> None:
    symbol, count, changes = "LIVE:SLOW", 3000, 30
    api.ingest(*(tick(symbol=symbol, id=f"{n}", ts=T + n * MINUTE) for n in range(count)))
    with (
        LiveClient(service.port, read_token, receive_buffer=4096) as slow,
        LiveClient(service.port, read_token) as quick,
    ):
        settle(api, quick, tick)
        slow.subscribe(symbol, "1m", since=0)  # more than the buffers of the kernel hold
        quick.subscribe(symbol, "1m")
        settle(api, quick, tick)
        last = T + (count - 1) * MINUTE
        for n in range(changes):
            api.ingest(tick(symbol=symbol, id=f"change-{n}", ts=last + n, price=f"{n + 2}"))
            quick.candles()
        newest = chart(api, symbol)[-1]
        received: list[dict[str, Any]] = []
        while newest not in received:
            received += slow.candles()
        of_last = [each for each in received if each["t"] == last]
        assert len(of_last) < changes / 3
        assert of_last[-1] == newest


def test_a_client_that_never_reads_learns_which_feeds_it_missed(
    api: Api, service: Service, read_token: str, tick: Make
) -> None:
    symbol, count = "LIVE:STUCK", 4 * PAGE_ROWS
    start = T - T % DAY
    api.ingest(*(tick(symbol=symbol, id=f"{n}", ts=start + n * MINUTE) for n in range(count)))
    with (
        LiveClient(service.port, read_token, receive_buffer=4096) as slow,
        LiveClient(service.port, read_token) as quick,
    ):
        slow.subscribe(symbol, "1m", since=0)
        slow.send(op="subscribe", symbol=symbol, interval="3m")
        for part in range(4):  # each changes as many candles as one pushed range may contain
            some = range(part * PAGE_ROWS, (part + 1) * PAGE_ROWS)
            api.ingest(*(tick(symbol=symbol, id=f"again-{n}", ts=start + n * MINUTE) for n in some))
            settle(api, quick, tick)
        while (message := slow.receive()).get("code") != "missed":
            assert message["type"] in ("candle", "subscribed")


# -- subscriptions -----------------------------------------------------------------------------------------------------


def test_an_alias_stands_for_its_symbol_until_it_is_unsubscribed(
    api: Api, client: LiveClient, tick: Make, admin: Admin
) -> None:
    admin.execute("INSERT INTO market_aliases (alias, symbol) VALUES ('LIVE-ALIAS', 'LIVE:REAL')")
    api.ingest(tick(symbol="LIVE:REAL", id="1", ts=T), tick(symbol="LIVE:ON", id="1", ts=T))
    named = {"symbol": "LIVE:REAL", "interval": "1m"}
    assert client.subscribe("LIVE-ALIAS", "1m") == {"type": "subscribed", **named, "alias": "LIVE-ALIAS"}
    client.subscribe("LIVE:ON", "1m")
    settle(api, client, tick)
    api.ingest(tick(symbol="LIVE-ALIAS", id="2", ts=T))
    assert client.receive()["symbol"] == "LIVE:REAL"
    client.send(op="unsubscribe", symbol="LIVE-ALIAS", interval="1m")
    assert client.receive() == {"type": "unsubscribed", **named}
    api.ingest(tick(symbol="LIVE:REAL", id="3", ts=T), tick(symbol="LIVE:ON", id="2", ts=T))
    assert client.receive()["symbol"] == "LIVE:ON"
    client.send(op="unsubscribe", symbol="LIVE-ALIAS", interval="1m")
    assert client.receive()["code"] == "not_subscribed"


def test_a_wrong_message_is_answered_by_an_error(api: Api, client: LiveClient, tick: Make) -> None:
    api.ingest(tick(symbol="LIVE:KNOWN", id="1", ts=T))
    subscribe: dict[str, Any] = {"op": "subscribe", "symbol": "LIVE:KNOWN", "interval": "1m"}
    for text, code in (
        ("{", "malformed_json"),
        ("[]", "invalid_value"),
        (json.dumps({"op": "subscribe", "symbol": "LIVE:KNOWN"}), "invalid_value"),
        (json.dumps(subscribe | {"interval": "2m"}), "invalid_value"),
        (json.dumps(subscribe | {"since": -1}), "invalid_value"),
        (json.dumps(subscribe | {"timeZone": "Europe/Brlin"}), "invalid_value"),
        (json.dumps(subscribe | {"interval": "ticks", "timeZone": "+01:00"}), "invalid_value"),
        (json.dumps({"op": "subscribe", "interval": "summary"}), "invalid_value"),
        (json.dumps({"op": "subscribe", "interval": "summary", "symbols": ["LIVE:NONE"]}), "unknown_symbol"),
        (json.dumps(subscribe | {"symbol": "LIVE:NONE"}), "unknown_symbol"),
        (json.dumps(subscribe | {"op": "unsubscribe"}), "not_subscribed"),
    ):
        client.send_text(text)
        message = client.receive()
        assert (message["type"], message["code"]) == ("error", code), text
        check_shape("LiveMessage", message)
    assert client.subscribe("LIVE:KNOWN", "1m")["type"] == "subscribed"


# -- processes, tokens, and lost notifications -------------------------------------------------------------------------


def test_another_process_pushes_too_and_says_that_it_ends(api: Api, service_settings: Settings, tick: Make) -> None:
    api.ingest(tick(symbol="LIVE:TWO", id="1", ts=T))
    with running_api(service_settings) as other:
        client = LiveClient(other.service.port, other.tokens["read"])
        client.subscribe("LIVE:TWO", "1m")
        api.ingest(tick(symbol="LIVE:TWO", id="2", ts=T))
        while client.candles()[0]["n"] < 2:
            pass
    with client:
        assert client.until_closed() == 1001


def test_a_revoked_token_ends_its_connections_at_once(
    api: Api, service: Service, database: str, read_token: str, tick: Make
) -> None:
    api.ingest(tick(symbol="LIVE:REVOKED", id="1", ts=T))
    token = new_token(database, "read", "live")
    with LiveClient(service.port, token) as revoked, LiveClient(service.port, read_token) as other:
        revoked.subscribe("LIVE:REVOKED", "1m")
        other.subscribe("LIVE:REVOKED", "1m")
        settle(api, other, tick)
        with connect(database) as connection:
            identity = next(each.id for each in tokens.list_all(connection) if each.name == "live")
            tokens.revoke(connection, identity)
        assert revoked.until_closed() == 1008
        api.ingest(tick(symbol="LIVE:REVOKED", id="2", ts=T))
        assert other.candles() == chart(api, "LIVE:REVOKED")


def test_a_revocation_without_a_notification_ends_connections(
    service_settings: Settings, database: str, admin: Admin
) -> None:
    usual = Times()
    assert usual.tokens + usual.sweep < usual.token_cache
    token = new_token(database, "read", "unnoticed")
    with running_api(service_settings, Times(tokens=0.1)) as api, LiveClient(api.service.port, token) as client:
        admin.execute("UPDATE api_tokens SET revoked_at = now() WHERE name = 'unnoticed'")
        assert client.until_closed() == 1008


def test_after_a_lost_database_connection_clients_learn_what_they_may_have_missed(
    api: Api, client: LiveClient, tick: Make, admin: Admin
) -> None:
    api.ingest(tick(symbol="LIVE:LOST", id="1", ts=T))
    client.subscribe("LIVE:LOST", "1m")
    settle(api, client, tick)
    cut_notifications(admin)
    symbol = f"LIVE:{uuid.uuid4().hex}"
    api.ingest(tick(symbol=symbol, id="1", ts=T))
    assert client.receive()["code"] == "missed"
    api.ingest(tick(symbol="LIVE:LOST", id="2", ts=T))
    assert client.candles() == chart(api, "LIVE:LOST")
    while symbol not in client.new_symbols:
        with suppress(TimeoutError):
            client.receive(0.05)
