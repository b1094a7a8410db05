"""Checks the health of the databases, and compares the replicas with the primary.

For each database a thread connects anew every few seconds and calls the served candles function. A pooled connection
would be no proof: its backend has loaded all libraries, and continues to work when no new backend can start, for
example after PostgreSQL's libraries were replaced. The connection stays open until the next check. If the server closes
the connection, the next check begins at once.

With replicas, each check also measures the database's position in the write-ahead log, more often than it connects.
"""

from __future__ import annotations

import logging
import select
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from time import monotonic

from marketdata.api.failure_log import described
from marketdata.api.log_position import Lag, LogPosition, PrimaryLog, log_position
from marketdata.api.replica_state import REASONS, ReplicaState, State
from marketdata.errors import DatabaseStalled, DatabaseUnavailable, MarketError
from marketdata.settings import Settings
from marketdata.store import candles
from marketdata.store.conninfo import address, hosts
from marketdata.store.pool import CHECK, Connection, connect, name_cluster
from marketdata.store.version import Version, find_served

PERIOD_SECONDS = 2.0
RETRY_SECONDS = 0.5
STALL_SECONDS = 5.0
"""A check of a database that takes longer than this counts as failed. It still continues, because the database may
react again."""
FIRST_SECONDS = 1.5
"""How long after the start a request waits for the first check, at most. Requests must not wait longer, because the
worker for urgent requests must be free."""
MEASURE_SECONDS = 0.5
"""How often positions in the log are measured."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Checked:
    """The result of a check that ended at the monotonic time ``at``."""

    at: float
    error: MarketError | None = None


class HealthCheck:
    """Checks one database in a thread. Call ``start`` once; ``stop`` may be called repeatedly. ``name`` is the
    database's name in messages. ``call`` calls the candles function, and returns the served version. A check that takes
    longer than ``stall_seconds`` counts as failed. ``remedy`` is what to do without a connection. If ``measured`` is
    given, it is called with each position of the database in the write-ahead log, which is measured every
    ``measure_seconds``. ``lost`` is called when the
    connection of a check is lost, or when a check fails."""

    def __init__(
        self,
        name: str,
        conninfo: str,
        call: Callable[[Connection], Version],
        measured: Callable[[LogPosition], None] | None = None,
        lost: Callable[[], None] = lambda: None,
        stall_seconds: float = STALL_SECONDS,
        remedy: str = f"{CHECK} of DATABASE_URL",
        measure_seconds: float = MEASURE_SECONDS,
    ) -> None:
        self._name = name
        self._call = call
        self._stall_seconds = stall_seconds
        self._connect = partial(connect, conninfo, application_name="marketdata-api-check", remedy=remedy)
        self._measured = measured
        self._measure_seconds = measure_seconds
        self._lost = lost
        self.version: Version | None = None
        """The version that the last successful check found."""
        self._began: float | None = None
        self._last: Checked | None = None
        self._first = threading.Event()
        self._wait_until = 0.0
        self._stopping = threading.Event()
        self._wake_reader: socket.socket
        self._wake_writer: socket.socket
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._wait_until = monotonic() + FIRST_SECONDS
        self._wake_reader, self._wake_writer = socket.socketpair()
        self._thread = threading.Thread(target=self._run, name=f"api-check-{self._name}", daemon=True)
        self._thread.start()

    def stop(self, timeout: float = 5.0) -> None:
        self._stopping.set()
        if self._thread is None:
            return
        with suppress(OSError):  # an earlier stop has closed it
            self._wake_writer.send(b".")
        self._thread.join(timeout)
        self._wake_reader.close()
        self._wake_writer.close()

    # -- in any thread -------------------------------------------------------------------------------------------------

    def is_answering(self) -> bool:
        """Whether the last check succeeded, and the current one, if any, has not stalled."""
        last = self._last
        return last is not None and last.error is None and not self._stalled_for()

    def error(self) -> MarketError | None:
        """Returns why the database is not usable, or None. Never waits for the database."""
        if self._last is None and not self._stalled_for():
            return DatabaseUnavailable(f"the first check of the {self._name} is still running")
        return self.failure()

    def failure(self) -> MarketError | None:
        """Like :meth:`error`, but None until the first check has failed."""
        if seconds := self._stalled_for():
            return DatabaseStalled(f"the {self._name} does not react: its check has been waiting for {seconds:.0f} s")
        return None if self._last is None else self._last.error

    def wait_for_first(self) -> None:
        """Wait for the first result, at most until ``FIRST_SECONDS`` after the start."""
        self._first.wait(max(0.0, self._wait_until - monotonic()))

    @property
    def age(self) -> float:
        """Seconds since the end of the last check; 0 before the first result."""
        return monotonic() - self._last.at if self._last is not None else 0.0

    def _stalled_for(self) -> float:
        """Returns the seconds since the current check began if they exceed the limit, otherwise 0."""
        began = self._began
        seconds = 0.0 if began is None else monotonic() - began
        return seconds if seconds > self._stall_seconds else 0.0

    # -- in the thread of the check ------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._began = monotonic()
            try:
                with self._connect() as connection:
                    self.version = self._call_candles(connection)
                    self._record(Checked(monotonic()))
                    self._keep(connection)
            except MarketError as error:
                self._record(Checked(monotonic(), error=error))
                self._pause(RETRY_SECONDS)
            except Exception:
                _log.exception("internal error in the check of the %s", self._name)
                self._record(Checked(monotonic(), error=MarketError("internal error in the check; see the log")))
                self._pause(RETRY_SECONDS)

    def _call_candles(self, connection: Connection) -> Version:
        with connection.transaction():
            connection.execute(f"SET LOCAL statement_timeout = {self._stall_seconds * 1000:.0f}", prepare=False)
            version = self._call(connection)
        if self._measured is not None:
            name_cluster(connection)
            self._measured(log_position(connection))
        return version

    def _keep(self, connection: Connection) -> None:
        """Keep the connection until the next check, and measure positions meanwhile."""
        until = monotonic() + PERIOD_SECONDS
        while (left := until - monotonic()) > 0 and not self._stopping.is_set():
            if self._pause(left if self._measured is None else min(left, self._measure_seconds), connection.fileno()):
                self._lost()
                return
            if self._measured is not None:
                self._began = monotonic()
                self._measured(log_position(connection))
                self._began = None

    def _record(self, checked: Checked) -> None:
        previous, self._last = self._last, checked
        self._began = None
        self._first.set()
        if checked.error is not None:
            self._lost()
        if checked.error is not None and (previous is None or previous.error is None):
            _log.error("the %s is not usable: %s, SQLSTATE %s: %s", self._name, *described(checked.error))
        elif checked.error is None and previous is not None and previous.error is not None:
            _log.info("the %s is usable again", self._name)

    def _pause(self, seconds: float, connection: int | None = None) -> bool:
        """Wait for ``seconds``, or until the check is stopped or the server closes the connection. Returns whether the
        wait ended early."""
        if self._stopping.is_set():
            return True
        poll = select.poll()
        for descriptor in (self._wake_reader.fileno(), *(() if connection is None else (connection,))):
            poll.register(descriptor, select.POLLIN)
        return bool(poll.poll(seconds * 1000))


def call_served(settings: Settings, connection: Connection) -> Version:
    """Call the candles function of the served version. A version that Citus distributes has none on the coordinator."""
    version = find_served(connection, settings)
    if version.shards is None:
        candles.check(connection, version)
    return version


class ReplicaHealth:
    """The check of a host of ``DATABASE_READ_URL``, and its state in comparison with the primary."""

    def __init__(self, conninfo: str, settings: Settings, primary: PrimaryLog, **seconds: float) -> None:
        """``seconds`` are those of :class:`HealthCheck`."""
        self.conninfo = conninfo
        self.name = ":".join(address(conninfo))
        self._state = ReplicaState(self.name, primary, settings.read_lag_s)
        call = partial(call_served, settings)
        self.check = HealthCheck(
            f"replica {self.name}", conninfo, call, self._state.measured, self._state.forget,
            remedy=f"{CHECK} of DATABASE_READ_URL", **seconds,
        )  # fmt: skip

    @property
    def usable_lag(self) -> Lag | None:
        """Its lag if it may be read, otherwise None."""
        return self._state.lag if self.check.is_answering() and self._state.state is State.USABLE else None

    @property
    def state(self) -> str:
        """The code of the check's error, or the state."""
        error = self.check.error()
        return self._state.state if error is None else error.code

    @property
    def reason(self) -> str | None:
        """Why it is not read, or None."""
        error = self.check.error()
        return REASONS.get(self._state.state) if error is None else error.detail

    @property
    def lag(self) -> Lag | None:
        """None if it is not a standby of the primary, or if its check failed."""
        return self._state.lag if self.check.error() is None else None


