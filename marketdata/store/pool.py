"""The connection pool, and the watchdog that ends statements which the database does not answer.

Connections are in autocommit mode, so a statement is a transaction and takes one round trip. ``transaction`` is for
several statements. Statements are prepared at their first use and keep a generic plan, because each statement uses the
same index for all values, and planning takes as long as reading a page of candles.
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
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import psycopg
import psycopg_pool
from psycopg.pq import TransactionStatus

from marketdata import errors as e
from marketdata.store.conninfo import completed, server
from marketdata.store.postgres_errors import DETAILS, STATEMENT_SECONDS, translate, translated
from marketdata.store.server_disk import ServerDisk

Connection = psycopg.Connection[tuple[Any, ...]]

SIZE = 16
"""Maximum connections of a pool. Several processes fit into PostgreSQL's limit of 100 (etc/postgresql.conf)."""
WAIT_SECONDS = 5.0
"""How long a request waits for a free connection, if the pool does not say otherwise."""
EXHAUSTED_SECONDS = 10.0
"""After a request got no connection, the pool counts as exhausted for this time, or until a connection is free."""
FRESH_SECONDS = 0.1
"""A connection that was returned this recently is lent unchecked, because a check costs a switch of the GIL. If its
server has ended in the meantime, the next statement fails."""
_SESSION = """
SELECT set_config('statement_timeout', %s, false), set_config('idle_in_transaction_session_timeout', %s, false),
       set_config('timezone', 'UTC', false), set_config('datestyle', 'ISO', false),
       set_config('synchronous_commit', 'on', false), set_config('jit', 'off', false),
       set_config('plan_cache_mode', CASE current_setting('citus.enable_manual_changes_to_shards', true)
                                     WHEN 'off' THEN 'auto' ELSE 'force_generic_plan' END, false),
       set_config('client_encoding', 'UTF8', false)
"""
"""Citus cannot make generic plans of statements on distributed tables. Connections to its shards allow such changes,
and use none of these tables (:func:`node_conninfo`)."""

_CLUSTER = "SELECT set_config('marketdata.cluster', system_identifier::text, false) FROM pg_control_system()"
"""Sets the setting that :data:`marketdata.store.symbols.COUNTER_COLUMNS` reads. Once per connection is enough, because
the cluster's identifier never changes."""


class Patience(NamedTuple):
    """How long the watchdog lets statements wait, in seconds."""

    overdue: float = 35.0
    """The watchdog ends a statement after this time. It is longer than ``statement_timeout``, after which a working
    server ends the statement."""
    stall: float = 5.0
    """A database has stalled if it answers neither statements nor new connections for this time. The watchdog then ends
    each statement that has been running for this time."""
    period: float = 0.5
    """How often the watchdog looks."""


USUAL_PATIENCE = Patience()

CHECK = "check that it runs and accepts the login"
_EXHAUSTED = "all connections to the database are in use; try again later"

_log = logging.getLogger(__name__)


@contextlib.contextmanager
def connect(
    conninfo: str, *, application_name: str = "marketdata", remedy: str = f"{CHECK} of DATABASE_URL"
) -> Iterator[Connection]:
    """A connection for one command, in autocommit mode and without a statement timeout. If libpq gets none,
    ``remedy`` ends the message. The cause is only in libpq's text, which clients do not get. If the disk is full, the
    error names the file system."""
    with _explained(conninfo), _opened(conninfo, application_name, remedy) as connection:
        yield connection


@contextlib.contextmanager
def _explained(conninfo: str) -> Iterator[None]:
    try:
        yield
    except e.DatabaseUnavailable as error:
        if (explained := ServerDisk(conninfo).explained(error)) is not error:
            raise explained from error
        raise


