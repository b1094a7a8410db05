"""Executes prepared statements directly by libpq, for the most frequent queries. Results are raw bytes.

The driver waits in Python for each part of a result and releases the GIL each time. Under load this costs more than
the part itself. libpq waits for the whole result and releases the GIL only once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from hashlib import blake2b
from typing import Any, cast
from weakref import WeakKeyDictionary

import psycopg
from psycopg import pq
from psycopg.pq.abc import PGresult

from marketdata.store.pool import Connection

Row = tuple[Any, ...]
"""A row of a result. Each value is bytes, or None for SQL's NULL."""

_PLACEHOLDER = re.compile(rb"%\((\w+)\)s|%%")

_DUPLICATE_STATEMENT = b"42P05"
_UNKNOWN_STATEMENT = b"26000"
"""The SQLSTATE of an error after the driver has deallocated all prepared statements of the connection. The driver does
so after a ROLLBACK or a DROP, and the statements of this module are deallocated, too."""

_names: WeakKeyDictionary[Connection, dict[bytes, bytes]] = WeakKeyDictionary()
"""For each connection the names of its prepared statements, by statement; at most about 150 for each version, or
each shard of a distributed one."""


def rows(connection: Connection, statement: bytes, values: Mapping[str, str | int | None]) -> list[Row]:
    """Execute ``statement`` and return its rows in PostgreSQL's text format.

    ``values`` replace placeholders like ``%(name)s``; the statement must cast each of these to its type. Raises the
    driver's errors.
    """
    numbered, order = _numbered(statement)
    # The driver's annotations lack None, which libpq accepts as NULL.
    given = cast("list[bytes]", [None if (value := values[key]) is None else str(value).encode() for key in order])
    if connection.pgconn.transaction_status != pq.TransactionStatus.IDLE:
        # In a transaction the statement is not prepared, because an unknown name would abort the transaction.
        result = connection.pgconn.exec_params(numbered, given)
    else:
        result = connection.pgconn.exec_prepared(_name(connection, numbered), given)
        if _state(result) == _UNKNOWN_STATEMENT:
            _names.pop(connection, None)
            result = connection.pgconn.exec_prepared(_name(connection, numbered), given)
    _check(result, pq.ExecStatus.TUPLES_OK)
    columns = range(result.nfields)
    return [tuple(result.get_value(row, column) for column in columns) for row in range(result.ntuples)]


def _name(connection: Connection, numbered: bytes) -> bytes:
    """The name of the prepared statement; prepares it first if needed."""
    names = _names.setdefault(connection, {})
    name = names.get(numbered)
    if name is None:
        # The name contains a hash of the text. If another client of a connection pooler has prepared a statement of
        # this name, it is therefore the same statement.
        name = b"own_" + blake2b(numbered, digest_size=16).hexdigest().encode()
        result = connection.pgconn.prepare(name, numbered)
        if _state(result) != _DUPLICATE_STATEMENT:
            _check(result, pq.ExecStatus.COMMAND_OK)
        names[numbered] = name
    return name


def _state(result: PGresult) -> bytes | None:
    return result.error_field(pq.DiagnosticField.SQLSTATE)


def _check(result: PGresult, wanted: pq.ExecStatus) -> None:
    if result.status == wanted:
        return
    # Only PostgreSQL's errors have a SQLSTATE. An error of libpq means that the connection was lost, although libpq may
    # still report it as open.
    if _state(result) is None:
        raise psycopg.OperationalError(f"the connection was lost: {result.get_error_message()}")
    raise psycopg.errors.error_from_result(result)


@lru_cache(maxsize=256)
def _numbered(statement: bytes) -> tuple[bytes, tuple[str, ...]]:
    """Convert placeholders to PostgreSQL's form (``$1``). Returns the statement, and the names in numerical order."""
    order: list[str] = []

    def number(found: re.Match[bytes]) -> bytes:
        if found[1] is None:
            return b"%"
        key = found[1].decode()
        if key not in order:
            order.append(key)
        return b"$%d" % (order.index(key) + 1)

    return _PLACEHOLDER.sub(number, statement), tuple(order)
