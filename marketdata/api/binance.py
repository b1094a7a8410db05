"""The market data of Binance's API for spot trading, ``/api/v3``, for the clients of that exchange.

Amounts are the same text as in the rest of the API. A symbol is named by itself, by an alias, or by its base and quote
without a hyphen if only one symbol has them. Lists of all symbols begin with those whose NAME has a pool's suffix: ccxt
keeps the last of the symbols with the same assets. :mod:`marketdata.api.binance_errors` has the shape of errors.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import ROUND_HALF_EVEN, Context, Decimal
from functools import partial
from itertools import chain
from time import time
from typing import Any, TypeVar

from marketdata.api import chart
from marketdata.api.binance_errors import COMBINATION
from marketdata.api.current_reads import counter_tag
from marketdata.api.routing import Request
from marketdata.api.services import Services
from marketdata.errors import FieldError, InvalidValue, NotFound
from marketdata.http.reply import Reply, answer, encode
from marketdata.http.revalidation import tagged, weak_tag
from marketdata.limits import MAX_SUMMARIES
from marketdata.store import markets, summary, trades
from marketdata.store.markets import Market
from marketdata.store.pool import Connection
from marketdata.store.summary import Summary
from marketdata.store.version import Version

_Shown = TypeVar("_Shown")

_DAY = 86_400_000
_MILLISECOND = 1000
_EXACT = Context(prec=200, rounding=ROUND_HALF_EVEN)
"""Enough digits that a quotient is rounded only once, to its last place."""
_LAST_PLACE = Decimal("1e-18")
_GREATEST = "9" * 30
"""The greatest price and size of a tick, without a fraction."""
_ALL = 1_000_000
"""A limit above the number of symbols of any version."""


def ping(_request: Request) -> Reply:
    """An empty object: the service answers, and the token is valid."""
    return answer({})


def clock(_request: Request) -> Reply:
    """The service's time in milliseconds."""
    return answer({"serverTime": _now()})


def exchange_info(request: Request) -> Reply:
    """The named symbols, or all symbols that have ticks. `baseAsset` and `quoteAsset` are the NAME of `CHAIN:NAME`,
    split at its last hyphen, or at its first if a pool's suffix follows."""
    services = request.services
    version = services.served.version()
    symbols = _symbols(request, version)
    read = services.current_reads.read_each(version, symbols, request.known_counter, markets.read)
    found = {each.symbol: each for each in chain.from_iterable(read)}
    listed = encode([_market(each) for each in _ordered(found, symbols).values()])
    body = b'{"timezone":"UTC","serverTime":%d,"rateLimits":[],"exchangeFilters":[],"symbols":%b}' % (_now(), listed)
    return _tagged(body, listed)


def klines(request: Request) -> Reply:
    """Candles with startTime <= open time <= endTime, as `format=binance` of `/v1/chart`: the first ones if `startTime`
    is given, otherwise the newest ones. A bucket without a tick has no candle."""
    symbols = _symbols(request, request.services.served.version())
    assert symbols is not None
    whole = {"sort": "asc", "fill": "none", "current": "include", "format": "binance", "open": "first"}
    return chart.chart(replace(request, query={**request.query, "symbol": symbols[0], **whole}))


def recent_trades(request: Request) -> Reply:
    """The newest ticks, the oldest of them first."""
    return _trades(request, format="trade")


def aggregate_trades(request: Request) -> Reply:
    """Ticks, the oldest first; each is an aggregate of one trade. They are the first ones from `fromId` or `startTime`
    on, otherwise the newest ones. Both bounds of time are inclusive."""
    query = request.query
    if "fromId" in query and ("startTime" in query or "endTime" in query):
        raise _combination("fromId excludes startTime and endTime")
    bounds = chart.bounds(query)
    # The time of a trade is cut off to milliseconds.
    end = None if bounds["end"] is None else bounds["end"] + _MILLISECOND
    return _trades(request, format="aggregate", start=bounds["start"], end=end, number=query.get("fromId"))


def price_ticker(request: Request) -> Reply:
    """The price of the last tick of the named symbols, or of all symbols that have ticks."""
    services = request.services
    version = services.served.version()
    symbols = _symbols(request, version)
    read = services.current_reads.read_each(version, symbols, request.known_counter, markets.last_prices)
    found = _ordered(dict(chain.from_iterable(each.items() for each in read)), symbols)
    prices = [{"symbol": symbol, "price": _price(price)} for symbol, price in found.items()]
    return answer(prices[0] if "symbol" in request.query else prices)


def day_ticker(request: Request) -> Reply:
    """The last 24 hours as in `/v1/summary`, of the named symbols or of all symbols that have ticks. `openPrice` and
    `prevClosePrice` are its `open24h`. A price that does not exist is 0. So are `bidPrice`, `bidQty`, `askPrice` and
    `askQty`, because there are no orders."""
    services = request.services
    version = services.served.version()
    symbols = _symbols(request, version)
    read = services.current_reads.read_each
    if symbols is None:

        def newest(connection: Connection, of: Version, _all: None) -> Summary:
            return summary.sorted_by(connection, of, "newest", _ALL, addition="trades")

        found = summary.merged_sorted(read(version, None, request.known_counter, newest), _ALL)
    else:
        named = partial(summary.named, addition="trades")
        found = summary.merged_named(read(version, symbols, request.known_counter, named), symbols)
    shown = _full if request.query["type"] == "FULL" else _mini
    items = list(_ordered(found.items, symbols).values())
    tickers = [shown(json.loads(item), found.as_of) for item in items]
    return _tagged(encode(tickers[0] if "symbol" in request.query else tickers), b",".join(items))


