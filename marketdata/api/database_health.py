"""Checks the health of the databases, and how far the replica is behind the primary.

For each database a thread connects anew every few seconds and calls the served candles function. A pooled connection
would be no proof: its backend has loaded all libraries, and continues to work when no new backend can start, for
example after PostgreSQL's libraries were replaced. The connection stays open until the next check. If the server closes
the connection, the next check begins at once.

Each check of the primary records the position in its log. The lag is the age of the oldest recorded position that the
replica has not replayed. The age of the last replayed transaction is no measure, because it also grows while nothing is
written.
"""

from __future__ import annotations

import logging
import select
import socket
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic

from marketdata.api.failure_log import described
from marketdata.errors import DatabaseStalled, DatabaseUnavailable, MarketError
from marketdata.settings import Settings
from marketdata.store import candles
from marketdata.store.pool import Connection, connect
from marketdata.store.version import Version, find_served

PERIOD_SECONDS = 2.0
RETRY_SECONDS = 0.5
STALL_SECONDS = 5.0
"""A check that takes longer than this counts as failed. It still continues, because the database may react again."""
FIRST_SECONDS = 1.5
"""How long after the start a request waits for the first check, at most. Requests must not wait longer, because the
worker for urgent requests must be free."""
_MAX_SAMPLES = 1800
"""Number of the primary's positions that are kept, one per check. If the replica is behind all of them, the true lag is
larger than the reported one."""

_POSITION = """
    SELECT in_recovery, (CASE WHEN in_recovery THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END
                         - '0/0'::pg_lsn)::bigint
    FROM pg_is_in_recovery() AS in_recovery
"""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class LogPosition:
    """A database's position in the write-ahead log: the end of what a primary has written, or of what a standby has
    replayed.

    ``written`` is the position in bytes from the beginning of the log.
    """

    is_standby: bool
    written: int


@dataclass(frozen=True)
class Checked:
    """The result of a check that ended at the monotonic time ``at``."""

    at: float
    error: MarketError | None = None


class HealthCheck:
    """Checks one database in a thread. Call ``start`` once; ``stop`` may be called repeatedly. ``name`` is the
    database's name in messages. If ``measure`` is given, each check calls it with the database's position in the
    write-ahead log."""

    def __init__(
        self, name: str, conninfo: str, settings: Settings, measure: Callable[[LogPosition], None] | None = None
    ) -> None:
        self._name = name
        self._conninfo = conninfo
        self._settings = settings
        self._measure = measure
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
        if seconds := self._stalled_for():
            return DatabaseStalled(f"the {self._name} does not react: its check has been waiting for {seconds:.0f} s")
        last = self._last
        if last is None:
            return DatabaseUnavailable(f"the first check of the {self._name} is still running")
        return last.error

    def wait_for_first(self) -> None:
        """Wait for the first result, at most until ``FIRST_SECONDS`` after the start."""
        self._first.wait(max(0.0, self._wait_until - monotonic()))

    @property
    def age(self) -> float:
        """Seconds since the end of the last check; 0 before the first result."""
        return monotonic() - self._last.at if self._last is not None else 0.0

    def _stalled_for(self) -> float:
        """Returns the seconds since the current check began if they exceed ``STALL_SECONDS``, otherwise 0."""
        began = self._began
        seconds = 0.0 if began is None else monotonic() - began
        return seconds if seconds > STALL_SECONDS else 0.0

    # -- in the thread of the check ------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._began = monotonic()
            try:
                with connect(self._conninfo, application_name="marketdata-api-check") as connection:
                    self.version = self._call_candles(connection)
                    self._record(Checked(monotonic()))
                    self._pause(PERIOD_SECONDS, connection.fileno())
            except MarketError as error:
                self._record(Checked(monotonic(), error=error))
                self._pause(RETRY_SECONDS)
            except Exception:
                _log.exception("internal error in the check of the %s", self._name)
                self._record(Checked(monotonic(), error=MarketError("internal error in the check; see the log")))
                self._pause(RETRY_SECONDS)

    def _call_candles(self, connection: Connection) -> Version:
        with connection.transaction():
            connection.execute(f"SET LOCAL statement_timeout = {STALL_SECONDS * 1000:.0f}", prepare=False)
            version = find_served(connection, self._settings)
            candles.check(connection, version)
            if self._measure is not None:
                self._measure(_log_position(connection))
        return version

    def _record(self, checked: Checked) -> None:
        previous, self._last = self._last, checked
        self._began = None
        self._first.set()
        if checked.error is not None and (previous is None or previous.error is None):
            _log.error("the %s is not usable: %s, SQLSTATE %s: %s", self._name, *described(checked.error))
        elif checked.error is None and previous is not None and previous.error is not None:
            _log.info("the %s is usable again", self._name)

    def _pause(self, seconds: float, connection: int | None = None) -> None:
        """Wait for ``seconds``, or until the check is stopped or the server closes the connection."""
        if self._stopping.is_set():
            return
        poll = select.poll()
        for descriptor in (self._wake_reader.fileno(), *(() if connection is None else (connection,))):
            poll.register(descriptor, select.POLLIN)
        poll.poll(seconds * 1000)


