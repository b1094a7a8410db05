"""Kept-alive connections, and the one table from SQLSTATE to our errors.

Connections are in autocommit mode: one statement is one transaction and one round trip; ``transaction`` is for more.
A statement is prepared and planned at its first use, but for those of :mod:`marketdata.store.prepared` within a
transaction: those that come often are written for one index, whatever their bounds, and to plan one anew costs as much
as to read a page of candles.
"""

from __future__ import annotations

import contextlib
import select
from collections.abc import Callable, Iterator
from functools import partial
from time import monotonic
from typing import Any
from weakref import WeakKeyDictionary

import psycopg
import psycopg_pool
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from marketdata import errors as e

Connection = psycopg.Connection[tuple[Any, ...]]

SIZE = 16
"""Connections of one pool at most: several processes fit into PostgreSQL's default of 100 (etc/postgresql.conf)."""
WAIT_SECONDS = 5.0
"""How long a request waits for a free connection."""
STATEMENT_SECONDS = 30.0
FRESH_SECONDS = 0.1
"""A connection that was given back so lately is not looked at before a reader uses it again, since a look costs a turn
of the interpreter's lock. One whose server went meanwhile fails that reader."""
CONNECTING: dict[str, str | int] = {
    "connect_timeout": 5,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}
"""libpq's parameters, as far as a URL does not set them: a server that vanished without a word (its machine lost power,
a firewall forgot the connection) is given up within half a minute, not after the kernel's two hours."""

_SESSION = """
SELECT set_config('statement_timeout', %s, false), set_config('idle_in_transaction_session_timeout', %s, false),
       set_config('timezone', 'UTC', false), set_config('datestyle', 'ISO', false),
       set_config('synchronous_commit', 'on', false), set_config('jit', 'off', false),
       set_config('plan_cache_mode', 'force_generic_plan', false), set_config('client_encoding', 'UTF8', false)
"""

_CLUSTER = "SELECT set_config('marketdata.cluster', system_identifier::text, false) FROM pg_control_system()"
"""For :data:`marketdata.store.lookup.AS_IT_STANDS`: asked once for each connection, which outlives no cluster."""

# The longest prefix counts.
SQLSTATES: dict[str, type[e.MarketError]] = {
    "08": e.DatabaseUnavailable,  # connection exceptions
    "22": e.InvalidValue,  # data exceptions
    "23": e.InvalidValue,  # integrity constraints …
    "23503": e.Conflict,  # … on what is there: foreign key, unique, exclusion
    "23505": e.Conflict,
    "23P01": e.Conflict,
    "25006": e.DatabaseUnavailable,  # read-only: a replica, or a failover under way
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
    "58": e.DatabaseUnavailable,  # the system around it: input and output
}

_ARGUMENT = "22023"  # invalid_parameter_value

_DETAILS: dict[type[e.MarketError], str] = {
    e.InvalidValue: "the database refuses a value of this request: it is out of the range of what can be stored",
    e.Conflict: "this conflicts with what the database holds",
    # A connection may be lost after COMMIT arrived, and before its answer did.
    e.DatabaseUnavailable: "the database does not answer; what was sent may or may not be kept, send it again as it is",
    e.DatabaseExhausted: "the database is out of disk, memory or connections; send the request again later",
    e.Contended: "another transaction was in the way; nothing of this request was kept, send it again",
    e.TooSlow: f"the database did not finish within {STATEMENT_SECONDS:.0f} s; ask for less at a time",
    e.VersionMissing: "the tables or functions of this version are not in the database; run bin/marketdata-version N",
    e.DatabaseDefect: "the database refused a statement of this service; its log tells more",
}


def translate(error: psycopg.Error) -> e.MarketError:
    """Our error for one of the driver's, in words of ours: the driver's may hold names of tables, stored values or the
    connection string. Only what a function says of its arguments is passed on, since nobody else can say it."""
    if isinstance(error, psycopg_pool.PoolTimeout):
        return e.DatabaseExhausted("all connections to the database are in use; try again later")
    kind = _kind(error)
    if error.sqlstate == _ARGUMENT and error.diag.message_primary:
        return kind(error.diag.message_primary)
    return kind(_DETAILS[kind])


def _kind(error: psycopg.Error) -> type[e.MarketError]:
    state = error.sqlstate
    if state is None:  # libpq itself: no server, or no longer
        lost = isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
        return e.DatabaseUnavailable if lost else e.DatabaseDefect
    prefixes = [state[:length] for length in range(len(state), 0, -1)]
    return next((SQLSTATES[prefix] for prefix in prefixes if prefix in SQLSTATES), e.DatabaseDefect)


