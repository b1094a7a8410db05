"""Kept-alive connections, and the one table from SQLSTATE to our errors.

Connections are in autocommit mode: one statement is one transaction and one round trip; ``transaction`` is for more.
Every statement is prepared and planned at its first use: those that come often are written for one index, whatever
their bounds, and to plan one anew costs as much as to read a page of candles.
"""

from __future__ import annotations

import contextlib
import select
from collections.abc import Iterator
from typing import Any

import psycopg
import psycopg_pool

from marketdata import errors as e

Connection = psycopg.Connection[tuple[Any, ...]]

SIZE = 16
"""Connections of one pool at most: several processes fit into PostgreSQL's default of 100 (etc/postgresql.conf)."""
WAIT_SECONDS = 5.0
"""How long a request waits for a free connection."""
STATEMENT_SECONDS = 30.0
CONNECT_SECONDS = 5

_SESSION = """
SELECT set_config('statement_timeout', %s, false), set_config('idle_in_transaction_session_timeout', %s, false),
       set_config('timezone', 'UTC', false), set_config('datestyle', 'ISO', false),
       set_config('synchronous_commit', 'on', false), set_config('jit', 'off', false),
       set_config('plan_cache_mode', 'force_generic_plan', false)
"""

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

_DETAILS: dict[type[e.MarketError], str] = {
    e.Conflict: "this conflicts with what the database holds",
    e.DatabaseUnavailable: "the database does not answer; nothing of this request was kept, send it again",
    e.DatabaseExhausted: "the database is out of disk, memory or connections; send the request again later",
    e.Contended: "another transaction was in the way; nothing of this request was kept, send it again",
    e.TooSlow: f"the database did not finish within {STATEMENT_SECONDS:.0f} s; ask for less at a time",
    e.VersionMissing: "the tables or functions of this version are not in the database; run bin/marketdata-version N",
    e.DatabaseDefect: "the database refused a statement of this service; its log tells more",
}


def translate(error: psycopg.Error) -> e.MarketError:
    """Our error for one of the driver's. Its words hold no statement, no connection string and no stored value."""
    if isinstance(error, psycopg_pool.PoolTimeout):
        return e.DatabaseExhausted("all connections to the database are in use; try again later")
    kind = _kind(error)
    if kind is e.InvalidValue:
        return kind(error.diag.message_primary or "a value cannot be stored")
    return kind(_DETAILS[kind])


def _kind(error: psycopg.Error) -> type[e.MarketError]:
    state = error.sqlstate
    if state is None:  # libpq itself: no server, or no longer
        lost = isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
        return e.DatabaseUnavailable if lost else e.DatabaseDefect
    prefixes = [state[:length] for length in range(len(state), 0, -1)]
    return next((SQLSTATES[prefix] for prefix in prefixes if prefix in SQLSTATES), e.DatabaseDefect)


@contextlib.contextmanager
def translated() -> Iterator[None]:
    """Raise our error for whatever the driver raises within."""
    try:
        yield
    except psycopg.Error as error:
        raise translate(error) from error


@contextlib.contextmanager
def connect(conninfo: str, *, application_name: str = "marketdata") -> Iterator[Connection]:
    """One connection for a one-shot task, in autocommit mode and without a statement timeout."""
    with (
        translated(),
        psycopg.connect(
            conninfo, autocommit=True, connect_timeout=CONNECT_SECONDS, fallback_application_name=application_name
        ) as connection,
    ):
        _configure(connection, seconds=0)
        yield connection


class Pool:
    """Connections of one process to one database. ``close`` any number of times."""

    def __init__(self, conninfo: str, *, application_name: str, size: int = SIZE) -> None:
        self._pool: psycopg_pool.ConnectionPool[Connection] = psycopg_pool.ConnectionPool(
            conninfo,
            kwargs={
                "autocommit": True,
                "prepare_threshold": 0,
                "connect_timeout": CONNECT_SECONDS,
                "fallback_application_name": application_name,
            },
            min_size=min(4, size),
            max_size=size,
            timeout=WAIT_SECONDS,
            # After an outage a request makes the next attempt; a long backoff would outlive the outage.
            reconnect_timeout=1.0,
            configure=_configure,
            name=application_name,
            open=True,
        )

        self._size = size
        self._lent: set[Connection] = set()

    @contextlib.contextmanager
    def connection(self) -> Iterator[Connection]:
        """A connection in autocommit mode. Raises our errors, also for what is done with it within."""
        with translated():
            connection = self._take()
            self._lent.add(connection)
            try:
                yield connection
            finally:
                self._lent.discard(connection)
                self._pool.putconn(connection)

    def _take(self) -> Connection:
        """A connection whose server is there: after a restart the dead ones are passed over."""
        for _ in range(self._size + 1):
            try:
                connection = self._pool.getconn()
            except psycopg_pool.PoolTimeout as error:
                if self._lent:
                    raise
                raise e.DatabaseUnavailable(_DETAILS[e.DatabaseUnavailable]) from error
            if not _is_cut(connection):
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


def _configure(connection: Connection, seconds: float = STATEMENT_SECONDS) -> None:
    limit = str(int(seconds * 1000))
    connection.execute(_SESSION, (limit, limit), prepare=False)


def _is_cut(connection: Connection) -> bool:
    """True, without a round trip, when the server said good-bye: on an idle connection it has nothing else to say."""
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(0))
