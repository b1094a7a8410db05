"""The password with which the reader role logs in, in a file that psql and other clients of libpq read (``passfile``).

The new password is on the disk before the role has it, in a file of its own, which then replaces the present one. With
that file :func:`finish` completes a change that was killed in between.
"""

from __future__ import annotations

import secrets
from pathlib import Path

import psycopg
from psycopg import sql

from marketdata import secretfile
from marketdata.errors import StateError
from marketdata.graphql.engine import READER
from marketdata.operations import rotation
from marketdata.operations.database import Say
from marketdata.store.pool import Connection

PASSFILE = "reader.pgpass"
_PENDING = "reader.pgpass.new"
_RANDOM_BYTES = 24


def change(connection: Connection, folder: Path) -> Path:
    """Give the role a new password and let it log in; returns the file with the password.

    StateError when this login may not change the role, or there is none.
    """
    secretfile.make_folder(folder, "MARKET_SECRETS_DIR")
    with rotation.alone(folder):
        pending = folder / _PENDING
        # The password has no character that a passfile escapes.
        line = f"*:*:*:{READER}:{secrets.token_urlsafe(_RANDOM_BYTES)}\n"
        with secretfile.replaced(pending, line):
            pass
        try:
            return _take(connection, pending)
        except (psycopg.errors.InsufficientPrivilege, psycopg.errors.UndefinedObject) as error:
            pending.unlink()
            raise StateError(
                f"the role {READER} was not changed: {error.diag.message_primary}. Set DATABASE_URL to a login that "
                "may create and change roles"
            ) from error


def finish(connection: Connection, folder: Path, say: Say) -> None:
    """Complete a change that was killed. The caller holds :func:`rotation.alone`."""
    for unfinished in folder.glob(f".{_PENDING}.*"):
        unfinished.unlink()
    pending = folder / _PENDING
    if pending.exists():
        say(f"{_take(connection, pending)}: has the new password of a change that was interrupted")


def _take(connection: Connection, pending: Path) -> Path:
    """Give the role the password in the file, and the file its final name."""
    password = pending.read_text(encoding="utf-8").strip().rpartition(":")[2]
    # PostgreSQL may log the statement: it gets a hash, from which the password cannot be computed.
    verifier = connection.pgconn.encrypt_password(password.encode(), READER.encode(), b"scram-sha-256").decode()
    statement = sql.SQL("ALTER ROLE {} LOGIN PASSWORD {}").format(sql.Identifier(READER), verifier)
    connection.execute(statement)
    return pending.replace(pending.with_name(PASSFILE))
