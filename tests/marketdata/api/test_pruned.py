"""Answers about a symbol whose older ticks are pruned, and refusals of what is before the line."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from marketdata.api.serve import Service
from marketdata.store import prune
from marketdata.store.pool import connect
from marketdata.store.version import Version
from tests.marketdata.api.conftest import Api
from tests.marketdata.api.live_client import LiveClient
from tests.marketdata.store.test_prune import moment

LINE = 1_700_006_400_000
"""2023-11-15, in milliseconds."""
SYMBOL = "PRUNED:A"
BEFORE = f"ticks of {SYMBOL} before 2023-11-15T00:00:00Z are pruned"
DETAIL = f"{BEFORE}: ask for times from then on, or for candles of 1m or longer"


def tick(number: int, ts: int, **more: Any) -> dict[str, Any]:
    return {"symbol": SYMBOL, "id": f"{number}", "ts": ts, "price": "2", "size": "1", **more}


def block(number: int) -> dict[str, Any]:
    return {"block": {"number": number, "hash": f"0x{number}"}}


@pytest.fixture(scope="module", autouse=True)
def _pruned(service: Service, database: str, write_token: str, read_token: str) -> None:
    api = Api(service, read_token, write_token)
    times = (LINE - 90_000, LINE - 30_000, LINE + 30_000, LINE + 90_000)
    api.ingest(*(tick(number, ts, **block(number)) for number, ts in enumerate(times)))
    api.ingest({"retract": {"symbol": SYMBOL, "block_hash": "0x1"}})
    api.ingest({"finalize": {"symbol": SYMBOL, "block": 2}})
    version = Version.of("md", 1)
    with connect(database) as connection:
        (line,) = prune.lines(connection, version, moment(LINE * 1000 + 86_400_000_000), [SYMBOL])
        prune.draw(connection, version, line)
        assert [
            sum(prune.delete(connection, version, each, 9)) for each in prune.below(connection, version, [SYMBOL])
        ] == [1]


def test_items_before_the_line_are_rejected_by_name(api: Api) -> None:
    found = api.ingest(
        tick(9, LINE - 1),
        {"retract": {"symbol": SYMBOL, "block_hash": "0x0"}},
        {"restore": {"symbol": SYMBOL, "block_hash": "0x0"}},
        {"retract": {"symbol": SYMBOL, "block_hash": "0x77"}},
        tick(3, LINE + 90_000, **block(3)),
    )
    assert [(each["index"], each["code"]) for each in found["rejected"]] == [(n, "pruned") for n in range(3)]
    assert (found["accepted"], found["duplicates"]) == (1, 1)
    assert api.problem("POST", "/v1/ingest/tick", tick(9, LINE - 1), status=409, code="pruned")["pruned_until"] == LINE


def test_what_needs_pruned_ticks_is_refused(api: Api) -> None:
    chart, ticks = f"/v1/chart?symbol={SYMBOL}&interval=1s", f"/v1/ticks?symbol={SYMBOL}"
    for path in (
        f"{chart}&startTime={LINE - 1000}", f"{chart}&endTime={LINE - 1}", f"{chart}&fill=previous&startTime=0",
        f"{chart}&format=csv&endTime={LINE + 1}", f"{ticks}&startTime={LINE - 1}", f"{ticks}&endTime={LINE + 1}",
        f"{ticks}&format=ndjson",
        f"/v1/udf/history?symbol={SYMBOL}&resolution=1S&from={LINE // 1000 - 9}&to={LINE // 1000 + 99}",
    ):  # fmt: skip
        found = api.problem("GET", path, status=409, code="pruned")
        assert (found["detail"], found["pruned_until"]) == (DETAIL, LINE), path
    for path in (f"klines?interval=1s&startTime={LINE - 1000}", "aggTrades?fromId=0"):
        found = api("GET", f"/api/v3/{path}&symbol={SYMBOL}", status=409).json
        assert found == {"code": -1130, "msg": f"Data sent for a parameter is not valid: {DETAIL}"}, path


def test_backwards_the_answer_ends_at_the_line_and_says_that_there_is_more(api: Api) -> None:
    found = api.get(f"/v1/chart?symbol={SYMBOL}&interval=1s")
    assert ([each["t"] for each in found["candles"]], found["more"]) == ([LINE + 30_000, LINE + 90_000], True)
    page = api.get(f"/v1/ticks?symbol={SYMBOL}&sort=desc")
    assert [each["id"] for each in page["ticks"]] == ["3", "2"]
    following = f"/v1/ticks?symbol={SYMBOL}&sort=desc&cursor={page['next_cursor']}"
    assert api.problem("GET", following, status=409, code="pruned")["detail"] == DETAIL
    assert [each["id"] for each in api.get(f"/api/v3/trades?symbol={SYMBOL}")] == [1, 2]
    assert [each["n"] for each in api.get(f"/v1/chart?symbol={SYMBOL}&interval=1d")["candles"]] == [1, 2]


def test_a_cached_answer_is_not_shown_after_a_prune(api: Api, database: str) -> None:
    """The line changes the counter of the symbol."""
    name = "PRUNED:CACHED"
    api.ingest(tick(1, LINE - 5000, symbol=name), tick(2, LINE + 5000, symbol=name))
    path = f"/v1/chart?symbol={name}&interval=1s&startTime={LINE - 9000}"
    assert len(api.get(path)["candles"]) == len(api.get(path)["candles"]) == 2
    with connect(database) as connection:
        for line in prune.lines(connection, Version.of("md", 1), moment(LINE * 1000), [name]):
            prune.draw(connection, Version.of("md", 1), line)
    api.problem("GET", path, status=409, code="pruned")


@pytest.mark.parametrize("interval", ["1s", "ticks"])
def test_since_before_the_line_is_an_error(service: Service, read_token: str, interval: str) -> None:
    """The subscription remains after the error."""
    with LiveClient(service.port, read_token) as client:
        client.send(op="subscribe", symbol=SYMBOL, interval=interval, since=LINE - 1000)
        assert client.receive()["type"] == "subscribed"
        error = {"type": "error", "symbol": SYMBOL, "interval": interval, "code": "pruned", "detail": DETAIL}
        assert client.receive() == error | {"pruned_until": LINE}
        client.send(op="unsubscribe", symbol=SYMBOL, interval=interval)
        assert client.receive()["type"] == "unsubscribed"


def test_clients_of_sql_are_refused(admin: psycopg.Connection[Any]) -> None:
    """Refused are a tick below the line, alone or with others, and the deletion of a tick below the line that is still
    stored."""
    name = "PRUNED:SQL"
    insert = (
        "INSERT INTO md_ticks_v1 (symbol, id, ts, price, size) SELECT %s, ts, to_timestamp(ts), 1, 1 FROM unnest(%s) ts"
    )
    admin.execute(insert, (name, [LINE // 1000 - 2, LINE // 1000]))
    admin.execute("UPDATE md_symbols_v1 SET pruned_until = to_timestamp(%s) WHERE symbol = %s", (LINE // 1000, name))
    for statement, values in (
        (insert, (name, [LINE // 1000 - 1])),
        (insert, (name, [LINE // 1000 + 1, LINE // 1000 - 1])),
        ("DELETE FROM md_ticks_v1 WHERE symbol = %s", (name,)),
    ):
        with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match=f"ticks of {name} before 2023-11-15"):
            admin.execute(statement, values)  # type: ignore[arg-type]
    assert (
        admin.execute("DELETE FROM md_ticks_v1 WHERE symbol = %s AND id = %s", (name, f"{LINE // 1000}")).rowcount == 1
    )
