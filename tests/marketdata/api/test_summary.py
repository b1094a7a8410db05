"""``GET /v1/summary``; the sums themselves are tested in ``tests/marketdata/store/test_summary.py``."""

from __future__ import annotations

from marketdata.limits import DEFAULT_SUMMARIES, MAX_SUMMARIES
from tests.marketdata.api.conftest import Api, Make, now

HOUR = 3_600_000


def test_items_have_exact_amounts(api: Api, tick: Make) -> None:
    at = now()
    api.ingest(
        tick(symbol="SUM:A", id="old", ts=at - 30 * HOUR, price="3.00"),
        tick(symbol="SUM:A", id="1", ts=at - 2 * HOUR, price="2.10", size="0.1"),
        tick(symbol="SUM:A", id="2", ts=at - HOUR, price="4", size="0.2"),
        tick(symbol="SUM:B", id="1", ts=at - 48 * HOUR, price="7"),
    )
    found = api.get("/v1/summary?symbol=SUM:B,SUM:A,SUM:B")
    assert at <= found["as_of"] <= now() + 1
    assert found["items"] == [
        {"symbol": "SUM:B", "last": "7", "ts": at - 48 * HOUR, "open24h": "7", "change24h": "0", "high24h": None,
         "low24h": None, "volume24h": "0", "quote_volume24h": "0", "trades24h": 0},
        {"symbol": "SUM:A", "last": "4", "ts": at - HOUR, "open24h": "3", "change24h": "0.333333", "high24h": "4",
         "low24h": "2.1", "volume24h": "0.3", "quote_volume24h": "1.01", "trades24h": 2},
    ]  # fmt: skip
    (item,) = api.get("/v1/summary?symbol=SUM:A&closes=1h")["items"]
    assert (item["closes24h"][0], item["closes24h"][-1], len(item["closes24h"])) == ("3", "4", 25)
    assert {"2.1", "3", "4"} == set(item["closes24h"])


def test_an_unknown_symbol_is_named(api: Api, tick: Make) -> None:
    api.ingest(tick(symbol="SUM:KNOWN", ts=now()))
    problem = api.problem("GET", "/v1/summary?symbol=SUM:KNOWN,SUM:NONE", status=404, code="unknown_symbol")
    assert "SUM:NONE" in problem["detail"]


def test_a_wrong_query_is_refused(api: Api) -> None:
    for query in [
        "", "symbol=", "symbol=A,,B", "symbol=A,", "symbol=A&sort=change", "symbol=A&limit=5", "sort=price",
        f"sort=change&limit={MAX_SUMMARIES + 1}", "sort=change&limit=0", "symbol=A&closes=5m",
        "symbol=" + ",".join(["A"] * (MAX_SUMMARIES + 1)),
    ]:  # fmt: skip
        found = api("GET", f"/v1/summary?{query}")
        assert (found.status_int, found.json["code"]) == (422, "invalid_value"), query[:40]


def test_an_order_has_at_most_the_limit(api: Api, tick: Make) -> None:
    at = now()
    api.ingest(*(tick(symbol=f"SORT:{n}", id="1", ts=at - 2 * HOUR + n, price="100") for n in range(60)))
    api.ingest(*(tick(symbol=f"SORT:{n}", id="2", ts=at, price=f"{100 + n}", size="9" * 9) for n in (3, 5)))
    api.ingest(tick(symbol="SORT:7", id="2", ts=at, price="50"), tick(symbol="SORT:NEW", id="1", ts=at))
    assert len(api.get("/v1/summary?sort=newest")["items"]) == DEFAULT_SUMMARIES
    for sort, symbol in (("change", "SORT:7"), ("volume", "SORT:5"), ("newest", "SORT:NEW")):
        (item,) = api.get(f"/v1/summary?sort={sort}&limit=1")["items"]
        assert item["symbol"] == symbol, sort
    ordered = api.get("/v1/summary?sort=change&limit=200")["items"]
    changes = [each["change24h"] for each in ordered if each["symbol"].startswith("SORT:")]
    assert changes[:4] == ["-0.5", "0.05", "0.03", "0"]


def test_the_tag_stays_while_the_items_stay(api: Api, tick: Make) -> None:
    api.ingest(tick(symbol="SUM:TAG", id="1", ts=now()))
    path = "/v1/summary?symbol=SUM:TAG"
    first = api("GET", path, status=200)
    tag = {"If-None-Match": first.headers["ETag"]}
    api("GET", path, headers=tag, status=304)
    api.ingest(tick(symbol="SUM:TAG", id="2", ts=now()))
    assert api("GET", path, headers=tag, status=200).headers["ETag"] != first.headers["ETag"]
