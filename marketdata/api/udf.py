"""TradingView's Universal Data Feed (UDF), so that its charts can be pointed at ``/v1/udf``.

Times are seconds, prices are JSON numbers with the database's digits, and ``to`` is exclusive. A refusal is a problem
as everywhere, with the protocol's own ``s`` and ``errmsg`` among its members.
"""

from __future__ import annotations

import json
from time import time
from typing import Any

from marketdata.api.http import TEXT, Reply, Request, answer
from marketdata.errors import MarketError
from marketdata.interval import RESOLUTIONS, SECOND
from marketdata.store import candles, symbols
from marketdata.store.candles import Chart

UDF = "/v1/udf/"

_OFFERED = ["1S", "1", "3", "5", "15", "30", "60", "120", "240", "360", "480", "720", "1D", "3D", "1W", "1M"]
_BARS_MAX = 10_000
_DAYS_LOOKED_AT = 30
_DECIMALS_MAX = 16  # a JavaScript number holds no more


def config(_request: Request) -> Reply:
    """What this feed offers."""
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
    """A symbol as the chart library wants it; its price scale is that of the last days' prices."""
    found = _read(request, symbol=request.query["symbol"], interval="1d", limit=_DAYS_LOOKED_AT, format="object")
    days = json.loads(found.body)["candles"]
    decimals = max((len(day[price].partition(".")[2]) for day in days for price in "ohlc"), default=2)
    name = found.state.symbol
    return answer(
        {
            **_named(name),
            "session": "24x7",
            "timezone": "Etc/UTC",
            "listed_exchange": _exchange(name),
            "minmov": 1,
            "pricescale": 10 ** min(decimals, _DECIMALS_MAX),
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


def search(request: Request) -> Reply:
    """Symbols whose name or alias holds the text, in any case."""
    query = request.query
    wanted, services = query["query"].upper(), request.services
    with services.reads.connection() as connection:
        listed = symbols.list_all(connection, services.served.version())
    found = [
        {**_named(each.symbol), "symbol": each.symbol, "full_name": each.symbol}
        for each in listed
        if any(wanted in name.upper() for name in (each.symbol, *each.aliases))
        and query["exchange"].upper() in ("", _exchange(each.symbol).upper())
        and query["type"].lower() in ("", "crypto")
    ]
    return answer(found[: query["limit"]])


def history(request: Request) -> Reply:
    """Bars with from <= t < to; with `countback` the newest so many before `to`, whatever `from` is."""
    query = request.query
    asked = {"symbol": query["symbol"], "interval": RESOLUTIONS[query["resolution"]]}
    end = query["to"] * SECOND - 1
    if "countback" in query:
        found = _read(request, **asked, end=end, limit=query["countback"], format="udf")
    else:
        start = query["from"] * SECOND
        found = _read(request, **asked, start=start, end=end, limit=_BARS_MAX, format="udf")
        if found.more:
            found = _read(request, **asked, end=end, limit=_BARS_MAX, format="udf")
    if found.count:
        return Reply(found.body)
    nothing: dict[str, Any] = {"s": "no_data"}
    if "countback" not in query:
        before = _read(request, **asked, end=query["from"] * SECOND - 1, limit=1, format="udf")
        if before.count:
            nothing["nextTime"] = json.loads(before.body)["t"][0]
    return answer(nothing)


def in_udf_words(error: Exception) -> Exception:
    """``error`` with what the protocol says of errors among the members of its problem."""
    if isinstance(error, MarketError):
        error.extra |= {"s": "error", "errmsg": error.detail}
    return error


def _read(request: Request, **asked: Any) -> Chart:
    services = request.services
    with services.reads.connection() as connection:
        return candles.read(connection, services.served.version(), **asked)


def _named(symbol: str) -> dict[str, str]:
    return {
        "name": symbol,
        "ticker": symbol,
        "description": symbol,
        "type": "crypto",
        "exchange": _exchange(symbol),
    }


def _exchange(symbol: str) -> str:
    """``CHAIN`` of ``CHAIN:NAME``."""
    chain, colon, _ = symbol.partition(":")
    return chain if colon else ""
