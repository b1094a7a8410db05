"""Charts, ticks, symbols, coverage: what is answered, in which form, and when the answer is 304."""

from __future__ import annotations

import csv
import gzip
import io
import json
from itertools import pairwise
from typing import Any

import psycopg
import pytest

from marketdata.api.app import make_app
from marketdata.store.ticks import STREAM_PAGE
from tests.marketdata.api.conftest import Api, Make

START = 1_700_000_040_000  # 2023-11-14T22:14:00Z, a whole minute


@pytest.fixture(scope="module")
def minutes(service: Any, read_token: str, write_token: str) -> str:
    """A symbol with two ticks in each of ten minutes."""
    Api(service, read_token, write_token).ingest(
        *(
            {"symbol": "READ:A", "id": f"{n:02}", "ts": START + n * 30_000, "price": f"{100 + n}.50", "size": "2",
             "side": "buy"}
            for n in range(20)
        )
    )  # fmt: skip
    return "READ:A"


def test_a_chart_has_candles_and_says_whether_there_are_more(api: Api, minutes: str) -> None:
    found = api.get(f"/v1/chart?symbol={minutes}&interval=1m&limit=2&startTime={START}")
    assert (found["symbol"], found["interval"], found["more"]) == (minutes, "1m", True)
    assert found["candles"][0] == {
        "t": START, "T": START + 59_999, "o": "100.5", "h": "101.5", "l": "100.5", "c": "101.5", "v": "4", "q": "404",
        "n": 2, "vwap": "101", "bv": "4", "closed": True, "finalized": True,
    }  # fmt: skip
    after = found["candles"][-1]["t"] + 1
    rest = api.get(f"/v1/chart?symbol={minutes}&interval=1m&startTime={after}")
    assert len(rest["candles"]) == 8
    assert not rest["more"]


def test_all_formats_of_a_chart_have_the_same_candles(api: Api, minutes: str) -> None:
    path = f"/v1/chart?symbol={minutes}&interval=1m"
    candles = api.get(path)["candles"]
    columns = api.get(path + "&format=columns")["candles"]
    assert {name: [each[name] for each in candles] for name in candles[0]} == columns
    binance = api.get(path + "&format=binance")
    assert [row[:7] for row in binance] == [[c["t"], c["o"], c["h"], c["l"], c["c"], c["v"], c["T"]] for c in candles]
    assert {len(row) for row in binance} == {12}
    ccxt = api.get(path + "&format=ccxt")
    assert ccxt == [[c["t"], *(float(c[name]) for name in "ohlcv")] for c in candles]
    text = api("GET", path + "&format=csv", status=200).text
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["q"] for row in rows] == [c["q"] for c in candles]


def test_candles_open_at_the_close_before_in_every_format(api: Api, tick: Make) -> None:
    """The close before counts also where it is before the requested range, or is a long time ago."""
    prices = ("10", "12", "12", "9", "9.5")
    api.ingest(
        *(
            tick(symbol="READ:CONNECTED", id=f"{at}", ts=START + at * 7 * 60_000, price=price)
            for at, price in enumerate(prices)
        )
    )
    path = "/v1/chart?symbol=READ:CONNECTED&interval=1m&open=previous"
    wanted = [("10", "10", "10", "10"), ("10", "12", "10", "12"), ("12", "12", "12", "12"), ("12", "12", "9", "9"),
              ("9", "9.5", "9", "9.5")]  # fmt: skip
    found = [tuple(each[name] for name in "ohlc") for each in api.get(path)["candles"]]
    assert found == wanted
    for more in (f"&startTime={START + 7 * 180_000}", "&limit=2", "&limit=2&sort=desc"):
        some = [tuple(each[name] for name in "ohlc") for each in api.get(path + more)["candles"]]
        assert sorted(some) == sorted(wanted[3:]), more
    columns = api.get(path + "&format=columns")["candles"]
    assert list(zip(*(columns[name] for name in "ohlc"), strict=True)) == wanted
    assert [tuple(row[1:5]) for row in api.get(path + "&format=binance")] == wanted
    assert [tuple(row[1:5]) for row in api.get(path + "&format=ccxt")] == [tuple(map(float, row)) for row in wanted]
    rows = csv.DictReader(io.StringIO(api("GET", path + "&format=csv", status=200).text))
    assert [tuple(row[name] for name in "ohlc") for row in rows] == wanted
    filled = api.get(path + "&fill=previous")["candles"]
    assert all(after["o"] == before["c"] for before, after in pairwise(filled))
    raw = api.get("/api/v3/klines?symbol=READ:CONNECTED&interval=1m")
    assert [row[1] for row in raw] == list(prices), "the clients of exchanges get the first price"


