"""Binance's dialect, ``/api/v3``. ``tests/functional/test_market_exchange_clients.py`` has real clients of it."""

from __future__ import annotations

import json
import time
from typing import Any
from urllib.parse import quote

import psycopg
import pytest

from marketdata.source.tokens import free_name
from tests.marketdata.api.conftest import Api, Make

START = 1_700_000_040_000  # a full minute
MINUTE = 60_000
HOUR = 60 * MINUTE
SHIFT = 20
ONLY_FULL = {
    "priceChange", "priceChangePercent", "weightedAvgPrice", "prevClosePrice", "lastQty", "bidPrice", "bidQty",
    "askPrice", "askQty",
}  # fmt: skip


def refused(api: Api, path: str, code: int, *, status: int = 400) -> str:
    """The message of a refusal, which must have this code."""
    found = api("GET", path, status=status).json
    assert found["code"] == code, found
    return str(found["msg"])


def ids(trades: list[dict[str, Any]]) -> list[int]:
    return [each["a"] for each in trades]


@pytest.fixture
def counted(api: Api, tick: Make) -> str:
    """40 ticks in 10 minutes of two days, without a seq; two of each second."""
    symbol = "BIN:ETH-USD"
    api.ingest(
        *(
            tick(symbol=symbol, id=f"{n:03}", ts=START + n // 2 * 1000 + (n // 20) * 30 * HOUR, price=f"{n + 1}.50",
                 size="0.25", side=("buy", "sell", None)[n % 3])
            for n in range(40)
        )
    )  # fmt: skip
    return symbol


