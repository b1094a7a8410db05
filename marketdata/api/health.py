"""Health, readiness and metrics; they need no credentials."""

from __future__ import annotations

from collections.abc import Mapping
from time import monotonic

from marketdata.api.http import PROMETHEUS, Reply, answer
from marketdata.api.request import Request
from marketdata.api.services import Services
from marketdata.errors import MarketError
from marketdata.store import coverage


def healthz(request: Request) -> Reply:
    """200 while the process runs. The state of the database is that of its last check."""
    services = request.services
    reason = services.revocation_listener.reason
    return answer(
        {
            "status": "alive",
            "database": {"reachable": reason is None, "reason": reason},
            "uptime_s": round(monotonic() - services.started_at, 3),
        }
    )


def ready(request: Request) -> Reply:
    """200 when the database answers and contains the version to serve, and so does the replica that reads use, if there
    is one; else 503."""
    services = request.services
    with services.pool.connection() as connection:
        version = services.served.find(connection)
    if services.reads is not services.pool:
        with services.reads.connection() as connection:
            version.check(connection)
    return answer({"ready": True, "ticks_table": version.ticks_table, "candles_function": version.candles_function})


def metrics(request: Request) -> Reply:
    """Prometheus' text format. Figures from the database are left out while it does not answer."""
    services = request.services
    pool = services.pool.stats()
    figures: dict[str, tuple[str, float | Mapping[str, float]]] = {
        "marketdata_ingest_queue_items": ("Items that wait for a transaction.", services.ingestion.depth),
        "marketdata_requests_waiting": ("Requests that wait for a worker.", services.backlog()),
        "marketdata_pool_connections": ("Open connections to the database.", pool.get("pool_size", 0)),
        "marketdata_pool_available": ("Idle connections to the database.", pool.get("pool_available", 0)),
        "marketdata_pool_waiting": ("Requests that wait for a connection.", pool.get("requests_waiting", 0)),
        "marketdata_database_up": ("1 while the database answers.", int(services.revocation_listener.reason is None)),
        "marketdata_response_cache_bytes": ("Size of the cached responses.", services.response_cache.size),
        "marketdata_live_connections": ("Open WebSocket connections.", services.live.connections),
        "marketdata_live_messages_total": ("Candles and ticks sent over WebSockets.", services.live.sent_messages),
        "marketdata_backfill_lag_seconds": ("Time since the end of the newest indexed range.", _lags(services)),
    }
    return Reply(services.metrics.render(figures).encode(), media_type=PROMETHEUS)


def _lags(services: Services) -> Mapping[str, float]:
    if services.revocation_listener.reason is not None or services.reads.stats().get("requests_waiting"):
        return {}  # metrics must not wait for a connection while the service is overloaded
    try:
        with services.reads.connection() as connection:
            return coverage.lags(connection, services.served.version())
    except MarketError:
        return {}
