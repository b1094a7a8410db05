"""The parts of a running service that handlers use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from marketdata.api.auth import Authenticator
from marketdata.api.cluster import Cluster
from marketdata.api.current_reads import CurrentReads
from marketdata.api.database_health import DatabaseHealth
from marketdata.api.failure_log import FailureLog
from marketdata.api.graphql_check import GraphqlCheck
from marketdata.api.live.server import Live
from marketdata.api.metrics import Metrics
from marketdata.api.replicas import Replicas
from marketdata.api.response_cache import ResponseCache
from marketdata.api.revocation_listener import RevocationListener
from marketdata.api.served_version import ServedVersion
from marketdata.api.shared_memory import SharedMemory
from marketdata.api.stream_limit import StreamLimit
from marketdata.api.symbol_versions import SymbolVersions
from marketdata.api.tick_writer import TickWriter
from marketdata.http.spool import Spools
from marketdata.store.placement import Placement
from marketdata.store.pool import Pool
from marketdata.store.time_zones import TimeZones


@dataclass(frozen=True)
class Services:
    """``pool`` is for writes, ``reads`` for reads that may be old, ``current_reads`` for reads that are as new as a
    client knows, ``placement`` for the nodes of a distributed version, ``cluster`` for their state, ``symbol_versions``
    for the version counters of symbols that reads see. ``backlog`` returns the number of requests that wait for a
    worker. ``memory`` is shared with the other processes of the API. ``shows_metrics`` is False if the settings switch
    ``/metrics`` off. ``started_at`` is in monotonic seconds."""

    pool: Pool
    reads: Replicas
    current_reads: CurrentReads
    placement: Placement
    cluster: Cluster
    served: ServedVersion
    authenticator: Authenticator
    revocation_listener: RevocationListener
    tick_writer: TickWriter
    spools: Spools
    live: Live
    health: DatabaseHealth
    graphql: GraphqlCheck
    response_cache: ResponseCache
    streams: StreamLimit
    symbol_versions: SymbolVersions
    time_zones: TimeZones
    metrics: Metrics
    memory: SharedMemory
    shows_metrics: bool
    failure_log: FailureLog
    backlog: Callable[[], int]
    started_at: float