def _trades(request: Request, **arguments: Any) -> Reply:
    services = request.services
    version = services.served.version()
    symbols = _symbols(request, version)
    assert symbols is not None
    read = partial(trades.read, symbol=symbols[0], limit=request.query["limit"], **arguments)
    found = services.current_reads.read(version, symbols, request.known_counter, read)
    return tagged(Reply(found.body), counter_tag(found.counter, found.symbol, found.origin))


def _symbols(request: Request, version: Version) -> list[str] | None:
    """Returns the symbols that the query names, each once, or None if it names none. Raises NotFound for an unknown
    name."""
    query = request.query
    if "symbol" in query and "symbols" in query:
        raise _combination("symbol excludes symbols")
    if "symbol" in query:
        return _resolved(request.services, version, [query["symbol"]])
    if "symbols" not in query:
        return None
    names = json.loads(query["symbols"])
    if len(names) > MAX_SUMMARIES:
        raise InvalidValue.of("/symbols", f"must have at most {MAX_SUMMARIES} items; without it, all symbols are sent")
    return list(dict.fromkeys(_resolved(request.services, version, names)))


def _resolved(services: Services, version: Version, names: Sequence[str]) -> list[str]:
    """Returns the symbols of these names. A replica may not have a new symbol yet, so the primary is asked, too."""
    try:
        reads = services.current_reads
        return markets.resolved(names, lambda chosen, read: reads.read_each(version, chosen, 0, read))
    except NotFound:
        if not services.reads:
            raise
    with services.pool.connection() as connection:
        return markets.resolved(names, lambda chosen, read: [read(connection, version, chosen)])


def _ordered(found: Mapping[str, _Shown], symbols: list[str] | None) -> dict[str, _Shown]:
    """The found symbols: the named ones in their order, or all in the order of lists."""
    if symbols is not None:
        return {symbol: found[symbol] for symbol in symbols if symbol in found}
    return {symbol: found[symbol] for symbol in sorted(found, key=lambda each: (not markets.has_suffix(each), each))}


def _combination(message: str) -> InvalidValue:
    return InvalidValue(message, errors=(FieldError("", message, COMBINATION),))


def _tagged(body: bytes, content: bytes) -> Reply:
    """Returns a reply with the tag of ``content``, the part of ``body`` that is not the time of the request."""
    return tagged(Reply(body), weak_tag(hashlib.sha256(content).hexdigest()[:32]))


def _now() -> int:
    return int(time() * 1000)


# -- what is shown of a symbol ---------------------------------------------------------------------------------------


def _market(market: Market) -> dict[str, Any]:
    base, quote = markets.assets(market.symbol)
    quote_decimals = market.price_decimals + market.size_decimals
    tick, step = (_unit(decimals) for decimals in (market.price_decimals, market.size_decimals))
    return {
        "symbol": market.symbol,
        "status": "TRADING",
        "baseAsset": base,
        "baseAssetPrecision": market.size_decimals,
        "quoteAsset": quote,
        "quotePrecision": quote_decimals,
        "quoteAssetPrecision": quote_decimals,
        "orderTypes": [],
        "icebergAllowed": False,
        "ocoAllowed": False,
        "quoteOrderQtyMarketAllowed": False,
        "allowTrailingStop": False,
        "cancelReplaceAllowed": False,
        "isSpotTradingAllowed": False,
        "isMarginTradingAllowed": False,
        "filters": [
            {"filterType": "PRICE_FILTER", "minPrice": tick, "maxPrice": _GREATEST, "tickSize": tick},
            {"filterType": "LOT_SIZE", "minQty": step, "maxQty": _GREATEST, "stepSize": step},
        ],
        "permissions": ["SPOT"],
        "permissionSets": [["SPOT"]],
        "defaultSelfTradePreventionMode": "NONE",
        "allowedSelfTradePreventionModes": [],
    }


def _mini(item: dict[str, Any], as_of: int) -> dict[str, Any]:
    return {
        "symbol": item["symbol"],
        "openPrice": _price(item["open24h"]),
        "highPrice": _price(item["high24h"]),
        "lowPrice": _price(item["low24h"]),
        "lastPrice": _price(item["last"]),
        "volume": item["volume24h"],
        "quoteVolume": item["quote_volume24h"],
        "openTime": as_of - _DAY,
        "closeTime": as_of,
        "firstId": item["first_id"],
        "lastId": item["last_id"],
        "count": item["trades24h"],
    }


def _full(item: dict[str, Any], as_of: int) -> dict[str, Any]:
    mini = _mini(item, as_of)
    change = _EXACT.subtract(Decimal(mini["lastPrice"]), Decimal(mini["openPrice"]))
    volume, quote = Decimal(mini["volume"]), Decimal(mini["quoteVolume"])
    average = _EXACT.divide(quote, volume).quantize(_LAST_PLACE, context=_EXACT) if volume else volume
    return {
        **mini,
        "priceChange": _text(change),
        "priceChangePercent": _text(_EXACT.multiply(Decimal(item["change24h"] or 0), Decimal(100))),
        "weightedAvgPrice": _text(average),
        "prevClosePrice": mini["openPrice"],
        "lastQty": _price(item["last_size"]),
        **dict.fromkeys(("bidPrice", "bidQty", "askPrice", "askQty"), "0"),
    }


def _price(text: str | None) -> str:
    """Returns a price that may not exist as Binance shows it."""
    return text or "0"


def _unit(decimals: int) -> str:
    return format(Decimal(1).scaleb(-decimals), "f")


def _text(number: Decimal) -> str:
    """Returns the number without exponent and without trailing zeros."""
    return format(number.normalize(_EXACT), "f")
