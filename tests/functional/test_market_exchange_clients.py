"""Clients of Binance as clients of the running API: ccxt by its documented settings, python-binance by a subclass.

Their values must be those of ``/v1/chart``, ``/v1/ticks`` and ``/v1/summary``.
"""

from __future__ import annotations

import asyncio
import re
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.functional.market_process import ROOT, ApiProcess, Client

with warnings.catch_warnings():
    # Ignore the warnings of these packages, and of libraries that they import.
    warnings.simplefilter("ignore")
    import binance.exceptions
    import ccxt

pytestmark = [pytest.mark.functional, pytest.mark.filterwarnings("ignore::DeprecationWarning:binance")]

PAGE = ROOT / "marketdata" / "api.md"
POOL, OTHER_POOL, COUNTED, NAMELESS = "ETH:WETH-USDC", "BASE:WETH-USDC", "CEX:BTC-USD", "CEX:INDEX"
SECOND_POOL = "ETH:WETH-USDC-abc123"
"""A pool whose name was taken."""
DEMO = "DEMO:ETH-USD"
"""The symbol of the examples."""
SYMBOLS = (SECOND_POOL, OTHER_POOL, COUNTED, NAMELESS, DEMO, POOL)
MINUTE, HOUR = 60_000, 3_600_000
BARS = 1_300
"""More than a page of klines."""
BLOCK = 25_000_000


def _ticks(start: int) -> list[dict[str, Any]]:
    """Two ticks in every other minute of :data:`POOL`, with the seqs of the ingestor; one a minute of the others."""
    pool = [
        {
            "symbol": POOL, "id": f"{n}:{k}", "ts": start + n * 2 * MINUTE + k * 1000, "price": f"{2000 + n}.{k + 1}25",
            "seq": (BLOCK + n << 20) + k, "size": f"0.{n + 1}1", "side": ("buy", "sell", None)[n % 3],
            "block": {"number": BLOCK + n, "hash": f"0x{n:x}"},
        }
        for n in range(BARS)
        for k in range(2)
    ]  # fmt: skip
    others = [
        {"symbol": symbol, "id": f"{n}", "ts": start + n * MINUTE, "price": f"{n + 1}.5", "size": "2", "side": "buy"}
        for symbol in (SECOND_POOL, OTHER_POOL, COUNTED, NAMELESS, DEMO)
        for n in range(BARS)
    ]
    return pool + others


@pytest.fixture(scope="module")
def start() -> int:
    """The time of the first tick, chosen so that the newest ticks are of the last hours."""
    return int(time.time() * 1000) // HOUR * HOUR - BARS * 2 * MINUTE


@pytest.fixture(scope="module")
def api(start: int) -> Iterator[ApiProcess]:
    with tempfile.TemporaryDirectory(prefix="market-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        process = ApiProcess(Path(folder))
        process.start()
        try:
            with closing(Client(process.port, process.token("alg"))) as client:
                status, answer = client("POST", "/v1/ingest/tick", {"ticks": _ticks(start)})
            assert (status, answer["rejected"]) == (200, [])
            yield process
        finally:
            process.stop()


@pytest.fixture
def read(api: ApiProcess) -> Iterator[Any]:
    """``read(path)``: the JSON of the rest of the API."""
    with closing(Client(api.port, api.token("read"))) as client:
        yield lambda path: client("GET", path)[1]


def example(mark: str, address: str, token: str) -> dict[str, Any]:
    """The names that the example with ``mark`` defines, of ``marketdata/api.md``."""
    (found,) = (each for each in re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL) if mark in each)
    with_address = found.replace('"http://127.0.0.1:8787", "md_…"', f"{address!r}, {token!r}")
    assert with_address != found
    names: dict[str, Any] = {}
    exec(with_address, names)
    return names


@pytest.fixture(scope="module")
def exchange(api: ApiProcess) -> Iterator[Any]:
    found = example("ccxt", f"http://127.0.0.1:{api.port}", api.token("read"))["exchange"]
    yield found
    found.session.close()


def market(api: ApiProcess, token: str) -> Any:
    return example("Client", f"http://127.0.0.1:{api.port}", token)["Market"]()


