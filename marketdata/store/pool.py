"""The connection pool, the watchdog of its connections, and the table from SQLSTATE to our errors.

Connections are in autocommit mode: a statement is a transaction and one round trip; ``transaction`` is for several
statements. Statements are prepared at their first use and keep a generic plan: each of them uses one index whatever its
bounds, and planning takes as long as reading a page of candles. (:mod:`marketdata.store.prepared` has an exception.)
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import socket
import threading
from collections.abc import Callable, Iterator
from functools import partial
from time import monotonic
from typing import Any
from weakref import WeakKeyDictionary

import psycopg
import psycopg_pool
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import TransactionStatus

from marketdata import errors as e

Connection = psycopg.Connection[tuple[Any, ...]]

SIZE = 16
"""Maximum connections of a pool: several processes fit into PostgreSQL's limit of 100 (etc/postgresql.conf)."""
WAIT_SECONDS = 5.0
"""How long a request waits for a free connection."""
EXHAUSTED_SECONDS = 10.0
"""A pool counts as exhausted for this time after a request got no connection, while none is free."""
STATEMENT_SECONDS = 30.0
OVERDUE_SECONDS = 35.0
"""The watchdog ends a statement after this time: more than ``statement_timeout``, with which a sound server ends it."""
STALL_SECONDS = 5.0
"""A database that answers neither a statement nor a new connection for this time has stalled: the watchdog then ends
statements after this time already."""
_WATCH_SECONDS = 0.5
FRESH_SECONDS = 0.1
"""A connection that was returned this recently is lent to a reader unchecked, since a check costs a switch of the GIL.
If its server has ended in the meantime, that read fails."""
CONNECTING: dict[str, str | int] = {
    "connect_timeout": 5,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}
"""libpq parameters that a URL may override. They detect within half a minute, instead of the kernel's two hours, a
server that is gone without closing the connection: a power failure, or a firewall that dropped it."""

_SESSION = """
SELECT set_config('statement_timeout', %s, false), set_config('idle_in_transaction_session_timeout', %s, false),
       set_config('timezone', 'UTC', false), set_config('datestyle', 'ISO', false),
       set_config('synchronous_commit', 'on', false), set_config('jit', 'off', false),
       set_config('plan_cache_mode', 'force_generic_plan', false), set_config('client_encoding', 'UTF8', false)
"""

_CLUSTER = "SELECT set_config('marketdata.cluster', system_identifier::text, false) FROM pg_control_system()"
"""For :data:`marketdata.store.symbols.COUNTER_COLUMNS`. It is read once per connection, as it cannot change."""

# The longest matching prefix applies.
SQLSTATES: dict[str, type[e.MarketError]] = {
    "08": e.DatabaseUnavailable,  # connection exceptions
    "22": e.InvalidValue,  # data exceptions
    "23": e.InvalidValue,  # integrity constraints …
    "23503": e.Conflict,  # … with existing rows: foreign key, unique, exclusion
    "23505": e.Conflict,
    "23P01": e.Conflict,
    "25006": e.DatabaseUnavailable,  # read-only: a replica, or a failover in progress
    "28": e.DatabaseUnavailable,  # the login is refused
    "3D": e.DatabaseUnavailable,  # no such database
    "40": e.Contended,  # serialization failure, deadlock
    "42": e.DatabaseDefect,
    "42P01": e.VersionMissing,  # no such table
    "42883": e.VersionMissing,  # no such function
    "53": e.DatabaseExhausted,  # disk, memory, connections
    "54": e.InvalidValue,  # a program limit
    "55P03": e.Contended,  # lock_timeout
    "57014": e.TooSlow,  # statement_timeout
    "57P": e.DatabaseUnavailable,  # shutdown, crash, still starting
    "58": e.DatabaseUnavailable,  # system errors, like input and output
}

_log = logging.getLogger(__name__)

_ARGUMENT = "22023"  # invalid_parameter_value

_EXHAUSTED = "all connections to the database are in use; try again later"

