"""The composition root of the data API: builds its parts, starts them in order and stops them in reverse order."""

from __future__ import annotations

import logging
import os
import signal
import socket
from dataclasses import dataclass
from functools import partial
from time import monotonic

from marketdata import secretfile
from marketdata.api.app import make_app
from marketdata.api.auth import CACHE_SECONDS, Authenticator
from marketdata.api.cluster import Cluster
from marketdata.api.current_reads import WAIT_SECONDS as REPLICA_SECONDS
from marketdata.api.current_reads import CurrentReads
from marketdata.api.database_health import (
    MEASURE_SECONDS,
    STALL_SECONDS,
    DatabaseHealth,
    HealthCheck,
    ReplicaHealth,
)
from marketdata.api.failure_log import FailureLog
from marketdata.api.graphql_check import GraphqlCheck
from marketdata.api.health import WITHOUT_WAITING, report
from marketdata.api.live.server import HEARTBEAT_SECONDS, MAX_CONNECTIONS, SWEEP_SECONDS, TOKENS_SECONDS, Live
from marketdata.api.metrics import Metrics
from marketdata.api.process import STOP_SIGNALS, prepare_process, print_address
from marketdata.api.replicas import Replica, Replicas
from marketdata.api.response_cache import MAX_BYTES, ResponseCache
from marketdata.api.revocation_listener import RevocationListener
from marketdata.api.served_version import ServedVersion
from marketdata.api.services import Services
from marketdata.api.shared_memory import REPORT_SECONDS, SharedMemory
from marketdata.api.stream_limit import MAX_STREAMS, StreamLimit
from marketdata.api.symbol_versions import SymbolVersions
from marketdata.api.tick_writer import MAX_LARGE, PROGRESS_SECONDS, TickWriter
from marketdata.errors import DatabaseUnavailable, UsageError, VersionMissing, reason
from marketdata.http.listener import Listener, descriptors
from marketdata.http.spool import Spools
from marketdata.http.waitress_adapter import BODIES_BYTES
from marketdata.limits import MAX_BODY_BYTES, MAX_CSV_BYTES
from marketdata.settings import Settings
from marketdata.store.conninfo import node_conninfo, server
from marketdata.store.placement import Placement
from marketdata.store.pool import SIZE, WAIT_SECONDS, Connection, Pool
from marketdata.store.shards import Node
from marketdata.store.time_zones import TimeZones
from marketdata.store.tokens import finder

_STOP_SECONDS = 0.2
"""Minimum time for each part of the service to stop, even if the earlier parts have used up the whole timeout."""

MIN_CONNECTIONS = 4
"""Minimum connections of a process to a database: for a shared transaction, a large batch, a stream and a read."""

NODE_WAIT_SECONDS = 2.0
"""How long a request waits for a connection to a node of a Citus cluster. It is shorter than for the database, because
a request that waits for a node occupies a worker, which requests for symbols on other nodes need."""

_log = logging.getLogger("marketdata.api")


@dataclass(frozen=True)
class Times:
    """How long the parts of the service wait, and how often they repeat their work, in seconds."""

    connection: float = WAIT_SECONDS
    check_stall: float = STALL_SECONDS
    measure: float = MEASURE_SECONDS
    replica: float = REPLICA_SECONDS
    token_cache: float = CACHE_SECONDS
    progress: float = PROGRESS_SECONDS
    sweep: float = SWEEP_SECONDS
    heartbeat: float = HEARTBEAT_SECONDS
    tokens: float = TOKENS_SECONDS


USUAL_TIMES = Times()


