"""Translates errors of the driver psycopg to the errors of this service, by their SQLSTATE."""

from __future__ import annotations

import psycopg

from marketdata import errors as e

STATEMENT_SECONDS = 30.0
"""PostgreSQL's ``statement_timeout`` for the statements of a pool."""

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
    "53": e.DatabaseExhausted,  # memory, connections
    "53100": e.DiskFull,
    "54": e.InvalidValue,  # a program limit
    "55000": e.Pruned,  # object not in prerequisite state: raised by sql/candles.sql
    "55P03": e.Contended,  # lock_timeout
    "57014": e.TooSlow,  # statement_timeout
    "57P": e.DatabaseUnavailable,  # shutdown, crash, still starting
    "58": e.DatabaseUnavailable,  # system errors, like input and output
}
"""The class of the error for each prefix of a SQLSTATE. The longest matching prefix applies."""

_INVALID_PARAMETER_VALUE, _PRUNED = "22023", "55000"

DETAILS: dict[type[e.MarketError], str] = {
    e.InvalidValue: "a value of this request is out of the range that the database can store",
    e.Conflict: "the request conflicts with stored data",
    # The connection may have been lost after the server received COMMIT and before its answer arrived.
    e.DatabaseUnavailable: "the database does not answer; the request may or may not have been stored, send it again",
    e.DatabaseStalled: "the database does not react; the request may or may not have been stored, send it again later",
    e.DatabaseExhausted: "the database is out of memory or connections; send the request again later",
    e.DiskFull: "the file system of the database is full; send the request again when there is room",
    e.Contended: "the request conflicted with another transaction and was not stored; send it again",
    e.TooSlow: f"the database did not finish within {STATEMENT_SECONDS:.0f} s; request less data at a time",
    e.VersionMissing: "the database lacks tables or functions of this version; run bin/marketdata-version N",
    e.DatabaseDefect: "the database rejected a statement of this service; see the log of the service",
}


def translate(error: psycopg.Error) -> e.MarketError:
    """The error of this service for an error of the driver.

    The new error has a text of its own, because the driver's text may contain table names, stored values or the
    connection string. Only the messages of SQL functions about their arguments and about pruned ticks are passed on.
    """
    kind = _kind(error)
    if error.sqlstate in (_INVALID_PARAMETER_VALUE, _PRUNED) and error.diag.message_primary:
        return kind(error.diag.message_primary, extra=_line(error))
    return kind(DETAILS[kind])


def _line(error: psycopg.Error) -> dict[str, int]:
    """The line of pruned ticks in milliseconds, which ``sql/candles.sql`` gives as the detail."""
    detail = error.diag.message_detail or ""
    return {e.PRUNED_UNTIL: int(detail)} if error.sqlstate == _PRUNED and detail.isdecimal() else {}


def _kind(error: psycopg.Error) -> type[e.MarketError]:
    state = error.sqlstate
    if state is None:  # an error of libpq, like a lost connection, or of the driver itself
        lost = isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
        return e.DatabaseUnavailable if lost else e.DatabaseDefect
    prefixes = [state[:length] for length in range(len(state), 0, -1)]
    return next((SQLSTATES[prefix] for prefix in prefixes if prefix in SQLSTATES), e.DatabaseDefect)


class translated:
    """A context manager that translates errors of the driver in its block."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, psycopg.Error):
            raise translate(error) from error
