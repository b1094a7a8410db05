"""The route table of the API; routing, validation and the API description are derived from it."""

from __future__ import annotations

from functools import cache
from typing import Any

from marketdata.api import admin, binance, chart, health, ingest, openapi, summary, symbols, ticks, udf
from marketdata.api.binance_errors import AS_BINANCE
from marketdata.api.current_reads import VERSION, VERSION_ABOUT
from marketdata.api.docs_page import docs_page
from marketdata.api.routing import Application, Body, Request, Route
from marketdata.api.services import Services
from marketdata.http.document import DOCS
from marketdata.http.failures import PROBLEMS
from marketdata.http.problem_page import problem_page
from marketdata.http.reply import CSV, CSV_TYPE, HTML, JSON, NDJSON, PROMETHEUS, TEXT, Reply, answer


def description(_request: Request) -> Reply:
    """The description of this API, derived from the route table."""
    return answer(_described())


def problems(_request: Request) -> Reply:
    """A page for people. The `type` of every problem refers to it."""
    return Reply(_explained(), media_type=HTML)


def docs(_request: Request) -> Reply:
    """A page for people, made from the description of this API."""
    return Reply(_documented(), media_type=HTML)


def live(request: Request) -> Reply:
    """Sends candles and ticks when they change, over a WebSocket with the subprotocol `marketdata-live.v1`. The text
    messages are JSON: the client sends `LiveRequest`, the service sends `LiveMessage`."""
    assert request.caller is not None
    raise request.services.live.handshake(request.environ, request.caller)


