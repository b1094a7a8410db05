"""Health, readiness and metrics. They need no credentials, and report the results of
:mod:`marketdata.api.database_health`, so none of them waits for a database that does not react."""

from __future__ import annotations

from time import monotonic

from marketdata.api.metrics import ByLabel
from marketdata.api.routing import OF_DATABASE, Request
from marketdata.api.services import Services
from marketdata.errors import DatabaseUnavailable, MarketError, NotFound
from marketdata.http.failures import status_of
from marketdata.http.reply import PROMETHEUS, Reply, answer
from marketdata.store import coverage
from marketdata.store.coverage import Lags

WITHOUT_WAITING = frozenset({"/healthz", "/ready"})
"""The paths that must be answered even while all workers wait for the database."""


def healthz(request: Request) -> Reply:
    """200 while the process runs. `database` is the result of the last check."""
    services = request.services
    error = services.health.primary.error()
    return answer(
        {
            "status": "alive",
            "database": {"reachable": error is None, "reason": error.detail if error else None},
            "uptime_s": round(monotonic() - services.started_at, 3),
        }
    )


def ready(request: Request) -> Reply:
    """200 if the last check could call the candles function of the served version on a new connection to the database,
    and to the replica if there is one; otherwise 503. `checked_s_ago` is the age of that result. `lag_s` and
    `lag_bytes` say how far the replica is behind. `graphql` says whether the GraphQL engine tracks the version; the
    status does not depend on it."""
    health = request.services.health
    health.wait_for_first()
    error = _error(request.services)
    if error is not None:
        # The same exception is raised for each request until the next check, and its traceback would grow each time.
        raise _unready(error).with_traceback(None) from error.__cause__
    version, lag = health.primary.version, health.lag
    assert version is not None, "a check succeeded"
    tracking = request.services.graphql.tracking(version)
    return answer(
        {
            "ready": True,
            "ticks_table": version.ticks_table,
            "candles_function": version.candles_function,
            "checked_s_ago": round(health.age, 3),
            "replica": lag and {"is_standby": lag.is_standby, "lag_s": lag.seconds, "lag_bytes": lag.bytes},
            "graphql": tracking
            and {
                "tracked": tracking.reason is None,
                "reason": tracking.reason,
                "checked_s_ago": round(tracking.age, 3),
            },
        }
    )


def _error(services: Services) -> MarketError | None:
    return services.health.error() or services.pool.error() or services.reads.error()


def _unready(error: MarketError) -> MarketError:
    """Returns ``error``, or an error with the same text that is answered with 503."""
    if status_of(type(error)) == 503:
        return error
    return DatabaseUnavailable(error.detail, code=error.code if error.code in OF_DATABASE else None)


def metrics(request: Request) -> Reply:
    """Prometheus' text format. Figures from the database are left out while the database does not answer. With
    `MARKET_METRICS=off` there is nothing here."""
    services = request.services
    if not services.shows_metrics:
        raise NotFound("this service shows no metrics: MARKET_METRICS is off")
    pool = services.pool.stats()
    health = services.health
    lags = _lags(services)
    figures: dict[str, tuple[str, float | ByLabel]] = {
        "marketdata_ingest_queue_items": ("Items that wait for a transaction.", services.tick_writer.depth),
        "marketdata_requests_waiting": ("Requests that wait for a worker.", services.backlog()),
        "marketdata_pool_connections": ("Open connections to the database.", pool.get("pool_size", 0)),
        "marketdata_pool_available": ("Idle connections to the database.", pool.get("pool_available", 0)),
        "marketdata_pool_waiting": ("Requests that wait for a connection.", pool.get("requests_waiting", 0)),
        "marketdata_database_up": ("1 while the database answers.", int(health.primary.error() is None)),
        "marketdata_ready": ("1 while GET /ready is 200.", int(_error(services) is None)),
        "marketdata_check_age_seconds": ("Time since the last check.", health.age),
        "marketdata_response_cache_bytes": ("Size of the cached responses.", services.response_cache.size),
        "marketdata_live_connections": ("Open WebSocket connections.", services.live.connections),
        "marketdata_live_messages_total": ("Candles and ticks sent over WebSockets.", services.live.sent_messages),
        "marketdata_backfill_lag_seconds": (
            "Time since the end of the newest indexed range.",
            ByLabel("symbol", lags.symbols),
        ),
        "marketdata_backfill_chain_lag_seconds": (
            "Time since the end of the newest indexed range of the chain.",
            ByLabel("chain", lags.chains),
        ),
    }
    if (lag := health.lag) is not None:
        figures["marketdata_replica_lag_seconds"] = ("How old the replica's data are.", lag.seconds)
        figures["marketdata_replica_lag_bytes"] = ("Log that the replica has not replayed.", lag.bytes)
    if (tracking := services.graphql.tracking(health.primary.version)) is not None:
        figures["marketdata_graphql_tracked"] = (
            "1 while the GraphQL engine tracks the version.",
            int(tracking.reason is None),
        )
    return Reply(services.metrics.render(figures).encode(), media_type=PROMETHEUS)


def _lags(services: Services) -> Lags:
    if services.health.error() is not None or services.reads.stats().get("requests_waiting"):
        return Lags({}, {})  # metrics must not wait for a connection while the service is overloaded
    try:
        with services.reads.connection() as connection:
            return coverage.lags(connection, services.served.version())
    except MarketError:
        return Lags({}, {})
