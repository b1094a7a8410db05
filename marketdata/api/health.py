"""Whether the service lives, whether it is ready, and what it counted. No credentials, and nothing that needs them."""

from __future__ import annotations

from collections.abc import Mapping
from time import monotonic

from marketdata.api.http import PROMETHEUS, Reply, Request, answer
from marketdata.api.services import Services
from marketdata.errors import MarketError
from marketdata.store import coverage


def healthz(request: Request) -> Reply:
    """200 while the process lives. The state of the database is what the watch over it last saw."""
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
    """200 when the database, and the one that is read from where that is another, answers and holds the version that is
    served; 503 until then."""
    services = request.services
    with services.pool.connection() as connection:
        version = services.served.find(connection)
    if services.reads is not services.pool:
        with services.reads.connection() as connection:
            version.check(connection)
    return answer({"ready": True, "ticks_table": version.ticks_table, "candles_function": version.candles_function})


def metrics(request: Request) -> Reply:
    """Prometheus' text format. Without the database what only that knows is left out."""
    services = request.services
    pool = services.pool.stats()
    gauges: dict[str, tuple[str, float | Mapping[str, float]]] = {
        "marketdata_ingest_queue_items": ("Items that wait for the next transaction.", services.ingestion.depth),
        "marketdata_requests_waiting": ("Requests that wait for a worker.", services.backlog()),
        "marketdata_pool_connections": ("Open connections to the database.", pool.get("pool_size", 0)),
        "marketdata_pool_available": ("Connections that are free.", pool.get("pool_available", 0)),
        "marketdata_pool_waiting": ("Requests that wait for a connection.", pool.get("requests_waiting", 0)),
        "marketdata_database_up": ("1 while the database answers.", int(services.revocation_listener.reason is None)),
        "marketdata_remembered_bytes": ("Size of the remembered answers.", services.response_cache.size),
        "marketdata_backfill_lag_seconds": ("Time since the end of what was indexed.", _lags(services)),
    }
    return Reply(services.metrics.render(gauges).encode(), media_type=PROMETHEUS)


def _lags(services: Services) -> Mapping[str, float]:
    if services.revocation_listener.reason is not None or services.reads.stats().get("requests_waiting"):
        return {}  # nobody should wait for the metrics when they are wanted most
    try:
        with services.reads.connection() as connection:
            return coverage.lags(connection, services.served.version())
    except MarketError:
        return {}