@contextlib.contextmanager
def _opened(conninfo: str, application_name: str, remedy: str) -> Iterator[Connection]:
    with translated():
        try:
            opened = psycopg.connect(completed(conninfo, application_name), autocommit=True)
        except psycopg.errors.ConnectionTimeout as error:
            named = psycopg.errors.ConnectionTimeout(f"{server(conninfo)}: {error}")  # psycopg names no single host
            raise e.DatabaseStalled("the database does not react: no connection within connect_timeout") from named
        except psycopg.OperationalError as error:
            if error.sqlstate is None:
                raise e.DatabaseUnavailable(f"no connection to the database: {remedy}") from error
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
        wait_seconds: float = WAIT_SECONDS,
        answers: Callable[[], bool] = lambda: True,
        refusal: Callable[[], e.MarketError | None] | None = None,
        has_limits: bool = True,
        patience: Patience = USUAL_PATIENCE,
    ) -> None:
        """``wait_seconds`` is how long a request waits for a free connection. ``answers`` returns whether the database
        accepts new connections. It is called while statements wait, and every half second while the database has
        stalled. ``refusal`` returns the error for those who want a connection at present, or None. Without
        ``has_limits``, a statement may take any time."""
        self._pool: psycopg_pool.ConnectionPool[Connection] = psycopg_pool.ConnectionPool(
            completed(conninfo, application_name),
            kwargs={"autocommit": True, "prepare_threshold": 0},
            min_size=min(4, size),
            max_size=size,
            timeout=wait_seconds,
            # This is short, because the next request tries again anyway. A long pause could last longer than the
            # outage.
            reconnect_timeout=1.0,
            configure=_configure_pooled if has_limits else _configure_unlimited,
            name=application_name,
            open=True,
        )

        self._size = size
        self._disk = ServerDisk(conninfo)
        self._refusal = refusal
        self._watchdog = ConnectionWatchdog(application_name, answers, has_limits, patience)
        self._exhausted_at = -EXHAUSTED_SECONDS
        self._used_at: WeakKeyDictionary[Connection, float] = WeakKeyDictionary()

    def connection(self, *, fresh_seconds: float | None = None) -> _Loan:
        """A context manager that lends a connection in autocommit mode and translates the driver's errors.

        ``fresh_seconds`` replaces ``FRESH_SECONDS``.
        """
        fresh = FRESH_SECONDS if fresh_seconds is None else fresh_seconds
        return _Loan(partial(self._lend, fresh), self._take_back, self._disk.explained)

    def renew(self, connection: Connection) -> None:
        """Restart the watchdog's time of a lent connection. Call this before a statement that follows after some
        time. A connection that this pool has not lent is left alone."""
        self._watchdog.renew(connection)

    def error(self) -> e.MarketError | None:
        """The reason why requests get no connection at present, or None."""
        if self._watchdog.is_suspended:
            return e.DatabaseStalled(DETAILS[e.DatabaseStalled])
        if (full := self._disk.error()) is not None:
            return full
        if monotonic() - self._exhausted_at < EXHAUSTED_SECONDS and not self.stats().get("pool_available"):
            return e.DatabaseExhausted(_EXHAUSTED)
        return None

    def _lend(self, fresh_seconds: float) -> Connection:
        if self._refusal is not None and (refused := self._refusal()) is not None:
            raise refused
        if self._watchdog.is_suspended:
            raise e.DatabaseStalled(DETAILS[e.DatabaseStalled])
        connection = self._take(fresh_seconds)
        self._watchdog.begin(connection)
        return connection

    def _take_back(self, connection: Connection) -> bool:
        """Put the connection back. Returns False if the watchdog had shut it down."""
        is_intact = self._watchdog.end(connection)
        if not is_intact:
            connection.close()
        self._used_at[connection] = monotonic()
        self._pool.putconn(connection)
        return is_intact

    def _take(self, fresh_seconds: float) -> Connection:
        """Take a connection whose server still runs. After a restart of the server, dead connections are replaced."""
        for _ in range(self._size + 1):
            try:
                connection = self._pool.getconn()
            except psycopg_pool.PoolTimeout as error:
                if self._watchdog.has_stalled():
                    raise e.DatabaseStalled(DETAILS[e.DatabaseStalled]) from error
                if self._watchdog:
                    self._exhausted_at = monotonic()
                    raise e.DatabaseExhausted(_EXHAUSTED) from error
                raise e.DatabaseUnavailable(DETAILS[e.DatabaseUnavailable]) from error
            if monotonic() - self._used_at.get(connection, 0.0) < fresh_seconds or not _is_cut(connection):
                return connection
            connection.close()
            self._pool.putconn(connection)
        raise e.DatabaseUnavailable(DETAILS[e.DatabaseUnavailable])

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Connection]:
        """Lend a connection in a transaction. The end of the block commits it, an error rolls it back."""
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
    """The context manager of ``Pool.connection``. It is a class, because a generator would take as long as the work of
    the pool itself."""

    __slots__ = ("_connection", "_explained", "_lend", "_take_back")

    def __init__(
        self,
        lend: Callable[[], Connection],
        take_back: Callable[[Connection], bool],
        explained: Callable[[e.MarketError], e.MarketError],
    ) -> None:
        self._lend = lend
        self._take_back = take_back
        self._explained = explained

    def __enter__(self) -> Connection:
        try:
            self._connection = self._lend()
        except (psycopg.Error, e.DatabaseUnavailable) as error:
            if (found := self._found(error)) is not error:
                raise found from error
            raise
        return self._connection

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        is_intact = self._take_back(self._connection)
        if not is_intact and isinstance(error, psycopg.Error | e.MarketError):
            raise e.DatabaseStalled(DETAILS[e.DatabaseStalled]) from error
        if not isinstance(error, psycopg.Error | e.DatabaseUnavailable):
            return
        if (found := self._found(error)) is not error:
            raise found from error

    def _found(self, error: psycopg.Error | e.MarketError) -> e.MarketError:
        """The service's error for ``error``."""
        return self._explained(translate(error) if isinstance(error, psycopg.Error) else error)