class DatabaseHealth:
    """The checks of the database ``url``, and of each host of ``DATABASE_READ_URL``.

    Call ``start`` once; ``stop`` may be called repeatedly. The other methods never wait for a database.
    """

    def __init__(
        self,
        url: str,
        settings: Settings,
        stall_seconds: float = STALL_SECONDS,
        measure_seconds: float = MEASURE_SECONDS,
    ) -> None:
        seconds = {"stall_seconds": stall_seconds, "measure_seconds": measure_seconds}
        log = PrimaryLog()
        read_url = settings.database_read_url
        self.replicas = (
            [] if read_url is None else [ReplicaHealth(each, settings, log, **seconds) for each in hosts(read_url)]
        )
        self.primary = HealthCheck(
            "database",
            url,
            partial(call_served, settings),
            log.record if self.replicas else None,
            stall_seconds=stall_seconds,
            measure_seconds=measure_seconds,
        )
        self._checks = [self.primary, *(replica.check for replica in self.replicas)]

    def start(self) -> None:
        for check in self._checks:
            check.start()

    def stop(self, timeout: float = 5.0) -> None:
        for check in self._checks:
            check.stop(timeout)

    def wait_for_first(self) -> None:
        """Wait for the first result of each check, at most until ``FIRST_SECONDS`` after the start."""
        for check in self._checks:
            check.wait_for_first()

    @property
    def age(self) -> float:
        """The age in seconds of the last result of the primary's check."""
        return self.primary.age
