"""``bin/marketdata-init``: the shared tables and the roles."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
from psycopg import sql

from marketdata.store import migrations
from marketdata.store.pool import Connection

Say = Callable[[str], None]

READER = "marketdata_reader"
"""The role that a GraphQL engine reads with: the data of every version, and no token."""


def initialise(connection: Connection, say: Say) -> None:
    """Bring the database's schema up to date and make the roles."""
    ran = migrations.migrate(connection)
    say(f"schema: {ran} step{'s' if ran != 1 else ''} applied" if ran else "schema: up to date")
    say(_make_reader(connection))


def _make_reader(connection: Connection) -> str:
    """Roles belong to the whole server, so another database's task may make this one at the same moment."""
    if _has_reader(connection):
        return f"role {READER}: there already"
    try:
        connection.execute(sql.SQL("CREATE ROLE {} NOLOGIN").format(sql.Identifier(READER)))
    except (psycopg.errors.DuplicateObject, psycopg.errors.UniqueViolation):
        return f"role {READER}: there already"
    except psycopg.errors.InsufficientPrivilege:
        return f"role {READER}: not made, this login may not; only a GraphQL engine needs it (CREATE ROLE {READER})"
    return f"role {READER}: made"


def _has_reader(connection: Connection) -> bool:
    return connection.execute("SELECT FROM pg_roles WHERE rolname = %s", (READER,)).fetchone() is not None


def grant(connection: Connection, tables: list[str]) -> None:
    """Let the reader role, where it is there, read these tables."""
    if _has_reader(connection):
        names = sql.SQL(", ").join(map(sql.Identifier, tables))
        connection.execute(sql.SQL("GRANT SELECT ON {} TO {}").format(names, sql.Identifier(READER)))
