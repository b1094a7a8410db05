"""``GET /v1/udf/quotes``: the last 24 hours of symbols, in TradingView's form."""

from __future__ import annotations

import json
from typing import Any

import psycopg

from tests.marketdata.api.conftest import Api, Make, now

HOUR = 3_600_000


def test_a_quote_has_the_last_24_hours(api: Api, tick: Make) -> None:
    at = now()
    api.ingest(
        tick(symbol="QUOTE:A-B", id="old", ts=at - 30 * HOUR, price="3.00"),
        tick(symbol="QUOTE:A-B", id="1", ts=at - 2 * HOUR, price="2.10", size="0.1"),
        tick(symbol="QUOTE:A-B", id="2", ts=at - HOUR, price="4", size="0.2"),
    )
    assert api.get("/v1/udf/quotes?symbols=QUOTE:A-B") == {
        "s": "ok",
        "d": [
            {
                "s": "ok",
                "n": "QUOTE:A-B",
                "v": {
                    "short_name": "A-B", "exchange": "QUOTE", "description": "QUOTE:A-B", "lp": 4, "ask": 4, "bid": 4,
                    "ch": 1, "chp": 33.3333, "open_price": 3, "high_price": 4, "low_price": 2.1, "prev_close_price": 3,
                    "volume": 0.3,
                },
            }
        ],
    }  # fmt: skip


def test_amounts_have_all_their_digits(api: Api, tick: Make) -> None:
    at, low, high = now(), "0." + "0" * 29 + "1", "9" * 30 + "." + "9" * 29 + "8"
    api.ingest(
        tick(symbol="QUOTE:EXACT", id="1", ts=at - 30 * HOUR, price=low),
        tick(symbol="QUOTE:EXACT", id="2", ts=at - HOUR, price=high),
    )
    text = api("GET", "/v1/udf/quotes?symbols=QUOTE:EXACT", status=200).text
    values = json.loads(text, parse_float=str, parse_int=str)["d"][0]["v"]
    assert (values["lp"], values["open_price"]) == (high, low)
    assert values["ch"] == "9" * 30 + "." + "9" * 29 + "7"
    assert "E" not in values["chp"]


def test_names_that_do_not_exist_are_errors_in_the_order_of_the_request(
    api: Api, tick: Make, admin: psycopg.Connection[Any]
) -> None:
    admin.execute("INSERT INTO market_aliases (alias, symbol) VALUES ('QUOTE-ALIAS', 'QUOTE:REAL')")
    api.ingest(tick(symbol="QUOTE:REAL", ts=now()))
    found = api.get("/v1/udf/quotes?symbols=NO:SUCH,QUOTE-ALIAS,QUOTE:REAL,QUOTE-ALIAS")
    assert found["s"] == "ok"
    assert [(each["s"], each["n"]) for each in found["d"]] == [
        ("error", "NO:SUCH"), ("ok", "QUOTE-ALIAS"), ("ok", "QUOTE:REAL"),
    ]  # fmt: skip
    assert found["d"][0] == {"s": "error", "n": "NO:SUCH", "v": {}, "errmsg": found["d"][0]["errmsg"]}
    assert "no symbol NO:SUCH" in found["d"][0]["errmsg"]
    assert found["d"][1]["v"] == found["d"][2]["v"]


def test_a_symbol_without_a_trade_in_24_hours_has_no_range(api: Api, tick: Make) -> None:
    api.ingest(tick(symbol="QUOTE:QUIET", ts=now() - 48 * HOUR, price="7"))
    (quote,) = api.get("/v1/udf/quotes?symbols=QUOTE:QUIET")["d"]
    values = quote["v"]
    assert (values["lp"], values["ch"], values["chp"], values["volume"], values["open_price"]) == (7, 0, 0, 0, 7)
    assert not {"high_price", "low_price"} & values.keys()


def test_an_invalid_query_is_refused_in_the_protocols_form(api: Api) -> None:
    for query in ("", "symbols=", "symbols=A,,B", "symbols=A%20B", "symbols=" + ",".join("A" * 201)):
        problem = api.problem("GET", f"/v1/udf/quotes?{query}", status=422, code="invalid_value")
        assert (problem["s"], problem["errmsg"]) == ("error", problem["detail"]), query[:40]