def _log_position(connection: Connection) -> LogPosition:
    row = connection.execute(_POSITION, prepare=False).fetchone()
    assert row is not None
    return LogPosition(row[0], row[1] or 0)


@dataclass(frozen=True)
class Lag:
    """How far the replica is behind. ``is_standby`` is False if DATABASE_READ_URL leads to a database that accepts
    writes, like the primary itself."""

    is_standby: bool
    seconds: float
    bytes: int


class ReplicaLag:
    """Computes the lag. ``wrote`` is called with each position of the primary, ``replayed`` with each position of the
    replica."""

    def __init__(self) -> None:
        self._primary: deque[tuple[float, int]] = deque(maxlen=_MAX_SAMPLES)
        self.current: Lag | None = None
        """The lag at the last check of the replica; None before the first check."""

    def wrote(self, position: LogPosition) -> None:
        self._primary.append((monotonic(), position.written))

    def replayed(self, position: LogPosition) -> None:
        samples = list(self._primary)
        if not position.is_standby or not samples:
            self.current = Lag(position.is_standby, 0.0, 0)
            return
        missing = [at for at, written in samples if written > position.written]
        # The first missing record was written after the previous sample, so the true lag is at most one check interval
        # longer than this.
        seconds = monotonic() - missing[0] if missing else 0.0
        self.current = Lag(True, round(seconds, 3), max(samples[-1][1] - position.written, 0))


class DatabaseHealth:
    """The checks of the database ``url`` and, if ``DATABASE_READ_URL`` is set, of the replica.

    Call ``start`` once; ``stop`` may be called repeatedly. The other methods never wait for a database.
    """

    def __init__(self, url: str, settings: Settings) -> None:
        self._lag = ReplicaLag()
        self.primary = HealthCheck("database", url, settings)
        self.replica: HealthCheck | None = None
        if settings.database_read_url is not None:
            self.primary = HealthCheck("database", url, settings, self._lag.wrote)
            self.replica = HealthCheck("replica", settings.database_read_url, settings, self._lag.replayed)
        self._checks = [self.primary] if self.replica is None else [self.primary, self.replica]

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

    def error(self) -> MarketError | None:
        """Returns why one of the databases is not usable, or None if all are."""
        return next((error for check in self._checks if (error := check.error()) is not None), None)

    @property
    def lag(self) -> Lag | None:
        """How far the replica is behind. None if there is no replica, or if the last check of one database failed."""
        return self._lag.current if self.error() is None else None

    @property
    def age(self) -> float:
        """The age in seconds of the least recent result among all checks."""
        return max(check.age for check in self._checks)
