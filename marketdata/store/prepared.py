"""The statements that come most often, given to libpq as they are; their answers stay the bytes that arrived.

The driver waits for each piece of an answer in Python. Every such wait gives the interpreter's lock away and asks for
it again, which under load costs more than the piece. libpq waits for the whole answer outside of the interpreter.
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
"""Bytes, or None for SQL's NULL."""

_PLACEHOLDER = re.compile(rb"%\((\w+)\)s|%%")

_KNOWN_NAME = b"42P05"
_NO_SUCH_NAME = b"26000"
"""The driver forgets all statements of a connection after a ROLLBACK or a DROP, those of others with its own."""

_names: WeakKeyDictionary[Connection, dict[bytes, bytes]] = WeakKeyDictionary()
"""By which name each connection knows a statement. There are at most some 130 statements for each version."""


def rows(connection: Connection, statement: bytes, values: Mapping[str, str | int | None]) -> list[Row]:
    """What ``statement`` selects, as PostgreSQL writes it; placeholders like ``%(name)s`` take ``values``.

    The statement says the type of each of them. The connection is in autocommit mode or in a transaction that was
    begun, and nobody else closes it meanwhile. Raises the driver's errors.
    """
    numbered, order = _numbered(statement)
    # The driver's annotations leave out None, which libpq takes.
    given = cast("list[bytes]", [None if (value := values[key]) is None else str(value).encode() for key in order])
    if connection.pgconn.transaction_status != pq.TransactionStatus.IDLE:
        # A name that is no longer known would end the transaction.
        result = connection.pgconn.exec_params(numbered, given)
    else:
        result = connection.pgconn.exec_prepared(_name(connection, numbered), given)
        if _state(result) == _NO_SUCH_NAME:
            _names.pop(connection, None)
            result = connection.pgconn.exec_prepared(_name(connection, numbered), given)
    _check(connection, result, pq.ExecStatus.TUPLES_OK)
    columns = range(result.nfields)
    return [tuple(result.get_value(row, column) for column in columns) for row in range(result.ntuples)]


def _name(connection: Connection, numbered: bytes) -> bytes:
    """The name of the statement, which is prepared if it has none yet."""
    names = _names.setdefault(connection, {})
    name = names.get(numbered)
    if name is None:
        # Of its text: a name that somebody else gave, on a connection that a pooler shares, is of the same statement.
        name = b"own_" + blake2b(numbered, digest_size=16).hexdigest().encode()
        result = connection.pgconn.prepare(name, numbered)
        if _state(result) != _KNOWN_NAME:
            _check(connection, result, pq.ExecStatus.COMMAND_OK)
        names[numbered] = name
    return name


def _state(result: PGresult) -> bytes | None:
    return result.error_field(pq.DiagnosticField.SQLSTATE)


def _check(connection: Connection, result: PGresult, wanted: pq.ExecStatus) -> None:
    if result.status == wanted:
        return
    if connection.closed and _state(result) is None:
        raise psycopg.OperationalError(f"the connection was lost: {result.get_error_message()}")
    raise psycopg.errors.error_from_result(result)


@lru_cache(maxsize=256)
def _numbered(statement: bytes) -> tuple[bytes, tuple[str, ...]]:
    """``statement`` with PostgreSQL's own placeholders, and the names for which they stand in their order."""
    order: list[str] = []

    def number(found: re.Match[bytes]) -> bytes:
        if found[1] is None:
            return b"%"
        key = found[1].decode()
        if key not in order:
            order.append(key)
        return b"$%d" % (order.index(key) + 1)

    return _PLACEHOLDER.sub(number, statement), tuple(order)