@pytest.fixture(scope="module", autouse=True)
def event_loop() -> Iterator[None]:
    """python-binance takes the thread's event loop, or makes one that nobody closes. This one is closed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            loop = asyncio.get_event_loop_policy().get_event_loop()
    except RuntimeError:  # the thread has none
        loop = asyncio.new_event_loop()
    with closing(loop):
        asyncio.set_event_loop(loop)
        yield
        asyncio.set_event_loop(None)


@pytest.fixture(scope="module")
def client(api: ApiProcess) -> Iterator[Any]:
    found = market(api, api.token("read"))
    yield found
    found.session.close()


def _numbers(candles: list[dict[str, Any]]) -> list[list[float]]:
    """Candles as ccxt has them."""
    return [[each["t"], *(float(each[key]) for key in "ohlcv")] for each in candles]


# -- ccxt ------------------------------------------------------------------------------------------------------------


def test_ccxt_knows_the_markets_by_their_assets(exchange: Any, read: Any) -> None:
    market = exchange.market("BTC/USD")
    assert (market["id"], market["base"], market["quote"]) == (COUNTED, "BTC", "USD")
    assert (market["spot"], market["active"], market["precision"]["price"]) == (True, True, 0.1)
    assert NAMELESS not in exchange.markets_by_id
    assert exchange.market("WETH/USDC")["id"] == POOL, "the symbol without a pool's suffix"
    (summary,) = read(f"/v1/summary?symbol={POOL}")["items"]
    assert exchange.fetch_tickers()["WETH/USDC"]["last"] == float(summary["last"])
    assert exchange.fetch_last_prices()["WETH/USDC"]["price"] == float(summary["last"])
    assert abs(exchange.fetch_time() - time.time() * 1000) < MINUTE


def test_ccxt_reads_the_candles_of_the_chart(exchange: Any, read: Any, start: int) -> None:
    path = f"/v1/chart?symbol={SECOND_POOL}&interval=5m"
    since = _numbers(read(f"{path}&startTime={start + HOUR}&limit=7")["candles"])
    assert exchange.fetch_ohlcv(SECOND_POOL, "5m", since=start + HOUR, limit=7) == since
    until = _numbers(read(f"{path}&startTime={start}&endTime={start + HOUR}")["candles"])
    assert exchange.fetch_ohlcv(SECOND_POOL, "5m", since=start, params={"until": start + HOUR}) == until
    candles = read(f"/v1/chart?symbol={POOL}&interval=1m&startTime=0&limit=10000")["candles"]
    assert len(candles) == BARS
    assert exchange.fetch_ohlcv(POOL, "1m", since=start, params={"paginate": True}) == _numbers(candles)


def test_ccxt_reads_tickers(exchange: Any, read: Any) -> None:
    one = exchange.fetch_ticker("BTC/USD")
    (summary,) = read(f"/v1/summary?symbol={COUNTED}")["items"]
    expected = {
        "last": "last", "open": "open24h", "high": "high24h", "low": "low24h", "baseVolume": "volume24h",
        "quoteVolume": "quote_volume24h",
    }  # fmt: skip
    assert {name: one[name] for name in expected} == {name: float(summary[key]) for name, key in expected.items()}
    assert one["percentage"] == pytest.approx(float(summary["change24h"]) * 100)
    assert (one["bid"], one["ask"]) == (None, None)
    assert list(exchange.fetch_tickers(["BTC/USD"])) == ["BTC/USD"]


def _as_trades(ticks: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [(str(each["seq"]), each["side"], float(each["price"]), float(each["size"])) for each in ticks]


def _seen(trades: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [(each["id"], each["side"], each["price"], each["amount"]) for each in trades]


def test_ccxt_reads_trades(exchange: Any, read: Any, start: int) -> None:
    newest = _as_trades(read(f"/v1/ticks?symbol={POOL}&limit=9")["ticks"])
    for method in ("publicGetAggTrades", "publicGetTrades"):
        assert _seen(exchange.fetch_trades(POOL, limit=9, params={"fetchTradesMethod": method})) == newest
    ticks = read(f"/v1/ticks?symbol={POOL}&startTime={start + HOUR}&endTime={start + 2 * HOUR}")["ticks"]
    assert _seen(exchange.fetch_trades(POOL, since=start + HOUR)) == _as_trades(ticks)
    assert _seen(exchange.fetch_trades(POOL, since=start + HOUR, limit=4)) == _as_trades(ticks[:4])
    every = read(f"/v1/ticks?symbol={POOL}&startTime=0&limit=10000")["ticks"]
    assert _seen(exchange.fetch_trades(POOL, since=start, params={"paginate": True})) == _as_trades(every)


def test_ccxt_raises_its_own_errors(exchange: Any, api: ApiProcess) -> None:
    with pytest.raises(ccxt.BadSymbol, match="Invalid symbol"):
        exchange.publicGetKlines({"symbol": "NO:SUCH", "interval": "1m"})
    with pytest.raises(ccxt.BadRequest, match="Invalid interval"):
        exchange.publicGetKlines({"symbol": POOL, "interval": "7m"})
    with pytest.raises(ccxt.BadRequest, match="This operation is not supported"):
        exchange.fetch_order_book(POOL)
    for token in ("md_wrong", api.token("alg")):
        with pytest.raises(ccxt.AuthenticationError):
            example("ccxt", f"http://127.0.0.1:{api.port}", token)


# -- python-binance --------------------------------------------------------------------------------------------------


def test_python_binance_reads_symbols_and_tickers(client: Any, read: Any) -> None:
    assert client.ping() == {}
    assert abs(client.get_server_time()["serverTime"] - time.time() * 1000) < MINUTE
    assert [each["symbol"] for each in client.get_exchange_info()["symbols"]] == list(SYMBOLS)
    (summary,) = read(f"/v1/summary?symbol={COUNTED}")["items"]
    for name in (COUNTED, "BTCUSD"):
        assert client.get_symbol_ticker(symbol=name) == {"symbol": COUNTED, "price": summary["last"]}
    assert {each["symbol"] for each in client.get_all_tickers()} == set(SYMBOLS)
    found = client.get_ticker(symbol=COUNTED)
    assert (found["openPrice"], found["volume"]) == (summary["open24h"], summary["volume24h"])
    assert (found["firstId"], found["lastId"]) == (BARS - found["count"], BARS - 1)
    assert len(client.get_ticker()) == len(SYMBOLS)


def test_python_binance_reads_the_whole_history(client: Any, read: Any, start: int) -> None:
    everything = read(f"/v1/chart?symbol={POOL}&interval=1m&startTime=0&limit=10000&format=binance")
    assert list(client.get_historical_klines_generator(POOL, "1m", start)) == everything
    later = start + 10 * HOUR
    assert client.get_historical_klines(POOL, "1m", start, later) == [row for row in everything if row[0] <= later]


@pytest.mark.parametrize("symbol", [POOL, COUNTED])
def test_python_binance_iterates_over_all_trades(client: Any, read: Any, start: int, symbol: str) -> None:
    ticks = read(f"/v1/ticks?symbol={symbol}&startTime=0&limit=10000")["ticks"]
    prices = [(each["price"], each["size"]) for each in ticks]
    assert [(each["price"], each["qty"]) for each in client.get_recent_trades(symbol=symbol, limit=6)] == prices[-6:]
    found = list(client.aggregate_trade_iter(symbol=symbol, start_str=start))
    assert [(each["p"], each["q"]) for each in found] == prices
    assert len({each["a"] for each in found}) == len(ticks)
    assert list(client.aggregate_trade_iter(symbol=symbol)) == found
    assert list(client.aggregate_trade_iter(symbol=symbol, last_id=found[99]["a"])) == found[100:]


def test_python_binance_raises_its_own_error(client: Any, api: ApiProcess) -> None:
    with pytest.raises(binance.exceptions.BinanceAPIException) as raised:
        client.get_klines(symbol="NO:SUCH", interval="1m")
    assert (raised.value.code, raised.value.message, raised.value.status_code) == (-1121, "Invalid symbol.", 400)
    with pytest.raises(binance.exceptions.BinanceAPIException) as raised:
        market(api, "md_wrong")
    assert (raised.value.code, raised.value.status_code) == (-2015, 401)
