"""A restore that has begun and has not ended: the table ``market_restore`` with one row.

It is created in the empty database before anything is restored, and dropped in the last transaction of the restore.
While it exists no task creates or upgrades anything in the database, and the same restore can go on.
"""

from __future__ import annotations

from typing import NamedTuple

from marketdata.errors import StateError
from marketdata.store.pool import Connection

TABLE = "market_restore"


class Unfinished(NamedTuple):
    """The backup that is being restored: its folder, and the SHA-256 of its manifest."""

    folder: str
    digest: str


def begin(connection: Connection, backup: Unfinished) -> None:
    with connection.transaction():
        connection.execute("CREATE TABLE market_restore (folder text NOT NULL, digest text NOT NULL)")
        connection.execute("INSERT INTO market_restore VALUES (%s, %s)", backup)


def end(connection: Connection) -> None:
    """Call it in the transaction that completes the restore."""
    connection.execute("DROP TABLE market_restore")


def unfinished(connection: Connection) -> Unfinished | None:
    """The restore that has not ended."""
    row = connection.execute("SELECT to_regclass('market_restore') IS NOT NULL").fetchone()
    if row != (True,):
        return None
    found = connection.execute("SELECT folder, digest FROM market_restore").fetchone()
    return None if found is None else Unfinished(*found)


def refuse_unfinished(connection: Connection) -> None:
    """StateError while a restore has not ended."""
    if (found := unfinished(connection)) is not None:
        raise StateError(
            f"the restore of {found.folder} into this database has not ended: wait for it, or, if it was interrupted, "
            f"run bin/marketdata-restore {found.folder} again",
            code="restoring",
        )