# fmt: off
ROUTES: tuple[Route, ...] = (
    # -- the service -----------------------------------------------------------------------------------------------
    Route("GET", "/healthz", health.healthz, "Whether the process runs", "Health", database=False),
    Route("GET", "/ready", health.ready, "Whether the database answers and contains the version", "Ready",
          database_status=503),
    Route("GET", "/metrics", health.metrics, "Counters for Prometheus", produces=(PROMETHEUS,), problems=("not_found",),
          database=False),
    Route("GET", "/openapi.json", description, "This description", "Description", database=False),
    Route("GET", PROBLEMS, problems, "Every error: what it means, and what to do", produces=(HTML,), database=False,
          revalidated=True),
    Route("GET", DOCS, docs, "This description as a page", produces=(HTML,), database=False, revalidated=True),
    # -- reading ---------------------------------------------------------------------------------------------------
    Route("GET", "/v1/chart", chart.chart, "Candles", "Chart", scope="read", query="ChartQuery", produces=(JSON, CSV),
          problems=("unknown_symbol", "pruned"), revalidated=True),
    Route("GET", "/v1/ticks", ticks.read, "Ticks", "Ticks", scope="read", query="TicksQuery",
          produces=(JSON, CSV, NDJSON), problems=("unknown_symbol", "pruned", "saturated"), revalidated=True,
          headers=((ticks.CURSOR, ticks.CURSOR_ABOUT),)),
    Route("GET", "/v1/summary", summary.read, "The last 24 hours of many symbols", "Summary", scope="read",
          query="SummaryQuery", problems=("unknown_symbol",), revalidated=True),
    Route("GET", "/v1/symbols", symbols.list_symbols, "Every symbol", "Symbols", scope="read", revalidated=True),
    Route("GET", "/v1/coverage", symbols.show_coverage, "The indexed time ranges", "Coverage", scope="any",
          query="SymbolQuery", problems=("unknown_symbol",), revalidated=True),
    Route("GET", "/v1/live", live, "Candles and ticks as they change (WebSocket)", scope="read", statuses=(101,),
          problems=("upgrade_required", "saturated"), websocket=("LiveRequest", "LiveMessage")),
    # -- TradingView's charts --------------------------------------------------------------------------------------
    Route("GET", "/v1/udf/config", udf.config, "Capabilities of the feed", "UdfConfig", scope="read", revalidated=True,
          database=False, errors=udf.AS_UDF),
    Route("GET", "/v1/udf/time", udf.clock, "Seconds since 1970", scope="read", produces=(TEXT,), database=False,
          errors=udf.AS_UDF),
    Route("GET", "/v1/udf/symbols", udf.symbol_info, "A symbol", "UdfSymbol", scope="read", query="UdfSymbolQuery",
          problems=("unknown_symbol",), revalidated=True, errors=udf.AS_UDF),
    Route("GET", "/v1/udf/search", udf.search, "Symbols by a part of their name", "UdfSearch", scope="read",
          query="UdfSearchQuery", revalidated=True, errors=udf.AS_UDF),
    Route("GET", "/v1/udf/history", udf.history, "Bars", "UdfHistory", scope="read", query="UdfHistoryQuery",
          problems=("unknown_symbol", "pruned"), revalidated=True, errors=udf.AS_UDF),
    Route("GET", "/v1/udf/quotes", udf.quotes, "The last 24 hours of symbols", "UdfQuotes", scope="read",
          query="UdfQuotesQuery", revalidated=True, errors=udf.AS_UDF),
    # -- Binance's clients -----------------------------------------------------------------------------------------
    Route("GET", "/api/v3/ping", binance.ping, "An empty object", "BinancePing", scope="read", database=False,
          errors=AS_BINANCE),
    Route("GET", "/api/v3/time", binance.clock, "Milliseconds since 1970", "BinanceTime", scope="read",
          database=False, errors=AS_BINANCE),
    Route("GET", "/api/v3/exchangeInfo", binance.exchange_info, "Symbols with their assets", "BinanceExchangeInfo",
          scope="read", query="BinanceSymbolsQuery", revalidated=True, errors=AS_BINANCE),
    Route("GET", "/api/v3/klines", binance.klines, "Candles", "BinanceKlines", scope="read",
          query="BinanceKlinesQuery", problems=("pruned",), revalidated=True, errors=AS_BINANCE),
    Route("GET", "/api/v3/ticker/price", binance.price_ticker, "Last prices", "BinancePrices", scope="read",
          query="BinanceSymbolsQuery", revalidated=True, errors=AS_BINANCE),
    Route("GET", "/api/v3/ticker/24hr", binance.day_ticker, "The last 24 hours", "BinanceTickers", scope="read",
          query="BinanceTickersQuery", revalidated=True, errors=AS_BINANCE),
    Route("GET", "/api/v3/trades", binance.recent_trades, "The newest ticks", "BinanceTrades", scope="read",
          query="BinanceTradesQuery", problems=("pruned",), revalidated=True, errors=AS_BINANCE),
    Route("GET", "/api/v3/aggTrades", binance.aggregate_trades, "Ticks from an id or a time on",
          "BinanceAggregateTrades", scope="read", query="BinanceAggregateTradesQuery", problems=("pruned",),
          revalidated=True, errors=AS_BINANCE),
    # -- writing ---------------------------------------------------------------------------------------------------
    Route("POST", "/v1/ingest/tick", ingest.ingest, "Store a tick or a batch", "Ingested", scope="write",
          statuses=(200, 201), body=Body("Ingest", (JSON, NDJSON, CSV_TYPE), accepts_gzip=True),
          problems=("tick_conflict", "retracted", "pruned", "conflict", "partly_stored"),
          headers=((VERSION, VERSION_ABOUT),)),
    Route("PUT", "/v1/coverage", symbols.record_coverage, "Record an indexed time range", "CoverageRecorded",
          scope="write", body=Body("CoverageRequest")),
    Route("GET", "/v1/blocks", symbols.list_blocks, "Stored blocks that are not final", "Blocks", scope="any",
          query="BlocksQuery"),
    Route("PUT", "/v1/lease/{name}", symbols.take_lease, "Take or extend a lease", "Lease", scope="write",
          body=Body("LeaseRequest"), problems=("lease_held",)),
    Route("DELETE", "/v1/lease/{name}", symbols.release_lease, "Release a lease", "Released", scope="write",
          body=Body("LeaseRelease"), problems=("lease_held",)),
    # -- tokens ----------------------------------------------------------------------------------------------------
    Route("GET", "/v1/admin/tokens", admin.list_tokens, "List all tokens", "Tokens", scope="admin"),
    Route("POST", "/v1/admin/tokens", admin.create_token, "Create a token", "NewToken", scope="admin", statuses=(201,),
          body=Body("TokenRequest")),
    Route("DELETE", "/v1/admin/tokens/{id}", admin.revoke_token, "Revoke a token", "Token", scope="admin",
          problems=("unknown_token",)),
)
# fmt: on


@cache
def _described() -> dict[str, Any]:
    return openapi.describe(ROUTES)


@cache
def _documented() -> bytes:
    return docs_page(_described())


@cache
def _explained() -> bytes:
    return problem_page()


def make_app(services: Services) -> Application:
    """Returns the WSGI application of the API."""
    return Application(ROUTES, services)