def test_a_chart_follows_the_time_zone_and_fills_gaps(api: Api, minutes: str) -> None:
    path = f"/v1/chart?symbol={minutes}&interval=1d&timeZone="
    shifted = api.get(path + "+05:30")["candles"][0]["t"]
    assert shifted == api.get(path + "%2B05:30")["candles"][0]["t"]
    assert shifted % 86_400_000 == 86_400_000 - (5 * 60 + 30) * 60_000
    seconds = f"/v1/chart?symbol={minutes}&interval=1s&startTime={START}&endTime={START + 59_000}"
    assert len(api.get(seconds)["candles"]) == 2
    assert [c["n"] for c in api.get(seconds + "&fill=previous")["candles"]] == [1] + [0] * 29 + [1] + [0] * 29


def test_tradingview_gets_the_days_of_a_time_zone(api: Api, tick: Make) -> None:
    api.ingest(tick(symbol="READ:UDFZONE", id="1", ts=1_711_839_600_000))
    path = "/v1/udf/history?symbol=READ:UDFZONE&resolution=1D&from=1711000000&to=1712000000&timeZone="
    assert api.get(path + "Europe/Berlin")["t"] == [1_711_839_600]
    assert api.get(path + "+00:00")["t"] == [1_711_756_800]
    info = "/v1/udf/symbols?symbol=READ:UDFZONE"
    for asked, told in (("europe/berlin", "Europe/Berlin"), ("+05:30", "Etc/UTC")):
        assert api.get(f"{info}&timeZone={asked}")["timezone"] == told
    assert api.get(info)["timezone"] == "Etc/UTC"
    for each in (info, path.partition("&timeZone")[0]):
        problem = api.problem("GET", each + "&timeZone=CEST", status=422, code="invalid_value")
        assert problem["errors"][0]["pointer"] == "/timeZone"
        assert problem["s"] == "error"


def test_an_invalid_query_is_refused(api: Api, minutes: str) -> None:
    good = "symbol=READ:A&interval=1m"
    for query in (
        "", "symbol=READ:A", "symbol=READ:A&interval=7m", f"{good}&resolution=1", f"{good}&limit=10001",
        f"{good}&limit=0", f"{good}&limit=x", f"{good}&timeZone=14:30", f"{good}&startTime=yesterday",
        f"{good}&startTime=2024-02-30T00:00:00Z", f"{good}&startTime=200000000000&endTime=100000000000",
        f"{good}&symbol=READ:A", f"{good}&unknown=1", f"{good}&format=xml", "symbol=%ff&interval=1m",
        "symbol=%00&interval=1m", "symbol=a%27%3B--&interval=1m",
    ):  # fmt: skip
        found = api("GET", f"/v1/chart?{query}")
        assert (found.status_int, found.json["code"]) == (422, "invalid_value"), query