class ConnectionWatchdog:
    """Ends statements on lent connections if the database does not answer. Thread-safe.

    A stopped server or a hanging machine keeps its connections open, so a statement would wait forever. Only the client
    can end it then: the watchdog's thread shuts the socket down, and the waiting thread sees a lost connection.
    """

    def __init__(
        self,
        name: str,
        answers: Callable[[], bool],
        has_limits: bool = True,
        patience: Patience = USUAL_PATIENCE,
    ) -> None:
        """``answers`` returns whether the database accepts new connections. Without ``has_limits``, only a stalled
        database ends a statement."""
        self._answers = answers
        self._has_limits = has_limits
        self._patience = patience
        self._lent: dict[Connection, float] = {}
        self._lock = threading.Lock()  # a connection that was returned must not be shut down
        self._answered_at = monotonic()
        self._closing = threading.Event()
        self.is_suspended = False
        """Whether the database has stalled. No connection should be lent until it answers again."""
        self._thread = threading.Thread(target=self._run, name=f"{name}-watchdog", daemon=True)
        self._thread.start()

    def __bool__(self) -> bool:
        return bool(self._lent)

    def begin(self, connection: Connection) -> None:
        """Note that the connection was lent now."""
        self._lent[connection] = monotonic()

    def renew(self, connection: Connection) -> None:
        """Note that the holder of the connection begins its next statement."""
        with self._lock:
            if connection in self._lent:
                self._lent[connection] = monotonic()

    def end(self, connection: Connection) -> bool:
        """Note that the connection was returned. Returns False if the watchdog had shut it down."""
        with self._lock:
            is_intact = self._lent.pop(connection, None) is not None
        if is_intact and not connection.closed:
            self._answered_at = monotonic()
        return is_intact

    def has_stalled(self) -> bool:
        """Whether the database has stalled: a statement has been waiting for ``patience.stall``, the database has
        answered no other statement in this time, and it accepts no new connection now."""
        since = monotonic() - self._patience.stall
        return self._answered_at < since and bool(self._waiting_since(since)) and not self._answers()

    def close(self, timeout: float = 5.0) -> None:
        """End the thread; may be called repeatedly."""
        self._closing.set()
        self._thread.join(timeout)

    def _run(self) -> None:
        while not self._closing.wait(self._patience.period):
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
            _log.error("the database has answered nothing for %g s: requests fail until it does", self._patience.stall)
            self.is_suspended = True

    def _shut_down_overdue(self) -> None:
        if not self.is_suspended and not self._has_limits:
            return
        since = monotonic() - (self._patience.stall if self.is_suspended else self._patience.overdue)
        for connection, began in self._waiting_since(since):
            with self._lock:
                if self._lent.get(connection) == began:
                    del self._lent[connection]
                    _shut_down(connection)

    def _waiting_since(self, since: float) -> list[tuple[Connection, float]]:
        """The connections whose statement runs and began before ``since``. A connection is idle, and not among them,
        while its holder waits for a slow client."""
        lent = list(self._lent.items())
        return [(each, began) for each, began in lent if began < since and _is_active(each)]


def _is_active(connection: Connection) -> bool:
    return connection.pgconn.transaction_status == TransactionStatus.ACTIVE


def _shut_down(connection: Connection) -> None:
    with (
        contextlib.suppress(OSError, psycopg.Error),  # the connection was closed meanwhile
        socket.socket(fileno=os.dup(connection.fileno())) as duplicate,
    ):
        duplicate.shutdown(socket.SHUT_RDWR)


def _configure(connection: Connection, seconds: float = STATEMENT_SECONDS) -> None:
    limit = str(int(seconds * 1000))
    connection.execute(_SESSION, (limit, limit), prepare=False)


def _configure_pooled(connection: Connection) -> None:
    _configure(connection)
    name_cluster(connection)


def _configure_unlimited(connection: Connection) -> None:
    _configure(connection, seconds=0)


def name_cluster(connection: Connection) -> None:
    """Let the session know its cluster. Some hosting providers do not allow this query. The counter's origin then has
    only the table and the time."""
    with contextlib.suppress(psycopg.errors.InsufficientPrivilege):
        connection.execute(_CLUSTER, prepare=False)


def _is_cut(connection: Connection) -> bool:
    """Whether the server closed the connection. The test takes no round trip: an idle connection is readable only if
    the server closed it."""
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(0))
