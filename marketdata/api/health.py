"""Health, readiness and metrics. They need no credentials, and report the results of
:mod:`marketdata.api.database_health`, so none of them waits for a database that does not react."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from time import monotonic
from typing import Any, NamedTuple

from marketdata.api.cluster import ClusterNode
from marketdata.api.database_health import ReplicaHealth
from marketdata.api.metrics import ByLabel, ByLabels, Figure
from marketdata.api.routing import Request, unavailable
from marketdata.api.services import Services
from marketdata.errors import MarketError, NotFound
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
    """200 if the last check could call the candles function of the served version on a new connection to the database;
    otherwise 503. With several processes it is 200 if one of them is ready. `checked_s_ago` is the age of that result.
    `replicas` says which hosts of `DATABASE_READ_URL` are read, and why others are not. `graphql` says whether the
    GraphQL engine tracks the version. The status depends on neither. `nodes` has the nodes of a version that Citus
    distributes. While a node is not usable, requests for its symbols are 503; `/ready` is 503 if no node is usable."""
    services = request.services
    services.health.wait_for_first()
    services.cluster.wait_for_first()
    error = _error(services)
    if error is None:
        return answer(_readiness(services))
    for report in services.memory.other_reports():
        if report["ready"] is not None:
            return answer(report["ready"])
    # The same exception is raised for each request until the next check, and its traceback would grow each time.
    raise _unready(error).with_traceback(None) from error.__cause__


def _readiness(services: Services) -> dict[str, Any]:
    version = services.health.primary.version
    assert version is not None, "a check succeeded"
    tracking = services.graphql.tracking(version)
    return {
        "ready": True,
        "ticks_table": version.ticks_table,
        "candles_function": version.candles_function,
        "checked_s_ago": round(services.health.age, 3),
        "replicas": [_shown(replica) for replica in services.health.replicas],
        "nodes": [_shown_node(node) for node in services.cluster.nodes],
        "graphql": tracking
        and {
            "tracked": tracking.reason is None,
            "reason": tracking.reason,
            "checked_s_ago": round(tracking.age, 3),
        },
    }


def _shown(replica: ReplicaHealth) -> dict[str, Any]:
    lag = replica.lag
    return {
        "host": replica.name,
        "state": replica.state,
        "reason": replica.reason,
        "lag_s": lag and lag.seconds,
        "lag_bytes": lag and lag.bytes,
    }


def _shown_node(node: ClusterNode) -> dict[str, Any]:
    return {"host": node.name, "state": node.state, "reason": node.reason, "shards": len(node.shards)}


def _error(services: Services) -> MarketError | None:
    primary = services.health.primary.error() or services.pool.error()
    return primary or services.reads.error() or services.cluster.error()


def _unready(error: MarketError) -> MarketError:
    """Returns ``error``, or an error with the same text that is answered with 503."""
    return error if status_of(type(error)) == 503 else unavailable(error)


class Gauge(NamedTuple):
    """A figure that each process reports, and how the figures of several processes are combined."""

    about: str
    of: Callable[[Services], float]
    combined: Callable[[Iterable[float]], float] = sum


GAUGES = {
    "marketdata_ingest_queue_items": Gauge(
        "Items that wait for a transaction.", lambda services: services.tick_writer.depth
    ),
    "marketdata_requests_waiting": Gauge("Requests that wait for a worker.", lambda services: services.backlog()),
    "marketdata_pool_connections": Gauge(
        "Open connections to the database.", lambda services: services.pool.stats().get("pool_size", 0)
    ),
    "marketdata_pool_available": Gauge(
        "Idle connections to the database.", lambda services: services.pool.stats().get("pool_available", 0)
    ),
    "marketdata_pool_waiting": Gauge(
        "Requests that wait for a connection.", lambda services: services.pool.stats().get("requests_waiting", 0)
    ),
    "marketdata_database_up": Gauge(
        "1 while the database answers.", lambda services: int(services.health.primary.error() is None), max
    ),
    "marketdata_ready": Gauge("1 while GET /ready is 200.", lambda services: int(_error(services) is None), max),
    "marketdata_check_age_seconds": Gauge("Time since the last check.", lambda services: services.health.age, max),
    "marketdata_response_cache_bytes": Gauge(
        "Size of the cached responses.", lambda services: services.response_cache.size
    ),
    "marketdata_live_connections": Gauge("Open WebSocket connections.", lambda services: services.live.connections),
}


def report(services: Services) -> None:
    """Tell the other processes of the API what this one would answer to `/ready`, and its gauges."""
    is_ready = _error(services) is None
    assert services.memory.own is not None
    services.memory.own.report(
        {
            "ready": _readiness(services) if is_ready else None,
            "gauges": _gauges(services),
            "node_connections": _node_connections(services),
        }
    )


def _gauges(services: Services) -> dict[str, float]:
    return {name: gauge.of(services) for name, gauge in GAUGES.items()}


def _node_connections(services: Services) -> dict[str, int]:
    """The open connections of this process to each node, by its host and port."""
    pools = services.placement.pools()
    return {"{}:{}".format(*node): pool.stats().get("pool_size", 0) for node, pool in pools.items()}


def metrics(request: Request) -> Reply:
    """Prometheus' text format: the sums of all processes. Figures from the database are left out while the database
    does not answer. With `MARKET_METRICS=off` there is nothing here."""
    services = request.services
    if not services.shows_metrics:
        raise NotFound("this service shows no metrics: MARKET_METRICS is off")
    memory = services.memory
    others = memory.other_reports()
    reported = [_gauges(services), *(report["gauges"] for report in others)]
    figures: dict[str, Figure] = {
        name: (gauge.about, gauge.combined(each[name] for each in reported)) for name, gauge in GAUGES.items()
    }
    lags = _lags(services)
    figures |= {
        "marketdata_processes": ("Processes of the API that serve.", memory.running),
        "marketdata_process_restarts_total": ("Processes of the API that ended and were replaced.", memory.restarts),
        "marketdata_backfill_lag_seconds": (
            "Time since the end of the newest indexed range.",
            ByLabel("symbol", lags.symbols),
        ),
        "marketdata_backfill_chain_lag_seconds": (
            "Time since the end of the newest indexed range of the chain.",
            ByLabel("chain", lags.chains),
        ),
    }
    figures |= _figures_of_checks(services)
    figures |= _figures_of_nodes(services, [report["node_connections"] for report in others])
    return Reply(services.metrics.render(figures).encode(), media_type=PROMETHEUS)


def _figures_of_checks(services: Services) -> dict[str, Figure]:
    """The results of this process' checks of the replicas and of the GraphQL engine. The other processes find the
    same."""
    figures: dict[str, Figure] = {}
    if replicas := services.health.replicas:
        usable: dict[tuple[str, ...], float] = {
            (each.name, each.state): float(each.usable_lag is not None) for each in replicas
        }
        lags = {each.name: lag for each in replicas if (lag := each.lag) is not None}
        figures["marketdata_replica_usable"] = (
            "1 while the replica may be read, else 0, with what it is.",
            ByLabels(("replica", "state"), usable),
        )
        figures["marketdata_replica_lag_seconds"] = (
            "How old the replica's data are.",
            ByLabel("replica", {name: lag.seconds for name, lag in lags.items()}),
        )
        figures["marketdata_replica_lag_bytes"] = (
            "Log that the replica has not replayed.",
            ByLabel("replica", {name: lag.bytes for name, lag in lags.items()}),
        )
    if (tracking := services.graphql.tracking(services.health.primary.version)) is not None:
        figures["marketdata_graphql_tracked"] = (
            "1 while the GraphQL engine tracks the version.",
            int(tracking.reason is None),
        )
    return figures


def _figures_of_nodes(services: Services, others: Iterable[Mapping[str, int]]) -> dict[str, Figure]:
    """The results of this process' checks of the nodes of a distributed version, and the connections of all processes
    to these nodes. ``others`` are the connections of the other processes."""
    if not (nodes := services.cluster.nodes):
        return {}
    connections = Counter(_node_connections(services))
    for each in others:
        connections.update(each)
    return {
        "marketdata_node_up": (
            "1 while the node of the Citus cluster is usable.",
            ByLabel("node", {each.name: float(each.check.error() is None) for each in nodes}),
        ),
        "marketdata_node_shards": (
            "Shards of the version on the node.",
            ByLabel("node", {each.name: float(len(each.shards)) for each in nodes}),
        ),
        "marketdata_node_pool_connections": (
            "Open connections to the node.",
            ByLabel("node", {each.name: float(connections[each.name]) for each in nodes}),
        ),
    }


def _lags(services: Services) -> Lags:
    if services.health.primary.error() is not None or services.reads.pool.stats().get("requests_waiting"):
        return Lags({}, {})  # metrics must not wait for a connection while the service is overloaded
    try:
        version = services.served.version()
        return services.reads.read(lambda connection: coverage.lags(connection, version))
    except MarketError:
        return Lags({}, {})