def test_a_bound_that_looks_like_seconds_is_refused_with_the_way_out(api: Api, minutes: str) -> None:
    for path, name in (("/v1/chart?interval=1m&", "startTime"), ("/v1/ticks?", "endTime")):
        for text in ("1", str(START // 1000), "99999999999", "1700000000.5"):
            query = f"{path}symbol={minutes}&{name}={text}"
            found = api.problem("GET", query, status=422, code="invalid_value")
            assert found["errors"] == [{"pointer": f"/{name}", "message": "looks like seconds; multiply by 1000"}], (
                query
            )
        for text in ("0", "100000000000", "1970-01-01T00:00:01Z"):
            api.get(f"{path}symbol={minutes}&{name}={text}")


def test_an_unknown_symbol_is_not_found(api: Api) -> None:
    for path in (
        "/v1/chart?interval=1m", "/v1/ticks?limit=1", "/v1/coverage?", "/v1/ticks?format=csv", "/v1/udf/symbols?",
        "/v1/udf/history?resolution=1&from=1&to=2",
    ):  # fmt: skip
        api.problem("GET", f"{path}&symbol=NO:SUCH", status=404, code="unknown_symbol")


def test_an_answer_is_given_again_until_it_changes(api: Api, tick: Make) -> None:
    symbol = "READ:AGAIN"
    api.ingest(tick(symbol=symbol))
    paths = (f"/v1/chart?symbol={symbol}&interval=1d", f"/v1/ticks?symbol={symbol}", "/v1/symbols")
    for late, path in enumerate(paths, start=1):
        first = api("GET", path, status=200)
        tag = {"If-None-Match": first.headers["ETag"]}
        again = api("GET", path, headers=tag, status=304)
        assert again.body == b""
        assert again.headers["ETag"] == first.headers["ETag"]
        assert again.headers["Cache-Control"] == "private, no-cache"
        repeated = api("GET", path, status=200)
        assert {**repeated.json, "as_of": 0} == {**first.json, "as_of": 0}
        api.ingest(tick(symbol=symbol, id=path, ts=1_600_000_000_000 - late))
        changed = api("GET", path, headers=tag, status=200)
        assert changed.headers["ETag"] != first.headers["ETag"]
        assert changed.json != first.json


def test_other_writers_are_seen_at_once(api: Api, minutes: str, database: str) -> None:
    path = "/v1/chart?symbol=READ:RAW&interval=1d"
    insert = "INSERT INTO md_ticks_v1 (symbol, id, ts, price, size) VALUES ('READ:RAW', %s, '2024-01-01Z', %s, 1)"
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(insert, ("1", 5))
        assert api.get(path)["candles"][0]["c"] == "5"
        connection.execute(insert, ("2", 7))
        assert api.get(path)["candles"][0]["c"] == "7"
        connection.execute("DELETE FROM md_ticks_v1 WHERE symbol = 'READ:RAW' AND id = '2'")
        assert api.get(path)["candles"][0]["c"] == "5"


ACCEPTED = {"gzip": True, "br, *;q=0.1": True, "gzip;q=0": False, "identity": False}
"""Values of Accept-Encoding, and whether the answer is compressed then."""


def asked(api: Api, path: str, accepted: str, method: str = "GET") -> Any:
    """The answer as it is sent; webtest itself would decode it."""
    headers = {"Accept-Encoding": accepted, "Authorization": f"Bearer {api.tokens['read']}"}
    request = api.app.RequestClass.blank(path, method=method, headers=headers)
    return request.get_response(make_app(api.service.services))


def test_large_bodies_are_compressed_where_the_client_accepts_it(api: Api, minutes: str) -> None:
    path = f"/v1/chart?symbol={minutes}&interval=1s&fill=previous&startTime={START}"
    wide = api("GET", path, status=200)
    assert "Content-Encoding" not in wide.headers
    assert wide.headers["Vary"] == "Accept-Encoding"
    for accepted, coded in ACCEPTED.items():
        response = asked(api, path, accepted)
        assert (response.headers.get("Content-Encoding") == "gzip") == coded, accepted
        body = gzip.decompress(response.body) if coded else response.body
        assert json.loads(body)["candles"] == wide.json["candles"], accepted
    assert "Content-Encoding" not in asked(api, f"{path}&limit=1", "gzip").headers


@pytest.mark.parametrize("format", ["csv", "ndjson"])
def test_streams_are_compressed_where_the_client_accepts_it(api: Api, tick: Make, format: str) -> None:
    symbol = f"READ:PACKED:{format}"
    for first in range(0, 2 * STREAM_PAGE + 7, 10_000):
        many = range(first, min(first + 10_000, 2 * STREAM_PAGE + 7))
        api.ingest(*(tick(symbol=symbol, id=f"{n:05}", ts=START + n // 3) for n in many))
    path = f"/v1/ticks?symbol={symbol}&format={format}"
    plain = api("GET", path, status=200)
    assert (plain.headers["Vary"], "Content-Encoding" in plain.headers) == ("Accept-Encoding", False)
    assert plain.text.count(symbol) == 2 * STREAM_PAGE + 7
    for accepted, coded in ACCEPTED.items():
        for method in ("GET", "HEAD"):
            response = asked(api, path, accepted, method)
            assert (response.headers.get("Content-Encoding") == "gzip") == coded, accepted
            assert response.headers["Vary"] == "Accept-Encoding"
            body = gzip.decompress(response.body) if coded and method == "GET" else response.body
            assert body == (plain.body if method == "GET" else b""), accepted


def test_pages_of_ticks_survive_inserts(api: Api, tick: Make) -> None:
    symbol = "READ:PAGES"
    api.ingest(*(tick(symbol=symbol, id=f"{n:03}", ts=START + n // 3) for n in range(50)))
    for query in (f"startTime={START - 1}", "sort=desc"):
        seen: list[str] = []
        path = f"/v1/ticks?symbol={symbol}&limit=7&{query}"
        page = api.get(path)
        while True:
            seen += [each["id"] for each in page["ticks"]]
            if page["next_cursor"] is None:
                break
            api.ingest(tick(symbol=symbol, id=f"late {len(seen)}".replace(" ", "-"), ts=START - 10_000))
            page = api.get(f"{path}&cursor={page['next_cursor']}")
        wanted = [f"{n:03}" for n in range(50)]
        mine = [each for each in seen if not each.startswith("late")]
        assert mine == (wanted if "start" in query else wanted[::-1])
        assert len(seen) == len(set(seen))


def test_a_cursor_that_is_none(api: Api, minutes: str) -> None:
    for cursor in ("abc", "W10", "e30=", "WzEsMiwzLDRd", "%00", "x" * 601):
        api.problem("GET", f"/v1/ticks?symbol={minutes}&cursor={cursor}", status=422, code="invalid_value")


def test_all_formats_of_ticks_have_the_same_ticks(api: Api, minutes: str) -> None:
    objects = api.get(f"/v1/ticks?symbol={minutes}&startTime={START}")["ticks"]
    lines = api("GET", f"/v1/ticks?symbol={minutes}&format=ndjson", status=200).text.splitlines()
    assert [json.loads(line) for line in lines] == objects
    rows = list(csv.DictReader(io.StringIO(api("GET", f"/v1/ticks?symbol={minutes}&format=csv", status=200).text)))
    assert [(row["id"], row["price"]) for row in rows] == [(each["id"], each["price"]) for each in objects]
    page = api("GET", f"/v1/ticks?symbol={minutes}&format=csv&limit=3&startTime={START}", status=200)
    assert len(page.text.splitlines()) == 4
    following = page.headers["X-Next-Cursor"]
    after = api("GET", f"/v1/ticks?symbol={minutes}&format=ndjson&limit=3&cursor={following}", status=200)
    assert json.loads(after.text.splitlines()[0]) == objects[3]
    api.problem("GET", f"/v1/ticks?symbol={minutes}&format=csv&cursor={following}", status=422, code="invalid_value")


def test_a_symbol_has_its_first_and_last_time(api: Api, minutes: str) -> None:
    found = {each["symbol"]: each for each in api.get("/v1/symbols")["symbols"]}
    assert (found[minutes]["first"], found[minutes]["last"]) == (START, START + 19 * 30_000)


def test_an_alias_stands_for_its_symbol(api: Api, minutes: str, database: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("INSERT INTO market_aliases (alias, symbol) VALUES ('SHORT', %s)", (minutes,))
    assert api.get("/v1/chart?symbol=SHORT&interval=1h")["symbol"] == minutes
    assert api.get("/v1/ticks?symbol=SHORT")["symbol"] == minutes
    assert next(each for each in api.get("/v1/symbols")["symbols"] if each["symbol"] == minutes)["aliases"] == ["SHORT"]
    assert [each["symbol"] for each in api.get("/v1/udf/search?query=shor")] == [minutes]


# -- coverage and leases ---------------------------------------------------------------------------------------------

DAY = 86_400_000


def test_coverage_tells_indexed_times_from_times_without_trades(api: Api, tick: Make) -> None:
    symbol = "READ:COVER"
    api.ingest(tick(symbol=symbol, ts="1970-01-11T00:00:00.005Z"))

    def note(start: int, end: int, state: str) -> None:
        api("PUT", "/v1/coverage", {"symbol": symbol, "from": start, "to": end, "state": state}, status=200)

    def ranges_in_days() -> list[tuple[float, float, str]]:
        ranges = api.get(f"/v1/coverage?symbol={symbol}")["ranges"]
        return [(each["from"] / DAY, each["to"] / DAY, each["state"]) for each in ranges]

    assert ranges_in_days() == []
    note(8 * DAY, 12 * DAY, "indexed")
    assert ranges_in_days() == [(8, 10, "no_trades"), (10, 11, "indexed"), (11, 12, "no_trades")]
    note(20 * DAY, 21 * DAY, "failed")
    note(11 * DAY, 20 * DAY, "failed")
    assert ranges_in_days() == [(8, 10, "no_trades"), (10, 11, "indexed"), (11, 21, "failed")]
    note(10 * DAY + DAY // 2, 30 * DAY, "indexed")
    assert ranges_in_days() == [(8, 10, "no_trades"), (10, 11, "indexed"), (11, 30, "no_trades")]
    assert api("GET", f"/v1/coverage?symbol={symbol}", authorization=f"Bearer {api.tokens['write']}", status=200)


def test_an_invalid_coverage_is_refused(api: Api) -> None:
    good = {"symbol": "A", "from": 1, "to": 2, "state": "indexed"}
    for body in ({}, good | {"to": 0}, good | {"state": "no_trades"}):
        api.problem("PUT", "/v1/coverage", body, status=422, code="invalid_value")


def test_a_lease_has_one_holder(api: Api) -> None:
    path = "/v1/lease/ingestor:md_ticks_v1"
    mine = api("PUT", path, {"holder": "one", "ttl_s": 60}, status=200).json
    assert api("PUT", path, {"holder": "one", "ttl_s": 60}, status=200).json["fencing"] == mine["fencing"]
    assert api.problem("PUT", path, {"holder": "two", "ttl_s": 60}, status=409, code="lease_held")["holder"] == "one"
    api.problem("DELETE", path, {"holder": "two"}, status=409, code="lease_held")
    assert api("DELETE", path, {"holder": "one"}, status=200).json["released"]
    assert not api("DELETE", path, {"holder": "one"}, status=200).json["released"]
    assert api("PUT", path, {"holder": "two", "ttl_s": 60}, status=200).json["fencing"] > mine["fencing"]
    api.problem("PUT", path, {"holder": "two", "ttl_s": 0}, status=422, code="invalid_value")
    api.problem("PUT", "/v1/lease/a%20b", {"holder": "two", "ttl_s": 1}, status=422, code="invalid_value")