class translated:
    """Raise our error for whatever the driver raises within."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, psycopg.Error):
            raise translate(error) from error


@contextlib.contextmanager
def connect(conninfo: str, *, application_name: str = "marketdata") -> Iterator[Connection]:
    """One connection for a one-shot task, in autocommit mode and without a statement timeout."""
    with (
        translated(),
        psycopg.connect(_completed(conninfo, application_name), autocommit=True) as connection,
    ):
        _configure(connection, seconds=0)
        yield connection


class Pool:
    """Connections of one process to one database. ``close`` any number of times."""

    def __init__(self, conninfo: str, *, application_name: str, size: int = SIZE) -> None:
        self._pool: psycopg_pool.ConnectionPool[Connection] = psycopg_pool.ConnectionPool(
            _completed(conninfo, application_name),
            kwargs={"autocommit": True, "prepare_threshold": 0},
            min_size=min(4, size),
            max_size=size,
            timeout=WAIT_SECONDS,
            # After an outage a request makes the next attempt; a long backoff would outlive the outage.
            reconnect_timeout=1.0,
            configure=_configure_kept,
            name=application_name,
            open=True,
        )

        self._size = size
        self._lent: set[Connection] = set()
        self._used_at: WeakKeyDictionary[Connection, float] = WeakKeyDictionary()

    def connection(self, *, fresh_seconds: float | None = None) -> _Loan:
        """A connection in autocommit mode, for a ``with``. Raises our errors, also for what is done with it within.

        ``fresh_seconds`` stands in place of ``FRESH_SECONDS``.
        """
        fresh = FRESH_SECONDS if fresh_seconds is None else fresh_seconds
        return _Loan(partial(self._lend, fresh), self._take_back)

    def _lend(self, fresh_seconds: float) -> Connection:
        connection = self._take(fresh_seconds)
        self._lent.add(connection)
        return connection

    def _take_back(self, connection: Connection) -> None:
        self._lent.discard(connection)
        self._used_at[connection] = monotonic()
        self._pool.putconn(connection)

    def _take(self, fresh_seconds: float) -> Connection:
        """A connection whose server is there: after a restart the dead ones are passed over."""
        for _ in range(self._size + 1):
            try:
                connection = self._pool.getconn()
            except psycopg_pool.PoolTimeout as error:
                if self._lent:
                    raise
                raise e.DatabaseUnavailable(_DETAILS[e.DatabaseUnavailable]) from error
            if monotonic() - self._used_at.get(connection, 0.0) < fresh_seconds or not _is_cut(connection):
                return connection
            connection.close()
            self._pool.putconn(connection)
        raise e.DatabaseUnavailable(_DETAILS[e.DatabaseUnavailable])

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Connection]:
        """A connection in a transaction that is committed at the end, durably, or rolled back."""
        with self.connection() as connection, connection.transaction():
            yield connection

    def stats(self) -> dict[str, int]:
        """Figures of the pool: ``pool_size``, ``pool_available``, ``requests_waiting`` and further ones."""
        return self._pool.get_stats()

    def close(self) -> None:
        self._pool.close()


class _Loan:
    """A connection for as long as a ``with`` takes: a class, since a generator costs as much as the pool itself."""

    __slots__ = ("_connection", "_lend", "_take_back")

    def __init__(self, lend: Callable[[], Connection], take_back: Callable[[Connection], None]) -> None:
        self._lend = lend
        self._take_back = take_back

    def __enter__(self) -> Connection:
        try:
            self._connection = self._lend()
        except psycopg.Error as error:
            raise translate(error) from error
        return self._connection

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        self._take_back(self._connection)
        if isinstance(error, psycopg.Error):
            raise translate(error) from error


def _configure(connection: Connection, seconds: float = STATEMENT_SECONDS) -> None:
    limit = str(int(seconds * 1000))
    connection.execute(_SESSION, (limit, limit), prepare=False)


def _configure_kept(connection: Connection) -> None:
    _configure(connection)
    # Some providers let nobody ask. The table and the row still tell most.
    with contextlib.suppress(psycopg.errors.InsufficientPrivilege):
        connection.execute(_CLUSTER, prepare=False)


def _completed(conninfo: str, application_name: str) -> str:
    """``conninfo`` with :data:`CONNECTING` for what it leaves open. UsageError when it is none; it may hold a password,
    so it is not told."""
    try:
        given = conninfo_to_dict(conninfo)
    except psycopg.ProgrammingError as error:
        raise e.UsageError(
            "a database's URL is none that libpq knows: look at DATABASE_URL and DATABASE_READ_URL"
        ) from error
    return make_conninfo("", **{**CONNECTING, "fallback_application_name": application_name, **given})


def _is_cut(connection: Connection) -> bool:
    """True, without a round trip, when the server said good-bye: on an idle connection it has nothing else to say."""
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(0))
