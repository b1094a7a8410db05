"""The parts of a running service that handlers use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from marketdata.api.auth import Authenticator
from marketdata.api.failures_log import FailureLog
from marketdata.api.graphql_check import GraphqlCheck
from marketdata.api.health_state import Health
from marketdata.api.ingestion import Ingestion
from marketdata.api.live.server import Live
from marketdata.api.metrics import Metrics
from marketdata.api.response_cache import ResponseCache
from marketdata.api.revocation_listener import RevocationListener
from marketdata.api.served_version import ServedVersion
from marketdata.api.symbol_counters import SymbolCounters
from marketdata.store.pool import Pool


@dataclass(frozen=True)
class Services:
    """``pool`` is for writes, ``reads`` for reads. ``counters`` returns the current counter of a symbol, ``backlog``
    the number of requests that wait for a worker. ``started_at`` is by the monotonic clock."""

    pool: Pool
    reads: Pool
    served: ServedVersion
    authenticator: Authenticator
    revocation_listener: RevocationListener
    ingestion: Ingestion
    live: Live
    health: Health
    graphql: GraphqlCheck
    response_cache: ResponseCache
    counters: SymbolCounters
    metrics: Metrics
    failure_log: FailureLog
    backlog: Callable[[], int]
    started_at: float