class Service:
    """The data API in one process. Call ``start`` once; ``stop`` may be called repeatedly."""

    def __init__(
        self,
        settings: Settings,
        memory: SharedMemory | None = None,
        listening: socket.socket | None = None,
        times: Times = USUAL_TIMES,
    ) -> None:
        """Raises UsageError if ``settings.database_url`` is not set. If the service uses the private cluster, the
        caller has started it and set its URL. ``memory`` and ``listening`` are what several processes share; a single
        process needs neither."""
        url = settings.database_url
        if url is None:
            raise UsageError("DATABASE_URL is not set, and the private cluster was not started")
        self._settings, self._url, self._times = settings, url, times
        self._memory, self._listening = memory or SharedMemory.of_one_process(), listening
        self._health = DatabaseHealth(url, settings, times.check_stall, times.measure)
        self._pool = self._made_pool(url, "marketdata-api", self._health.primary)
        self._replicas = Replicas(self._pool, [self._made_replica(each) for each in self._health.replicas])
        self._placement = Placement(self._pool, self._node_pool)
        current_reads = CurrentReads(self._pool, self._replicas, self._placement, times.replica)
        self._served = ServedVersion(settings, self._pool)
        metrics = Metrics(self._memory)
        authenticator = self._made_authenticator()
        self._tick_writer = self._made_tick_writer(metrics, current_reads)
        time_zones = TimeZones(self._pool)
        self._live = Live(
            self._pool, self._placement, self._served, time_zones, metrics.live_sent, _live_connections(),
            sweep_seconds=times.sweep, heartbeat_seconds=times.heartbeat, tokens_seconds=times.tokens,
        )  # fmt: skip
        self._cluster = Cluster(url, self._served, self._placement, self._live)
        self._revocation_listener = RevocationListener(url, authenticator, self._live, self._refresh)
        self.services = Services(
            pool=self._pool,
            reads=self._replicas,
            current_reads=current_reads,
            placement=self._placement,
            cluster=self._cluster,
            served=self._served,
            authenticator=authenticator,
            revocation_listener=self._revocation_listener,
            tick_writer=self._tick_writer,
            spools=Spools(settings.state_dir),
            live=self._live,
            health=self._health,
            graphql=GraphqlCheck(settings.secrets_dir, self._pool, self._served),
            response_cache=ResponseCache(self._share(MAX_BYTES, MAX_BYTES // 4)),
            streams=StreamLimit(self._share(MAX_STREAMS, 1)),
            symbol_versions=SymbolVersions(self._replicas, self._placement),
            time_zones=time_zones,
            metrics=metrics,
            memory=self._memory,
            shows_metrics=settings.has_metrics,
            failure_log=FailureLog(metrics.database_failed),
            backlog=self._backlog,
            started_at=monotonic(),
        )
        self.listener = self._made_listener()

    def _made_authenticator(self) -> Authenticator:
        admin_digest = secretfile.admin_digest(self._settings.secrets_dir, warn=_log.warning)
        return Authenticator(finder(self._pool), admin_digest, cache_seconds=self._times.token_cache)

    def _made_tick_writer(self, metrics: Metrics, current_reads: CurrentReads) -> TickWriter:
        large = self._share(MAX_LARGE, 1)
        return TickWriter(
            self._pool, self._served, metrics, self._backlog, current_reads.note, self._placement, large,
            self._times.progress,
        )  # fmt: skip

    def _made_listener(self) -> Listener:
        app = make_app(self.services)
        return Listener(
            app,
            self._settings.api_host,
            self._settings.api_port,
            admit=app.admit,
            body_bytes=MAX_CSV_BYTES,
            bodies_bytes=self._share(BODIES_BYTES, 2 * MAX_BODY_BYTES),
            reserved=_live_connections(),
            urgent=WITHOUT_WAITING,
            shared=self._listening,
        )

    def _share(self, whole: int, least: int) -> int:
        """The share of this process in what all processes of the API may use together, but not less than ``least``."""
        return max(whole // len(self._memory.regions), least)

    def _made_replica(self, health: ReplicaHealth) -> Replica:
        return Replica(health, self._made_pool(health.conninfo, "marketdata-api-read", health.check))

    def _made_pool(self, url: str, name: str, check: HealthCheck) -> Pool:
        return Pool(
            url,
            application_name=name,
            size=self._share(SIZE, MIN_CONNECTIONS),
            wait_seconds=self._times.connection,
            answers=check.is_answering,
        )

    def _node_pool(self, node: Node) -> Pool:
        """A pool of connections to a node of the Citus cluster."""
        return Pool(
            node_conninfo(self._url, *node),
            application_name="marketdata-api-shards",
            size=self._share(SIZE, MIN_CONNECTIONS),
            wait_seconds=NODE_WAIT_SECONDS,
            answers=partial(self._cluster.answers, node),
            refusal=partial(self._cluster.refusal, node),
        )

    @property
    def port(self) -> int:
        """The bound TCP port; 0 before ``start``."""
        return self.listener.port

    def start(self) -> None:
        """Start serving. Raises :class:`VersionMissing` if the settings name a version that does not exist.

        If the database does not answer, or contains no version yet, the service still starts, and ``GET /ready``
        reports the problem.
        """
        try:
            has_database = self._find_version()
            self._health.start()
            if not has_database:
                self._log_missing_database()
            self.services.graphql.start()
            self._tick_writer.start()
            self._live.start()
            if has_database:
                with self._pool.connection() as connection:
                    self._cluster.refresh(connection)
            self._revocation_listener.start()
            self.listener.start()
        except BaseException:
            self.stop()
            raise

    def stop(self, timeout: float = 5.0) -> None:
        """Stop accepting, finish the running requests, store the queued ticks, and close all connections.

        This takes hardly longer than ``timeout`` seconds. Operations that still wait for the database after this time
        are abandoned."""
        deadline = monotonic() + timeout
        self.services.spools.is_ending = True
        first = (self.listener, self._tick_writer, self._revocation_listener, self._live)
        for each in (*first, self._cluster, self.services.graphql, self._health):
            each.stop(max(deadline - monotonic(), _STOP_SECONDS))
        for pool in (self._placement, self._pool, self._replicas):
            pool.close(max(deadline - monotonic(), _STOP_SECONDS))

    def _find_version(self) -> bool:
        """Look for the version to serve. Returns whether the database answers."""
        try:
            version = self._served.version()
            if version.shards is not None and self._replicas and self._memory.own is self._memory.regions[0]:
                _log.warning("DATABASE_READ_URL: %s is distributed, so its nodes are read instead", version.ticks_table)
        except DatabaseUnavailable:
            return False
        except VersionMissing as error:
            if self._served.is_named:
                raise
            _log.warning("started without a version to serve: %s", error.detail)
        return True

    def _refresh(self, connection: Connection) -> None:
        self._served.refresh(connection)
        self._cluster.refresh(connection)

    def _log_missing_database(self) -> None:
        self._health.primary.wait_for_first()
        # The check knows the reason; the pool only knows that no connection was made.
        if (error := self._health.primary.error()) is not None:
            _log.warning("started without the database (%s): %s", server(self._url), reason(error))

    def _backlog(self) -> int:
        return self.listener.backlog()


def _live_connections() -> int:
    """The maximum number of live connections."""
    return min(MAX_CONNECTIONS, descriptors() // 4)


def run(settings: Settings) -> None:
    """Serve until SIGTERM, SIGINT or SIGHUP. Prints the address when the service answers."""
    prepare_process(settings)
    service = Service(settings)
    try:
        service.start()
        print_address(settings, service.port)
        signal.sigwait(STOP_SIGNALS)
    finally:
        service.stop()


def run_beside_others(settings: Settings, memory: SharedMemory, listening: socket.socket, supervisor: int) -> None:
    """Serve as one of several processes, until a signal, or until the process ``supervisor`` has ended. The process
    reports when the service answers, and then every ``REPORT_SECONDS``."""
    prepare_process(settings)
    service = Service(settings, memory, listening)
    try:
        service.start()
        is_told = False
        while not is_told and os.getppid() == supervisor:
            report(service.services)
            is_told = signal.sigtimedwait(STOP_SIGNALS, REPORT_SECONDS) is not None
    finally:
        service.stop()