_DETAILS: dict[type[e.MarketError], str] = {
    e.InvalidValue: "a value of this request is out of the range that the database can store",
    e.Conflict: "the request conflicts with stored data",
    # The connection may be lost after the server got COMMIT and before its answer arrived.
    e.DatabaseUnavailable: "the database does not answer; the request may or may not have been stored, send it again",
    e.DatabaseStalled: "the database does not react; the request may or may not have been stored, send it again later",
    e.DatabaseExhausted: "the database is out of disk, memory or connections; send the request again later",
    e.Contended: "the request conflicted with another transaction and was not stored; send it again",
    e.TooSlow: f"the database did not finish within {STATEMENT_SECONDS:.0f} s; request less data at a time",
    e.VersionMissing: "the database lacks tables or functions of this version; run bin/marketdata-version N",
    e.DatabaseDefect: "the database rejected a statement of this service; see the log of the service",
}


def translate(error: psycopg.Error) -> e.MarketError:
    """Our error for an error of the driver. Its text is our own, since the driver's may contain table names, stored
    values or the connection string. Only the message of a function about its arguments is passed on."""
    if isinstance(error, psycopg_pool.PoolTimeout):
        return e.DatabaseExhausted(_EXHAUSTED)
    kind = _kind(error)
    if error.sqlstate == _ARGUMENT and error.diag.message_primary:
        return kind(error.diag.message_primary)
    return kind(_DETAILS[kind])


def _kind(error: psycopg.Error) -> type[e.MarketError]:
    state = error.sqlstate
    if state is None:  # an error of libpq: no server, or the connection was lost
        lost = isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
        return e.DatabaseUnavailable if lost else e.DatabaseDefect
    prefixes = [state[:length] for length in range(len(state), 0, -1)]
    return next((SQLSTATES[prefix] for prefix in prefixes if prefix in SQLSTATES), e.DatabaseDefect)