@pytest.fixture
def chained(api: Api, tick: Make) -> str:
    """40 ticks of 20 blocks, with the seqs of the ingestor."""
    pool = "ETH:WETH-USDC"
    api.ingest(
        *(
            tick(symbol=pool, id=f"0x{n // 2:x}:{n % 2}", ts=START + n // 2 * 12_000 + (n // 20) * 30 * HOUR,
                 seq=(25_000_000 + n // 2 << SHIFT) + n % 2 * 7, price=f"{2000 + n}.125", size="3", side="buy",
                 block={"number": 25_000_000 + n // 2, "hash": f"0x{n // 2:x}"})
            for n in range(40)
        )
    )  # fmt: skip
    return pool


def test_a_wrong_query_is_refused_by_name(api: Api, counted: str) -> None:
    for query, code, words in [
        ("klines?interval=1m", -1102, "is missing symbol"),
        ("klines?symbol=BIN:ETH-USD&interval=1m&limit=1001", -1130, "/limit: must be at most 1000"),
        ("klines?symbol=BIN:ETH-USD&interval=1m&limit=many", -1100, "/limit: must be an integer"),
        ("klines?symbol=BIN*ETH&interval=1m", -1100, "/symbol: must match the pattern"),
        ("klines?symbol=BIN:ETH-USD&interval=1m&fill=previous", -1104, "unknown field(s) fill"),
        ("klines?symbol=BIN:ETH-USD&interval=1m&startTime=1700000000", -1130, "/startTime looks like seconds; "),
        ("aggTrades?symbol=BIN:ETH-USD&fromId=1&startTime=0", -1128, "fromId excludes"),
        ("aggTrades?symbol=BIN:ETH-USD&fromId=-1", -1130, "/fromId: must be at least 0"),
        ("aggTrades?symbol=BIN:ETH-USD&startTime=200000000000&endTime=0", -1130, "/endTime is before startTime"),
        ("trades?symbol=BIN:ETH-USD&symbol=BIN:ETH-USD", -1130, "occurs twice"),
        ("ticker/24hr?symbol=BIN:ETH-USD&symbols=[%22BIN:ETH-USD%22]", -1128, "symbol excludes symbols"),
        ("ticker/24hr?type=SMALL", -1130, "/type: must be FULL or MINI"),
        ("ticker/price?symbols=" + quote(json.dumps(["A"] * 201)), -1130, "/symbols must have at most 200 items"),
    ]:  # fmt: skip
        assert words in refused(api, f"/api/v3/{query}", code), query


def test_an_unknown_symbol_or_interval_has_the_exchanges_own_words(api: Api, counted: str) -> None:
    for path in ("klines?interval=1m", "trades?", "aggTrades?", "ticker/price?", "ticker/24hr?", "exchangeInfo?"):
        assert refused(api, f"/api/v3/{path}&symbol=NO:SUCH", -1121) == "Invalid symbol.", path
    for path in ("ticker/price", "ticker/24hr", "exchangeInfo"):
        assert refused(api, f"/api/v3/{path}?symbols=[%22{counted}%22,%22NO:SUCH%22]", -1121) == "Invalid symbol.", path
    assert refused(api, f"/api/v3/klines?symbol={counted}&interval=7m", -1120) == "Invalid interval."


def test_what_the_service_does_not_have_is_refused_in_the_same_shape(api: Api) -> None:
    assert "there is nothing at '/api/v3/depth'" in refused(api, "/api/v3/depth?symbol=A", -1020, status=404)
    assert api("POST", "/api/v3/klines", status=405).json["code"] == -1020


# -- symbols ---------------------------------------------------------------------------------------------------------


def test_a_symbol_is_split_at_the_last_hyphen_of_its_name_or_has_the_assets_of_its_pool(api: Api, tick: Make) -> None:
    address = f"0x{'0a1b2c3d4e' * 4}"
    taken: dict[str, tuple[str, str]] = {}
    for _ in range(4):  # the name alone, and with 6, 12 and 24 digits
        taken[f"SUF:{free_name('WETH-USDC', address, lambda name: f'SUF:{name}' in taken)}"] = ("WETH", "USDC")
    cases = taken | {
        "SPLIT:UNI-V2-WETH": ("UNI-V2", "WETH"), "SPLIT:NOTHING": ("NOTHING", ""), "SPLITTED-EUR": ("SPLITTED", "EUR"),
        f"SUF:WETH-USDC-{address[2:]}": ("WETH", "USDC"), "WETH-USDC-abc123": ("WETH", "USDC"),
        "SUF:UNI-V2-abc12": ("UNI-V2", "abc12"), "SUF:UNI-V2-ABC123": ("UNI-V2", "ABC123"),
        "SUF:A-B-C-abc123": ("A-B-C", "abc123"), "SUF:WETH-abc123": ("WETH", "abc123"),
    }  # fmt: skip
    api.ingest(*(tick(symbol=symbol) for symbol in cases))
    found = {each["symbol"]: each for each in api.get("/api/v3/exchangeInfo")["symbols"]}
    assert {name: (found[name]["baseAsset"], found[name]["quoteAsset"]) for name in cases} == cases


def test_symbols_with_a_pools_suffix_come_first_in_lists_of_all(api: Api, tick: Make) -> None:
    names = ["FIRST:WETH-USDC-abc123", "FIRST:WETH-USDC-ffffff", "FIRST:A-B", "FIRST:WETH-USDC"]
    api.ingest(*(tick(symbol=symbol, ts=START + n) for n, symbol in enumerate(sorted(names))))
    for found in (
        api.get("/api/v3/exchangeInfo")["symbols"], api.get("/api/v3/ticker/price"), api.get("/api/v3/ticker/24hr"),
    ):  # fmt: skip
        assert [each["symbol"] for each in found if each["symbol"].startswith("FIRST:")] == names
    named = quote(json.dumps(names[::-1]))
    assert [each["symbol"] for each in api.get(f"/api/v3/ticker/price?symbols={named}")] == names[::-1]


def test_filters_have_the_decimals_of_the_newest_ticks(api: Api, tick: Make) -> None:
    api.ingest(
        tick(symbol="BIN:STEPS", id="old", ts=START - HOUR, price="0.000001"),
        *(tick(symbol="BIN:STEPS", id=f"{n}", ts=START + n, price=f"{n + 1}.5", size="12.125") for n in range(20)),
    )
    (market,) = api.get("/api/v3/exchangeInfo?symbol=BIN:STEPS")["symbols"]
    filters = {each["filterType"]: each for each in market["filters"]}
    assert (filters["PRICE_FILTER"]["tickSize"], filters["LOT_SIZE"]["stepSize"]) == ("0.1", "0.001")
    assert (market["baseAssetPrecision"], market["quoteAssetPrecision"]) == (3, 4)
    api.ingest(tick(symbol="BIN:STEPS", id="whole", ts=START + 99, price="7", size=f"0.{'0' * 29}1"))
    (market,) = api.get('/api/v3/exchangeInfo?symbols=["BIN:STEPS"]')["symbols"]
    assert market["filters"][1]["stepSize"] == f"0.{'0' * 29}1"


def test_a_symbol_has_several_names(api: Api, tick: Make, admin: psycopg.Connection[Any]) -> None:
    admin.execute("INSERT INTO market_aliases (alias, symbol) VALUES ('NAMES-ALIAS', 'NAMES:wstETH-USDC')")
    api.ingest(tick(symbol="NAMES:wstETH-USDC"))
    for name in ("NAMES:wstETH-USDC", "NAMES-ALIAS", "wstETHUSDC", "WSTETHUSDC"):
        assert api.get(f"/api/v3/ticker/price?symbol={name}") == {"symbol": "NAMES:wstETH-USDC", "price": "1.5"}
    refused(api, "/api/v3/ticker/price?symbol=names:wsteth-usdc", -1121)


def test_the_joined_name_of_several_symbols_is_refused_with_their_names(api: Api, tick: Make) -> None:
    api.ingest(*(tick(symbol=name) for name in ("JOIN:TWO-USD", "JOIN:TWOU-SD", "JOIN2:TWO-USD")))
    for query in ("ticker/price?symbol=TWOUSD", 'exchangeInfo?symbols=["TWOUSD"]', "trades?symbol=twousd"):
        said = refused(api, f"/api/v3/{query}", -1121)
        assert said.startswith("Invalid symbol: "), query
        assert said.endswith("has several meanings; name one of them: JOIN2:TWO-USD, JOIN:TWO-USD, JOIN:TWOU-SD")
    api.ingest(*(tick(symbol=f"MANY{n}:SEVEN-USD") for n in range(7)))
    assert refused(api, "/api/v3/ticker/price?symbol=SEVENUSD", -1121).endswith("MANY3:SEVEN-USD, MANY4:SEVEN-USD, …")
    # A symbol with a pool's suffix has no joined name.
    api.ingest(*(tick(symbol=name) for name in ("ONE:ONLY-USD", "ONE:ONLY-USD-abc123")))
    assert api.get("/api/v3/ticker/price?symbol=ONLYUSD")["symbol"] == "ONE:ONLY-USD"
    assert refused(api, "/api/v3/ticker/price?symbol=ONLY-USDabc123", -1121) == "Invalid symbol."


# -- klines ----------------------------------------------------------------------------------------------------------


def test_klines_are_the_candles_of_the_chart(api: Api, counted: str) -> None:
    for query in (
        "interval=1s", f"interval=1m&startTime={START}", f"interval=3m&endTime={START + HOUR}",
        "interval=1m&startTime=0&limit=3", f"interval=1M&startTime=0&endTime={START + 3 * MINUTE}", "interval=1w",
    ):  # fmt: skip
        query = f"symbol={counted}&{query}"
        found = api.get(f"/api/v3/klines?{query}")
        assert found == api.get(f"/v1/chart?{query}&format=binance"), query
        candles = api.get(f"/v1/chart?{query}")["candles"]
        assert candles, query
        assert [row[:9] for row in found] == [[each[key] for key in "tohlcvTqn"] for each in candles], query
    found = api.get(f"/api/v3/klines?symbol={counted}&interval=1d&timeZone=-1:00")
    assert [row[0] % (24 * HOUR) for row in found] == [HOUR, HOUR]


# -- trades ----------------------------------------------------------------------------------------------------------


def stored(api: Api, symbol: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = api.get(f"/v1/ticks?symbol={symbol}&startTime=0&limit=10000")["ticks"]
    return found


def test_trades_are_the_newest_ticks_with_the_oldest_first(api: Api, chained: str) -> None:
    ticks = stored(api, chained)
    found = api.get(f"/api/v3/trades?symbol={chained}&limit=5")
    assert [(each["id"], each["price"], each["qty"]) for each in found] == [
        (each["seq"], each["price"], each["size"]) for each in ticks[-5:]
    ]
    assert found[0]["quoteQty"] == "6105.375"
    assert not found[0]["isBuyerMaker"]
    assert len(api.get(f"/api/v3/trades?symbol={chained}")) == 40


def test_a_trade_has_the_side_of_its_maker(api: Api, tick: Make) -> None:
    api.ingest(*(tick(symbol="BIN:SIDES", id=f"{n}", side=side) for n, side in enumerate(("buy", "sell", None))))
    assert [each["isBuyerMaker"] for each in api.get("/api/v3/trades?symbol=BIN:SIDES")] == [False, True, None]
    assert [each["m"] for each in api.get("/api/v3/aggTrades?symbol=BIN:SIDES")] == [False, True, None]


@pytest.mark.parametrize("kind", ["counted", "chained"])
def test_every_page_of_aggregates_has_its_ticks(api: Api, kind: str, request: pytest.FixtureRequest) -> None:
    symbol = request.getfixturevalue(kind)
    path = f"/api/v3/aggTrades?symbol={symbol}"
    ticks = stored(api, symbol)
    numbers = list(range(len(ticks))) if kind == "counted" else [each["seq"] for each in ticks]
    everything = api.get(f"{path}&fromId=0")
    assert ids(everything) == numbers
    assert [(each["p"], each["q"]) for each in everything] == [(each["price"], each["size"]) for each in ticks]
    assert all(each["a"] == each["f"] == each["l"] for each in everything)
    assert api.get(path) == everything == api.get(f"{path}&startTime=0")
    for place, number in list(enumerate(numbers))[::3]:
        assert api.get(f"{path}&fromId={number}&limit=7") == everything[place : place + 7]
        at = everything[place]["T"]
        assert api.get(f"{path}&startTime={at}&limit=9") == [each for each in everything if each["T"] >= at][:9]
        assert api.get(f"{path}&endTime={at}&limit=4") == [each for each in everything if each["T"] <= at][-4:]
    last = everything[-1]["T"]
    assert api.get(f"{path}&startTime={last}&endTime={last}") == [each for each in everything if each["T"] == last]
    assert api.get(f"{path}&fromId={numbers[-1] + 1}") == []
    assert api.get(f"{path}&fromId={2**53 - 1}") == []
    if kind == "chained":  # an id between two trades leads to the next one
        assert ids(api.get(f"{path}&fromId={numbers[0] + 1}&limit=1")) == [numbers[0] + 7]


def test_seqs_that_identify_no_tick_are_no_ids(api: Api, tick: Make) -> None:
    later = START + 48 * HOUR
    for seqs in (
        (0, 0, 0, 0),  # none was sent
        (0, 1, 2, 3),  # counted anyway
        (1, 2, 1, 2),  # they only order the ticks of an instant
        (5, 5, 6, 7),
        (1, 2, 2**53, 2**53 + 1),  # JavaScript cannot tell these apart
    ):
        symbol = f"BIN:SEQS{'.'.join(map(str, seqs))}"
        rows = enumerate(zip((START, START, later, later), seqs, strict=True))
        api.ingest(*(tick(symbol=symbol, id=f"{n}", ts=ts, seq=seq) for n, (ts, seq) in rows))
        assert ids(api.get(f"/api/v3/aggTrades?symbol={symbol}")) == [0, 1, 2, 3], seqs
        assert ids(api.get(f"/api/v3/aggTrades?symbol={symbol}&fromId=2")) == [2, 3], seqs


def test_a_time_is_cut_off_to_milliseconds(api: Api, tick: Make) -> None:
    api.ingest(*(tick(symbol="BIN:MICRO", id=f"{n}", ts=f"2023-11-14T22:14:00.00{n}999Z") for n in range(3)))
    path = "/api/v3/aggTrades?symbol=BIN:MICRO"
    assert [each["T"] for each in api.get(path)] == [START, START + 1, START + 2]
    assert ids(api.get(f"{path}&endTime={START + 1}")) == [0, 1]
    assert ids(api.get(f"{path}&startTime={START + 1}&endTime={START + 1}")) == [1]


# -- tickers ---------------------------------------------------------------------------------------------------------


def test_the_ticker_is_the_summary(api: Api, tick: Make) -> None:
    symbol = "BIN:DAY-USD"
    at = time.time_ns() // 1_000_000
    moments = (at - 30 * HOUR, at - 26 * HOUR, at - 20 * HOUR, at - HOUR, at - 1000)
    prices, sizes = ("2", "3", "2.4", "3.6", "3.3"), ("0.1", "0.2", "0.3", "0.4", "0.7")
    api.ingest(
        *(
            tick(symbol=symbol, id=f"{n}", ts=ts, price=price, size=size)
            for n, (ts, price, size) in enumerate(zip(moments, prices, sizes, strict=True))
        )
    )
    (summary,) = api.get(f"/v1/summary?symbol={symbol}")["items"]
    found = api.get(f"/api/v3/ticker/24hr?symbol={symbol}")
    closed = found.pop("closeTime")
    assert (found.pop("openTime"), closed >= at) == (closed - 24 * HOUR, True)
    assert found == {
        "symbol": symbol, "priceChange": "0.3", "priceChangePercent": "10", "weightedAvgPrice": "3.192857142857142857",
        "prevClosePrice": "3", "lastPrice": "3.3", "lastQty": "0.7", "bidPrice": "0", "bidQty": "0", "askPrice": "0",
        "askQty": "0", "openPrice": "3", "highPrice": "3.6", "lowPrice": "2.4", "volume": "1.4", "quoteVolume": "4.47",
        "firstId": 2, "lastId": 4, "count": 3,
    }  # fmt: skip
    assert (summary["volume24h"], summary["quote_volume24h"]) == (found["volume"], found["quoteVolume"])
    (mini,) = api.get(f'/api/v3/ticker/24hr?symbols=["{symbol}"]&type=MINI')
    assert mini.keys() == found.keys() - ONLY_FULL | {"openTime", "closeTime"}


def test_a_ticker_of_the_widest_prices_is_exact(api: Api, tick: Make) -> None:
    at = time.time_ns() // 1_000_000
    least, greatest = f"0.{'0' * 29}1", "9" * 30
    api.ingest(
        tick(symbol="BIN:WIDE", id="1", ts=at - 2000, price=least),
        tick(symbol="BIN:WIDE", id="2", ts=at - 1000, price=greatest),
    )
    found = api.get("/api/v3/ticker/24hr?symbol=BIN:WIDE")
    assert found["priceChange"] == f"{'9' * 29}8.{'9' * 30}"
    change = 10**60 - 10**30 - 1  # in units of the first price
    assert found["priceChangePercent"] == str(change * 100)


def test_tickers_of_several_and_of_all(api: Api, counted: str, chained: str) -> None:
    both = quote(json.dumps([chained, counted]))
    prices = api.get(f"/api/v3/ticker/price?symbols={both}")
    assert [each["symbol"] for each in prices] == [chained, counted]
    assert prices[0] == {"symbol": chained, "price": "2039.125"}
    assert all(each in api.get("/api/v3/ticker/price") for each in prices)
    days = api.get(f"/api/v3/ticker/24hr?symbols={both}")
    assert [(each["symbol"], each["lastPrice"], each["count"], each["firstId"]) for each in days] == [
        (chained, "2039.125", 0, -1), (counted, "40.5", 0, -1),
    ]  # fmt: skip
    assert {each["symbol"] for each in api.get("/api/v3/ticker/24hr")} == {
        each["symbol"] for each in api.get("/v1/symbols")["symbols"]
    }


def test_a_ticker_is_revalidated_whatever_the_time_is(api: Api, counted: str) -> None:
    for path in (f"ticker/24hr?symbol={counted}", "exchangeInfo", f"trades?symbol={counted}"):
        tag = {"If-None-Match": api("GET", f"/api/v3/{path}", status=200).headers["ETag"]}
        api("GET", f"/api/v3/{path}", headers=tag, status=304)
