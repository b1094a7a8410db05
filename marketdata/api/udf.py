"""TradingView's Universal Data Feed (UDF): ``/v1/udf`` is a data source for TradingView's charts.

Times are in seconds, prices are JSON numbers with all their digits, and ``to`` is exclusive. An error is a problem as
in the rest of the API, with the protocol's additional members ``s`` and ``errmsg``.
"""

from __future__ import annotations

import json
from decimal import Context, Decimal
from functools import partial
from time import time
from typing import Any

from marketdata.api.routing import ErrorShape, Request
from marketdata.errors import MarketError
from marketdata.http.failures import problem
from marketdata.http.reply import PROBLEM, TEXT, Reply, answer, encode
from marketdata.interval import RESOLUTIONS, SECOND, is_zone_name
from marketdata.limits import MAX_ROWS
from marketdata.store import candles, summary, symbols
from marketdata.store.candles import Chart
from marketdata.store.symbols import unknown_symbol

_OFFERED = ["1S", "1", "3", "5", "15", "30", "60", "120", "240", "360", "480", "720", "1D", "3D", "1W", "1M"]
_SCALE_DAYS = 30
_MAX_DECIMALS = 16  # the precision of a JavaScript number near 1
_MIN_DIGITS = 5  # significant digits that the price scale keeps of the lowest price
_EXACT = Context(prec=200)
"""Holds the difference of any two prices, and a hundred times any change, without rounding."""


def config(_request: Request) -> Reply:
    """The capabilities of this feed."""
    return answer(
        {
            "supported_resolutions": _OFFERED,
            "supports_search": True,
            "supports_group_request": False,
            "supports_marks": False,
            "supports_timescale_marks": False,
            "supports_time": True,
            "exchanges": [{"value": "", "name": "All", "desc": ""}],
            "symbols_types": [{"name": "All", "value": ""}],
        }
    )


def clock(_request: Request) -> Reply:
    """The service's time in whole seconds."""
    return Reply(str(int(time())).encode(), media_type=TEXT)


def symbol_info(request: Request) -> Reply:
    """A symbol as the charting library expects it. The price scale fits the prices of the last 30 days. `timezone` is
    the requested `timeZone` if it is a name; an offset has no name in that protocol."""
    zone = request.services.time_zones.find(request.query["timeZone"])
    found = _read(request, symbol=request.query["symbol"], interval="1d", limit=_SCALE_DAYS, format="object")
    days = json.loads(found.body)["candles"]
    name = found.state.symbol
    return answer(
        {
            **_named(name),
            "session": "24x7",
            "timezone": zone.name if is_zone_name(zone.name) else "Etc/UTC",
            "listed_exchange": _exchange(name),
            "minmov": 1,
            "pricescale": 10 ** _decimals(days),
            "format": "price",
            "has_intraday": True,
            "has_seconds": True,
            "seconds_multipliers": ["1"],
            "intraday_multipliers": [each for each in _OFFERED if each.isdigit()],
            "has_daily": True,
            "daily_multipliers": ["1", "3"],
            "has_weekly_and_monthly": True,
            "weekly_multipliers": ["1"],
            "monthly_multipliers": ["1"],
            "supported_resolutions": _OFFERED,
            "volume_precision": 8,
            "data_status": "streaming",
        }
    )


def _decimals(days: list[dict[str, Any]]) -> int:
    """The decimal places that charts of these daily candles show."""
    if not days:
        return 2
    most = max(len(day[price].partition(".")[2]) for day in days for price in "ohlc")
    lowest = min(Decimal(day["l"]) for day in days)
    return min(most, max(_MAX_DECIMALS, _MIN_DIGITS - 1 - lowest.adjusted()))


def search(request: Request) -> Reply:
    """Symbols whose name or alias contains the text, ignoring case."""
    query = request.query
    text, services = query["query"].upper(), request.services
    version = services.served.version()
    listed = symbols.merged(services.current_reads.read_each(version, None, request.known_counter, symbols.list_all))
    found = [
        {**_named(each.symbol), "symbol": each.symbol, "full_name": each.symbol}
        for each in listed
        if any(text in name.upper() for name in (each.symbol, *each.aliases))
        and query["exchange"].upper() in ("", _exchange(each.symbol).upper())
        and query["type"].lower() in ("", "crypto")
    ]
    return answer(found[: query["limit"]])