class translated:
    """A context manager that raises our error for an error of the driver."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, psycopg.Error):
            raise translate(error) from error


@contextlib.contextmanager
def connect(conninfo: str, *, application_name: str = "marketdata") -> Iterator[Connection]:
    """A connection for one command, in autocommit mode and without a statement timeout."""
    with translated():
        try:
            opened = psycopg.connect(_completed(conninfo, application_name), autocommit=True)
        except psycopg.errors.ConnectionTimeout as error:
            named = psycopg.errors.ConnectionTimeout(f"{server(conninfo)}: {error}")  # of a single host it names none
            raise e.DatabaseStalled("the database does not react: no connection within connect_timeout") from named
        except psycopg.OperationalError as error:
            if error.sqlstate is None:
                raise e.DatabaseUnavailable(
                    "no connection to the database: check that it runs, and DATABASE_URL where that is set"
                ) from error
            raise
    with translated(), opened as connection:
        _configure(connection, seconds=0)
        yield connection


class Pool:
    """The connections of a process to one database. ``close`` may be called repeatedly."""

    def __init__(
        self,
        conninfo: str,
        *,
        application_name: str,
        size: int = SIZE,
        answers: Callable[[], bool] = lambda: True,
    ) -> None:
        """``answers`` says whether the database answers new connections; it is called every half second."""
        self._pool: psycopg_pool.ConnectionPool[Connection] = psycopg_pool.ConnectionPool(
            _completed(conninfo, application_name),
            kwargs={"autocommit": True, "prepare_threshold": 0},
            min_size=min(4, size),
            max_size=size,
            timeout=WAIT_SECONDS,
            # Short: the next request tries again anyway, and a longer backoff could continue after the outage.
            reconnect_timeout=1.0,
            configure=_configure_pooled,
            name=application_name,
            open=True,
        )

        self._size = size
        self._watchdog = ConnectionWatchdog(application_name, answers)
        self._exhausted_at = -EXHAUSTED_SECONDS
        self._used_at: WeakKeyDictionary[Connection, float] = WeakKeyDictionary()

    def connection(self, *, fresh_seconds: float | None = None) -> _Loan:
        """A connection in autocommit mode, as a context manager. Errors of the driver in the block become ours.

        ``fresh_seconds`` replaces ``FRESH_SECONDS``.
        """
        fresh = FRESH_SECONDS if fresh_seconds is None else fresh_seconds
        return _Loan(partial(self._lend, fresh), self._take_back, self._watchdog.begin)

    def error(self) -> e.MarketError | None:
        """Why requests get no connection at present; None when they do."""
        if self._watchdog.is_suspended:
            return e.DatabaseStalled(_DETAILS[e.DatabaseStalled])
        if monotonic() - self._exhausted_at < EXHAUSTED_SECONDS and not self.stats().get("pool_available"):
            return e.DatabaseExhausted(_EXHAUSTED)
        return None

    def _lend(self, fresh_seconds: float) -> Connection:
        if self._watchdog.is_suspended:
            raise e.DatabaseStalled(_DETAILS[e.DatabaseStalled])
        connection = self._take(fresh_seconds)
        self._watchdog.begin(connection)
        return connection

    def _take_back(self, connection: Connection) -> bool:
        """False when the connection was shut down, since the database did not answer for too long."""
        is_intact = self._watchdog.end(connection)
        if not is_intact:
            connection.close()
        self._used_at[connection] = monotonic()
        self._pool.putconn(connection)
        return is_intact

    def _take(self, fresh_seconds: float) -> Connection:
        """A connection whose server still runs; after a restart of the server the dead ones are skipped."""
        for _ in range(self._size + 1):
            try:
                connection = self._pool.getconn()
            except psycopg_pool.PoolTimeout as error:
                if self._watchdog.has_stalled():
                    raise e.DatabaseStalled(_DETAILS[e.DatabaseStalled]) from error
                if self._watchdog:
                    self._exhausted_at = monotonic()
                    raise
                raise e.DatabaseUnavailable(_DETAILS[e.DatabaseUnavailable]) from error
            if monotonic() - self._used_at.get(connection, 0.0) < fresh_seconds or not _is_cut(connection):
                return connection
            connection.close()
            self._pool.putconn(connection)
        raise e.DatabaseUnavailable(_DETAILS[e.DatabaseUnavailable])

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Connection]:
        """A connection in a transaction, which is committed at the end of the block, or rolled back on an error."""
        with self.connection() as connection, connection.transaction():
            yield connection

    def stats(self) -> dict[str, int]:
        """The statistics of psycopg_pool: ``pool_size``, ``pool_available``, ``requests_waiting`` and others."""
        return self._pool.get_stats()

    def close(self, timeout: float = 5.0) -> None:
        """Close the connections, and wait up to ``timeout`` seconds for the threads of the pool."""
        self._watchdog.close(timeout)
        self._pool.close(timeout)


class _Loan:
    """The context manager of ``Pool.connection``. A class, because a generator would be as slow as the pool itself."""

    __slots__ = ("_begin", "_connection", "_lend", "_take_back")

    def __init__(
        self,
        lend: Callable[[], Connection],
        take_back: Callable[[Connection], bool],
        begin: Callable[[Connection], None],
    ) -> None:
        self._lend = lend
        self._take_back = take_back
        self._begin = begin

    def renew(self) -> None:
        """Call it before a further statement, when time has passed since the one before."""
        self._begin(self._connection)

    def __enter__(self) -> Connection:
        try:
            self._connection = self._lend()
        except psycopg.Error as error:
            raise translate(error) from error
        return self._connection

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        is_intact = self._take_back(self._connection)
        if not is_intact and isinstance(error, psycopg.Error | e.MarketError):
            raise e.DatabaseStalled(_DETAILS[e.DatabaseStalled]) from error
        if isinstance(error, psycopg.Error):
            raise translate(error) from error


class ConnectionWatchdog:
    """Knows the connections that a pool has lent, and ends statements that the database does not answer. Thread-safe.

    A server that is stopped, or a machine that hangs, keeps its connections open: a statement would wait forever.
    Only the client can end it then. A thread shuts the socket down, and the waiting thread sees a lost connection.
    """

    def __init__(self, name: str, answers: Callable[[], bool]) -> None:
        """``answers`` says whether the database answers new connections."""
        self._answers = answers
        self._lent: dict[Connection, float] = {}
        self._lock = threading.Lock()  # a connection that was returned must not be shut down
        self._answered_at = monotonic()
        self._closing = threading.Event()
        self.is_suspended = False
        """Whether the database has stalled: no connection should be lent until it answers again."""
        self._thread = threading.Thread(target=self._run, name=f"{name}-watchdog", daemon=True)
        self._thread.start()

    def __bool__(self) -> bool:
        return bool(self._lent)

    def begin(self, connection: Connection) -> None:
        """Note that the connection was lent now, or that a holder begins its next statement."""
        self._lent[connection] = monotonic()

    def end(self, connection: Connection) -> bool:
        """Note that the connection was returned; False when it was shut down meanwhile."""
        with self._lock:
            is_intact = self._lent.pop(connection, None) is not None
        if is_intact and not connection.closed:
            self._answered_at = monotonic()
        return is_intact

    def has_stalled(self) -> bool:
        """Whether a statement has been waiting, and none was answered, for ``STALL_SECONDS``, nor a new connection."""
        since = monotonic() - STALL_SECONDS
        return self._answered_at < since and bool(self._waiting_since(since)) and not self._answers()

    def close(self, timeout: float = 5.0) -> None:
        """May be called repeatedly."""
        self._closing.set()
        self._thread.join(timeout)

    def _run(self) -> None:
        while not self._closing.wait(_WATCH_SECONDS):
            try:
                self._suspend_or_resume()
                self._shut_down_overdue()
            except Exception:
                _log.exception("internal error while looking for overdue statements")

    def _suspend_or_resume(self) -> None:
        if self.is_suspended:
            if self._answers():
                _log.warning("the database answers again")
                self.is_suspended = False
        elif self.has_stalled():
            _log.error("the database has answered nothing for %g s: requests fail until it does", STALL_SECONDS)
            self.is_suspended = True

    def _shut_down_overdue(self) -> None:
        since = monotonic() - (STALL_SECONDS if self.is_suspended else OVERDUE_SECONDS)
        for connection, began in self._waiting_since(since):
            with self._lock:
                if self._lent.get(connection) == began:
                    del self._lent[connection]
                    _shut_down(connection)

    def _waiting_since(self, since: float) -> list[tuple[Connection, float]]:
        """The connections whose statement began before. One whose holder waits for a slow client is idle."""
        lent = list(self._lent.items())
        return [(each, began) for each, began in lent if began < since and _is_active(each)]


def _is_active(connection: Connection) -> bool:
    return connection.pgconn.transaction_status == TransactionStatus.ACTIVE


def _shut_down(connection: Connection) -> None:
    with (
        contextlib.suppress(OSError, psycopg.Error),  # closed meanwhile
        socket.socket(fileno=os.dup(connection.fileno())) as duplicate,
    ):
        duplicate.shutdown(socket.SHUT_RDWR)


def _configure(connection: Connection, seconds: float = STATEMENT_SECONDS) -> None:
    limit = str(int(seconds * 1000))
    connection.execute(_SESSION, (limit, limit), prepare=False)


def _configure_pooled(connection: Connection) -> None:
    _configure(connection)
    # Some hosting providers do not allow this query. The tag then lacks the cluster and still has table and row.
    with contextlib.suppress(psycopg.errors.InsufficientPrivilege):
        connection.execute(_CLUSTER, prepare=False)


def _completed(conninfo: str, application_name: str) -> str:
    """``conninfo`` with :data:`CONNECTING` as defaults. UsageError when it is malformed; the error does not show it,
    since it may contain a password."""
    try:
        given = conninfo_to_dict(conninfo)
    except psycopg.ProgrammingError as error:
        raise e.UsageError(
            "DATABASE_URL or DATABASE_READ_URL is malformed: it must be a connection string of libpq, like "
            "postgresql://user@host/database"
        ) from error
    return make_conninfo("", **{**CONNECTING, "fallback_application_name": application_name, **given})


def server(conninfo: str) -> str:
    """Host and port of a sound connection string, for messages to operators."""
    given = conninfo_to_dict(conninfo)
    host = given.get("host") or given.get("hostaddr") or "of libpq's default"
    return f"host {host}, port {given.get('port') or 5432}"


def _is_cut(connection: Connection) -> bool:
    """Whether the server closed the connection, without a round trip: an idle connection is readable only then."""
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(0))
