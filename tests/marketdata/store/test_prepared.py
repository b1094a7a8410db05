"""Statements that bypass the driver: their parameters and results. Their failures must raise the driver's errors."""

from __future__ import annotations

import os
import socket

import psycopg
import pytest

from marketdata.store import prepared
from marketdata.store.pool import Connection, Pool


def test_parameters_are_named_and_may_be_repeated(conn: Connection) -> None:
    statement = b"SELECT %(b)s::int - %(a)s::int, %(a)s::int, %(text)s::text, %(none)s::int, 7 %% 4"
    for a, b in ((1, 10), (2, 30)):
        found = prepared.rows(conn, statement, {"a": a, "b": b, "text": "käse'", "none": None, "other": 1})
        assert found == [(b"%d" % (b - a), b"%d" % a, "käse'".encode(), None, b"3")]


def test_a_statement_is_prepared_once_for_each_connection(database: str) -> None:
    pool = Pool(database, application_name="test", size=2)
    try:
        with pool.connection() as one, pool.connection() as other:
            for connection in (one, other, one, one, other):
                assert prepared.rows(connection, b"SELECT 'here'::text", {}) == [(b"here",)]
            for connection in (one, other):
                known = connection.execute("SELECT statement FROM pg_prepared_statements", prepare=False).fetchall()
                assert known.count(("SELECT 'here'::text",)) == 1
    finally:
        pool.close()


def test_statements_that_the_driver_deallocated_are_prepared_again(database: str) -> None:
    def rows(connection: Connection) -> list[prepared.Row]:
        return prepared.rows(connection, b"SELECT 'again'::text", {})

    with psycopg.connect(database, autocommit=True, prepare_threshold=0) as connection:
        assert rows(connection) == [(b"again",)]
        with connection.transaction(force_rollback=True):
            connection.execute("SELECT 1")
        known = connection.execute("SELECT statement FROM pg_prepared_statements", prepare=False).fetchall()
        assert known == []
        with connection.transaction():
            assert rows(connection) == [(b"again",)]
        assert rows(connection) == rows(connection) == [(b"again",)]


def test_a_connection_that_libpq_loses_raises_the_driver_s_error(database: str) -> None:
    """Without a SQLSTATE, and also while libpq reports the connection as open."""
    with psycopg.connect(database, autocommit=True) as connection:
        with socket.socket(fileno=os.dup(connection.fileno())) as duplicate:
            duplicate.shutdown(socket.SHUT_RDWR)
        with pytest.raises(psycopg.OperationalError, match="the connection was lost"):
            prepared.rows(connection, b"SELECT 1", {})


def test_a_name_that_the_server_knows_already_is_used(database: str) -> None:
    """Behind a connection pooler, another client of this service may have used the same connection to the server."""
    statement = b"SELECT 'known'::text"
    with psycopg.connect(database, autocommit=True) as one, psycopg.connect(database, autocommit=True) as other:
        prepared.rows(one, statement, {})
        ((name,),) = one.execute("SELECT name FROM pg_prepared_statements WHERE statement = %s", (statement.decode(),))
        other.execute(f"PREPARE {name} AS {statement.decode()}")  # type: ignore[arg-type]
        assert prepared.rows(other, statement, {}) == [(b"known",)]


def test_a_failure_raises_the_driver_s_error(database: str) -> None:
    for statement, error in (
        (b"SELECT 1 / %(n)s::int", psycopg.errors.DivisionByZero),
        (b"SELECT %(n)s::int FROM no_such_table", psycopg.errors.UndefinedTable),
        (b"SELECT pg_terminate_backend(pg_backend_pid()), %(n)s::int", psycopg.OperationalError),
    ):
        with psycopg.connect(database, autocommit=True) as connection, pytest.raises(error):
            prepared.rows(connection, statement, {"n": 0})