def history(request: Request) -> Reply:
    """Bars with from <= t < to. With `countback`, the last `countback` bars before `to`; `from` is then ignored."""
    query = request.query
    zone = request.services.time_zones.find(query["timeZone"])
    series = {"symbol": query["symbol"], "interval": RESOLUTIONS[query["resolution"]], "zone": zone}
    end = query["to"] * SECOND - 1
    if "countback" in query:
        found = _read(request, **series, end=end, limit=query["countback"], format="udf")
    else:
        start = query["from"] * SECOND
        found = _read(request, **series, start=start, end=end, limit=MAX_ROWS, format="udf")
        if found.more:
            found = _read(request, **series, end=end, limit=MAX_ROWS, format="udf")
    if found.count:
        return Reply(found.body)
    nothing: dict[str, Any] = {"s": "no_data"}
    if "countback" not in query:
        before = _read(request, **series, end=query["from"] * SECOND - 1, limit=1, format="udf")
        if before.count:
            nothing["nextTime"] = json.loads(before.body)["t"][0]
    return answer(nothing)


def quotes(request: Request) -> Reply:
    """The last 24 hours of up to 200 symbols. A name that does not exist is an entry of its own, with `s: "error"`."""
    names = list(dict.fromkeys(request.query["symbols"].split(",")))
    version = request.services.served.version()
    read = request.services.current_reads.read_each
    found = summary.merged_named(read(version, names, request.known_counter, summary.named), names)
    entries = [_quote(name, found.items.get(found.names.get(name, ""))) for name in names]
    return Reply(b'{"s":"ok","d":[%b]}' % b",".join(entries))


def _error_reply(error: MarketError) -> Reply:
    """A problem with the members that the protocol requires in the body of an error."""
    error.extra |= {"s": "error", "errmsg": error.detail}
    return problem(error)


AS_UDF = ErrorShape("Problem", PROBLEM, _error_reply)


def _quote(name: str, item: bytes | None) -> bytes:
    """The entry of a requested name as JSON. ``item`` is the symbol's item of ``/v1/summary``, None for no symbol."""
    if item is None:
        return encode({"s": "error", "n": name, "v": {}, "errmsg": unknown_symbol(name).detail})
    of = json.loads(item)
    last, before = of["last"], of["open24h"]
    if last is None:
        return encode({"s": "error", "n": name, "v": {}, "errmsg": f"{of['symbol']} has no ticks"})
    numbers = {
        **dict.fromkeys(("lp", "ask", "bid"), last),
        "ch": _EXACT.subtract(Decimal(last), Decimal(before)),
        "chp": _EXACT.multiply(Decimal(of["change24h"]), 100),
        **dict.fromkeys(("open_price", "prev_close_price"), before),
        "high_price": of["high24h"],
        "low_price": of["low24h"],
        "volume": of["volume24h"],
    }
    named = _named(of["symbol"])
    texts = {
        "short_name": of["symbol"].partition(":")[2] or of["symbol"],
        "exchange": named["exchange"],
        "description": named["description"],
    }
    exact = ",".join(f'"{key}":{_number(value)}' for key, value in numbers.items() if value is not None)
    return b'{"s":"ok","n":%b,"v":%b,%b}}' % (encode(name), encode(texts)[:-1], exact.encode())


def _number(value: str | Decimal) -> str:
    text = format(Decimal(value), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def _read(request: Request, symbol: str, **arguments: Any) -> Chart:
    version = request.services.served.version()
    read = partial(candles.read, symbol=symbol, **arguments)
    return request.services.current_reads.read(version, [symbol], request.known_counter, read, checks=True)


def _named(symbol: str) -> dict[str, str]:
    return {
        "name": symbol,
        "ticker": symbol,
        "description": symbol,
        "type": "crypto",
        "exchange": _exchange(symbol),
    }


def _exchange(symbol: str) -> str:
    """Returns ``CHAIN`` of ``CHAIN:NAME``, or "" if the symbol has no colon."""
    chain, colon, _ = symbol.partition(":")
    return chain if colon else ""
