"""``/v1/live`` on a real listener and database: what a subscriber receives when a transaction is committed."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from marketdata.api.live import server
from marketdata.api.live.feed_reader import PACE_SECONDS
from marketdata.api.live.readings import PAGE_ROWS
from marketdata.api.live.subscriber import MAX_PENDING, RECEIVE_BYTES
from marketdata.api.serve import Service
from marketdata.settings import Settings
from marketdata.store import tokens
from marketdata.store.pool import connect
from tests.marketdata.api.conftest import Api, check_shape, eventually, new_token
from tests.marketdata.api.live_client import LiveClient

T = 1_700_000_040_000
"""The opening time of a minute."""
MINUTE = 60_000

Make = Callable[..., dict[str, Any]]


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


@pytest.fixture
def client(service: Service, read_token: str) -> Any:
    with LiveClient(service.port, read_token) as connected:
        yield connected


def test_a_stored_tick_is_pushed_as_its_candle(api: Api, client: LiveClient, tick: Make) -> None:
    api.ingest(tick(symbol="LIVE:A", id="1", ts=T))
    assert client.subscribe("LIVE:A", "1m") == {"type": "subscribed", "symbol": "LIVE:A", "interval": "1m"}
    settle(api, client, tick)
    api.ingest(tick(symbol="LIVE:A", id="2", ts=T + 1000, price="3"))
    message = client.receive()
    assert message == {"type": "candle", "symbol": "LIVE:A", "interval": "1m", "candle": chart(api, "LIVE:A")[-1]}
    assert (message["candle"]["n"], message["candle"]["h"]) == (2, "3")
    check_shape("LiveMessage", message)


@pytest.mark.parametrize(("interval", "zone"), [("1s", 0), ("5m", 0), ("1h", 0), ("1d", 330), ("1w", 0), ("1M", -480)])
def test_a_pushed_candle_of_any_interval_equals_the_charts(
    api: Api, client: LiveClient, tick: Make, interval: str, zone: int
) -> None:
    symbol = f"LIVE:{interval}{zone}"
    api.ingest(tick(symbol=symbol, id="1", ts=T - 3 * 86_400_000))
    named = {"timeZone": f"{'-' if zone < 0 else '+'}{abs(zone) // 60:02}:{abs(zone) % 60:02}"} if zone else {}
    assert client.subscribe(symbol, interval, **named) == {
        "type": "subscribed", "symbol": symbol, "interval": interval, **named
    }  # fmt: skip
    settle(api, client, tick)
    api.ingest(tick(symbol=symbol, id="2", ts=T))
    message = client.receive()
    zoned = {"timeZone": named["timeZone"].replace("+", "%2B")} if zone else {}
    assert message["candle"] == chart(api, symbol, interval, **zoned)[-1]
    assert message.get("timeZone") == named.get("timeZone")


@pytest.mark.parametrize("interval", ["1h", "4h", "1d", "1w", "1M"])
def test_a_pushed_candle_of_a_named_zone_equals_the_charts(
    api: Api, client: LiveClient, tick: Make, interval: str
) -> None:
    """This holds for new and emptied candles, and for those after ``since``, across the end of summer time on
    2023-11-05."""
    symbol, change, hour = f"LIVE:NY{interval}", 1_699_164_000_000, 3_600_000
    times = [change + n * hour for n in (-900, -30, -5, 1, 21, 23, 24, 200)]
    api.ingest(*(tick(symbol=symbol, id=f"{ts}", ts=ts, block=block(n)) for n, ts in enumerate(times)))
    settle(api, client, tick)
    named = {"symbol": symbol, "interval": interval, "timeZone": "America/New_York"}
    asked = named | {"timeZone": "america/new_york", "since": change - 40 * hour}
    client.send(op="subscribe", **asked)
    assert client.receive() == {"type": "subscribed", **named}
    whole = chart(api, symbol, interval, timeZone="America/New_York")
    expected = [candle for candle in whole if candle["t"] >= asked["since"]]
    assert client.candles(len(expected)) == expected
    api.ingest(tick(symbol=symbol, id="late", ts=change + 22 * hour))
    message = client.receive()
    assert message == {"type": "candle", **named, "candle": message["candle"]}
    (changed,) = [each for each in chart(api, symbol, interval, timeZone="America/New_York") if each not in whole]
    assert message["candle"] == changed
    api.ingest(retract(symbol, 0))
    assert client.candles() == [{"t": whole[0]["t"], "n": 0}]
    client.send(op="unsubscribe", **(named | {"timeZone": "AMERICA/NEW_YORK"}))
    assert client.receive() == {"type": "unsubscribed", **named}


def test_a_late_tick_corrects_its_candle_alone(api: Api, client: LiveClient, tick: Make) -> None:
    days = [T + each * 86_400_000 for each in range(3)]
    api.ingest(*(tick(symbol="LIVE:LATE", id=f"{each}", ts=each) for each in days))
    client.subscribe("LIVE:LATE", "1m")
    settle(api, client, tick)
    api.ingest(tick(symbol="LIVE:LATE", id="late", ts=T + 1, price="9"), tick(symbol="LIVE:LATE", id="new", ts=days[2]))
    received = sorted(client.candles(2), key=lambda candle: candle["t"])
    stored = chart(api, "LIVE:LATE")
    assert received == [stored[0], stored[2]]
    assert received[0]["h"] == "9"


def test_a_retraction_is_pushed_and_so_is_a_bucket_that_it_empties(api: Api, client: LiveClient, tick: Make) -> None:
    symbol = "LIVE:REORG"
    api.ingest(
        tick(symbol=symbol, id="1", ts=T, block=block(1)),
        tick(symbol=symbol, id="2", ts=T + 1, price="7", block=block(2)),
        tick(symbol=symbol, id="3", ts=T + MINUTE, block=block(3)),
    )
    client.subscribe(symbol, "1m")
    settle(api, client, tick)
    api.ingest(retract(symbol, 2))
    assert client.candles() == [chart(api, symbol)[0]]
    api.ingest(retract(symbol, 3))
    message = client.receive()
    assert message["candle"] == {"t": T + MINUTE, "n": 0}
    check_shape("LiveMessage", message)


@pytest.mark.parametrize("count", [2, 40])
@pytest.mark.parametrize("interval", ["1s", "1m", "1h"])
def test_a_retraction_sends_only_the_candles_that_changed(
    api: Api, client: LiveClient, tick: Make, interval: str, count: int
) -> None:
    """The ticks of the block are far apart; between them are minutes with other ticks and minutes without."""
    symbol, apart = f"LIVE:FEW{interval}{count}", 3 * 60 // count * MINUTE
    api.ingest(
        *(tick(symbol=symbol, id=f"{n}", ts=T + n * apart, block=block(1)) for n in range(count)),
        *(tick(symbol=symbol, id=f"other {n}", ts=T + n * 7 * MINUTE) for n in range(30)),
    )
    settle(api, client, tick)
    client.subscribe(symbol, interval)
    client.subscribe(symbol, "ticks")
    before = {each["t"]: each for each in chart(api, symbol, interval)}
    api.ingest(retract(symbol, 1))
    api.ingest(tick(symbol=symbol, id="mark", ts=T + 86_400_000))
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
    assert others == ["missed", "mark"]


def test_finalize_pushes_the_final_candle(api: Api, client: LiveClient, tick: Make) -> None:
    symbol = "LIVE:FINAL"
    api.ingest(*(tick(symbol=symbol, id=f"{n}", ts=T + n * MINUTE, block=block(n)) for n in range(4)))
    api.ingest({"finalize": {"symbol": symbol, "block": 1}})
    client.subscribe(symbol, "1m")
    settle(api, client, tick)
    api.ingest({"finalize": {"symbol": symbol, "block": 3}})
    received = client.candles(2)
    assert [each["finalized"] for each in received] == [True, True]
    assert received == chart(api, symbol)[1:3]


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


def test_among_many_ticks_only_removed_ones_are_reported_as_gone(api: Api, client: LiveClient, tick: Make) -> None:
    symbol, count = "LIVE:GONE", PAGE_ROWS + 100
    ends = (0, count - 1)
    api.ingest(
        *(tick(symbol=symbol, id=f"{n}", ts=T + n, block=block(2 if n in ends else 1)) for n in range(count)),
    )
    settle(api, client, tick)
    client.subscribe(symbol, "ticks", since=T)
    assert [client.receive()["id"] for _ in range(count)] == [f"{n}" for n in range(count)]
    settle(api, client, tick)
    api.ingest(retract(symbol, 2))
    received = [client.receive()]
    while received[-1].get("code") != "missed" and not received[-1].get("retracted"):
        received.append(client.receive())
    api.ingest(tick(symbol=symbol, id="after", ts=T + count))
    while received[-1].get("id") != "after":
        received.append(client.receive())
    assert [each["id"] for each in received if each.get("retracted")] == [f"{count - 1}"]
    assert [each["code"] for each in received if each["type"] == "error"] == ["missed"]


def test_a_removal_of_unsent_ticks_is_reported_as_missed(api: Api, client: LiveClient, tick: Make) -> None:
    symbol = "LIVE:UNSENT"
    api.ingest(*(tick(symbol=symbol, id=f"{n}", ts=T + n, block=block(n)) for n in (1, 2)))
    settle(api, client, tick)
    client.subscribe(symbol, "ticks")
    api.ingest(retract(symbol, 2))
    assert client.receive()["code"] == "missed"
    client.subscribe(symbol, "ticks", since=T + 1)
    assert client.receive()["id"] == "1"
    api.ingest(retract(symbol, 1))
    assert client.receive() == {"type": "tick", "symbol": symbol, "id": "1", "retracted": True}


def test_a_range_of_many_candles_is_sent_in_part_and_reported_as_missed(
    api: Api, client: LiveClient, tick: Make
) -> None:
    symbol = "LIVE:WIDE"
    api.ingest(tick(symbol=symbol, id="first", ts=T))
    client.subscribe(symbol, "1m")
    settle(api, client, tick)
    start = T - T % 86_400_000
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
        waiting = max(service.services.live._subscribers.values(), key=lambda each: len(each.pending))
        assert 0 < len(waiting.pending) <= MAX_PENDING
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
    start = T - T % 86_400_000
    api.ingest(*(tick(symbol=symbol, id=f"{n}", ts=start + n * MINUTE) for n in range(count)))
    with LiveClient(service.port, read_token, receive_buffer=4096) as slow:
        slow.subscribe(symbol, "1m", since=0)
        slow.subscribe_unanswered(symbol, "3m")
        for part in range(4):  # each changes as many candles as one pushed range may contain
            some = range(part * PAGE_ROWS, (part + 1) * PAGE_ROWS)
            api.ingest(*(tick(symbol=symbol, id=f"again-{n}", ts=start + n * MINUTE) for n in some))
        live = service.services.live
        eventually(lambda: any(each.lacking for each in live._subscribers.values()))
        assert all(len(each.pending) <= MAX_PENDING for each in live._subscribers.values())
        while (message := slow.receive()).get("code") != "missed":
            assert message["type"] in ("candle", "subscribed")


def test_an_alias_stands_for_its_symbol(
    api: Api, client: LiveClient, tick: Make, admin: psycopg.Connection[Any]
) -> None:
    admin.execute("INSERT INTO market_aliases (alias, symbol) VALUES ('LIVE-ALIAS', 'LIVE:REAL')")
    api.ingest(tick(symbol="LIVE:REAL", id="1", ts=T))
    named = {"symbol": "LIVE:REAL", "interval": "1m"}
    assert client.subscribe("LIVE-ALIAS", "1m") == {"type": "subscribed", **named, "alias": "LIVE-ALIAS"}
    settle(api, client, tick)
    api.ingest(tick(symbol="LIVE-ALIAS", id="2", ts=T))
    assert client.receive()["symbol"] == "LIVE:REAL"
    client.send(op="unsubscribe", symbol="LIVE-ALIAS", interval="1m")
    assert client.receive() == {"type": "unsubscribed", **named}


def test_after_unsubscribe_nothing_is_sent(api: Api, client: LiveClient, tick: Make) -> None:
    api.ingest(tick(symbol="LIVE:OFF", id="1", ts=T), tick(symbol="LIVE:ON", id="1", ts=T))
    client.subscribe("LIVE:OFF", "1m")
    client.subscribe("LIVE:ON", "1m")
    settle(api, client, tick)
    client.send(op="unsubscribe", symbol="LIVE:OFF", interval="1m")
    assert client.receive()["type"] == "unsubscribed"
    api.ingest(tick(symbol="LIVE:OFF", id="2", ts=T), tick(symbol="LIVE:ON", id="2", ts=T))
    assert client.receive()["symbol"] == "LIVE:ON"
    client.send(op="unsubscribe", symbol="LIVE:OFF", interval="1m")
    assert client.receive()["code"] == "not_subscribed"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("{", "malformed_json"),
        ("[]", "invalid_value"),
        ('{"op": "subscribe", "symbol": "LIVE:A"}', "invalid_value"),
        ('{"op": "subscribe", "symbol": "LIVE:A", "interval": "2m"}', "invalid_value"),
        ('{"op": "subscribe", "symbol": "LIVE:A", "interval": "1m", "since": -1}', "invalid_value"),
        ('{"op": "subscribe", "symbol": "LIVE:A", "interval": "1m", "timeZone": "Europe/Brlin"}', "invalid_value"),
        ('{"op": "subscribe", "symbol": "LIVE:A", "interval": "ticks", "timeZone": "+01:00"}', "invalid_value"),
        ('{"op": "subscribe", "symbol": "LIVE:NONE", "interval": "1m"}', "unknown_symbol"),
        ('{"op": "unsubscribe", "symbol": "LIVE:NONE", "interval": "1m"}', "not_subscribed"),
    ],
)
def test_a_wrong_message_is_answered_by_an_error(
    api: Api, client: LiveClient, tick: Make, text: str, code: str
) -> None:
    client.send_text(text)
    message = client.receive()
    assert (message["type"], message["code"]) == ("error", code)
    check_shape("LiveMessage", message)
    api.ingest(tick(symbol="LIVE:AFTER", id="1", ts=T))
    assert client.subscribe("LIVE:AFTER", "1m")["type"] == "subscribed"


def test_a_connection_has_at_most_64_subscriptions(api: Api, client: LiveClient, tick: Make) -> None:
    api.ingest(tick(symbol="LIVE:MANY", id="1", ts=T))

    def asked(op: str, interval: str, **more: str) -> dict[str, Any]:
        client.send(op=op, symbol="LIVE:MANY", interval=interval, **more)
        return client.answer()

    for n in range(64):
        assert asked("subscribe", "1d", timeZone=f"+{n // 60:02}:{n % 60:02}")["type"] == "subscribed"
    assert asked("subscribe", "1m")["code"] == "too_many_subscriptions"
    assert asked("subscribe", "1d")["type"] == "subscribed"  # replaces one
    assert asked("unsubscribe", "1d")["type"] == "unsubscribed"
    assert asked("subscribe", "1m")["type"] == "subscribed"


def test_many_messages_at_once_are_answered_in_order(api: Api, client: LiveClient, tick: Make) -> None:
    api.ingest(tick(symbol="LIVE:ORDER", id="1", ts=T))
    ops = ["subscribe", "unsubscribe"] * 200
    assert len(ops) * 60 > 2 * RECEIVE_BYTES
    for op in ops:
        client.send(op=op, symbol="LIVE:ORDER", interval="1m")
    assert [client.answer()["type"] for _ in ops] == [f"{op}d" for op in ops]


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
    service_settings: Settings, database: str, admin: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert server.TOKENS_SECONDS + server.SWEEP_SECONDS < 30
    monkeypatch.setattr(server, "TOKENS_SECONDS", 0.1)
    token = new_token(database, "read", "unnoticed")
    service = Service(service_settings)
    service.start()
    try:
        with LiveClient(service.port, token) as client:
            admin.execute("UPDATE api_tokens SET revoked_at = now() WHERE name = 'unnoticed'")
            assert client.until_closed() == 1008
    finally:
        service.stop()


def test_a_lost_database_connection_is_reported_as_missed(
    api: Api, client: LiveClient, tick: Make, admin: psycopg.Connection[Any]
) -> None:
    api.ingest(tick(symbol="LIVE:LOST", id="1", ts=T))
    client.subscribe("LIVE:LOST", "1m")
    settle(api, client, tick)
    admin.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE application_name = 'marketdata-api-revocations' AND datname = current_database()"
    )
    assert client.receive()["code"] == "missed"
    api.ingest(tick(symbol="LIVE:LOST", id="2", ts=T))
    assert client.candles() == chart(api, "LIVE:LOST")


def test_ticks_that_sql_wrote_are_pushed(
    api: Api, client: LiveClient, tick: Make, admin: psycopg.Connection[Any]
) -> None:
    api.ingest(tick(symbol="LIVE:SQL", id="1", ts=T))
    client.subscribe("LIVE:SQL", "1m")
    settle(api, client, tick)
    admin.execute(
        "INSERT INTO md_ticks_v1 (symbol, id, ts, price, size) VALUES ('LIVE:SQL', '2', to_timestamp(%s), 4, 1)",
        (T / 1000,),
    )
    assert client.candles()[0]["c"] == "4"
    admin.execute("DELETE FROM md_ticks_v1 WHERE symbol = 'LIVE:SQL'")
    assert client.candles() == [{"t": T, "n": 0}]


def test_metrics_count_connections_and_messages(api: Api, client: LiveClient, tick: Make) -> None:
    def figure(name: str) -> float:
        lines = api("GET", "/metrics", status=200).text.splitlines()
        return float(next(line.split()[1] for line in lines if line.startswith(f"{name} ")))

    api.ingest(tick(symbol="LIVE:COUNT", id="1", ts=T))
    client.subscribe("LIVE:COUNT", "1m")
    settle(api, client, tick)
    assert figure("marketdata_live_connections") >= 1
    before = figure("marketdata_live_messages_total")
    api.ingest(tick(symbol="LIVE:COUNT", id="2", ts=T))
    client.candles()
    eventually(lambda: figure("marketdata_live_messages_total") == before + 1)
    client.close()
    eventually(lambda: figure("marketdata_live_connections") == 0)


def test_a_message_has_the_text_of_the_chart(api: Api, client: LiveClient, tick: Make) -> None:
    """The bytes are the same, not only the JSON values."""
    api.ingest(tick(symbol="LIVE:TEXT", id="1", ts=T, price="1.10", size="0"))
    client.subscribe("LIVE:TEXT", "5m", since=0)
    message = json.dumps(client.receive()["candle"], separators=(",", ":"))
    assert message in api("GET", "/v1/chart?symbol=LIVE:TEXT&interval=5m", status=200).text
