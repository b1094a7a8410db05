"""``bin/marketdata-init``: the shared tables and the roles."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
from psycopg import sql

from marketdata.graphql.engine import READER
from marketdata.store import migrations
from marketdata.store.pool import Connection

Say = Callable[[str], None]


def initialise(connection: Connection, say: Say) -> None:
    """Apply the migrations that the database lacks and create the roles."""
    applied = migrations.migrate(connection)
    say(f"schema: {applied} step{'s' if applied != 1 else ''} applied" if applied else "schema: up to date")
    say(_create_reader(connection))


def _create_reader(connection: Connection) -> str:
    """Roles belong to the whole server: a task on another database may create this one at the same time."""
    if _has_reader(connection):
        return f"role {READER}: already exists"
    try:
        with connection.transaction():  # in a transaction of the caller, only this is undone by an error
            connection.execute(sql.SQL("CREATE ROLE {} NOLOGIN").format(sql.Identifier(READER)))
    except (psycopg.errors.DuplicateObject, psycopg.errors.UniqueViolation):
        return f"role {READER}: already exists"
    except psycopg.errors.InsufficientPrivilege:
        return (
            f"role {READER}: not created, this login lacks the privilege; only a GraphQL engine needs the role "
            f"(CREATE ROLE {READER})"
        )
    return f"role {READER}: created"


def _has_reader(connection: Connection) -> bool:
    return connection.execute("SELECT FROM pg_roles WHERE rolname = %s", (READER,)).fetchone() is not None


def grant(connection: Connection, tables: list[str]) -> None:
    """Let the reader role, if it exists, read these tables."""
    if _has_reader(connection):
        names = sql.SQL(", ").join(map(sql.Identifier, tables))
        connection.execute(sql.SQL("GRANT SELECT ON {} TO {}").format(names, sql.Identifier(READER)))


def reserve(connection: Connection, trigger_functions: list[str]) -> None:
    """Let only their owner attach these functions to a table. They run as their owner and take the rows that they are
    passed for ticks, and every role may create a temporary table. Triggers that exist work for everybody."""
    names = sql.SQL(", ").join(sql.SQL("{}()").format(sql.Identifier(name)) for name in trigger_functions)
    connection.execute(sql.SQL("REVOKE EXECUTE ON FUNCTION {} FROM PUBLIC").format(names))
