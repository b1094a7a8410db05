"""``bin/marketdata-drop N``: removes a version's tables and functions, and its ingestors' outboxes on this machine.

The outboxes must be removed, too: with an old outbox, an ingestor would not store again the ticks that it had stored in
the dropped tables.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import NamedTuple

import psycopg
from psycopg import sql

from marketdata.errors import AlreadyRunning, StateError
from marketdata.ingest.lease import locked
from marketdata.ingest.outbox import Outbox, outbox_path
from marketdata.operations.copy import is_copying
from marketdata.operations.version_pair import find
from marketdata.settings import Settings
from marketdata.store import leases, migrations, shards
from marketdata.store.pool import Connection
from marketdata.store.version import PARTS, Version, registered

_LOCK_S = 10
_OUTBOXES = ("ingestor", "demo")
"""The folders in the state directory that contain outboxes."""
_TABLES = ("ticks", "rollups", "symbols", "chains", "retracted", "pruned", "coverage", "imports")


class Contents(NamedTuple):
    """Numbers of the stored ticks and symbols of a version."""

    ticks: int
    symbols: int


def droppable(connection: Connection, prefix: str, n: int) -> Version:
    """Return the version to drop. Raises UsageError if it does not exist, and StateError if it is the current one."""
    entry = find(registered(connection, prefix), prefix, n)
    if entry.is_current:
        raise StateError(
            f"version {n} is the current one and is not dropped: first make another version current "
            "with bin/marketdata-cutover"
        )
    return entry.version


def contents(connection: Connection, version: Version) -> Contents:
    """Count the stored ticks and symbols; both are 0 if the tables are missing."""
    try:
        row = connection.execute(
            version.query("SELECT coalesce(sum(n), 0)::bigint, count(DISTINCT symbol) FROM {rollups} WHERE res = 86400")
        ).fetchone()
    except psycopg.errors.UndefinedTable:
        return Contents(0, 0)
    assert row is not None
    return Contents(*row)


def drop(connection: Connection, settings: Settings, n: int) -> list[Path]:
    """Drop the version in one transaction, and remove its outboxes. Returns the removed files. Raises AlreadyRunning
    while a copy or an ingestor uses the version."""
    prefix = settings.prefix
    version = droppable(connection, prefix, n)
    if version.shards is not None:
        shards.drop_former(connection)
    with _outboxes(settings, version) as files, connection.transaction():
        migrations.lock(connection)
        version = droppable(connection, prefix, n)  # another task may have switched meanwhile
        _refuse_users(connection, version)
        _drop(connection, version)
        # The files are removed before the commit. If the commit fails, an ingestor only reads the chain again.
        for file in files:
            file.unlink(missing_ok=True)
    return files


def _refuse_users(connection: Connection, version: Version) -> None:
    if is_copying(connection, version.prefix):
        raise AlreadyRunning(f"a copy of versions with the prefix {version.prefix} runs: wait for it, or stop it")
    lease = leases.current(connection, f"ingestor-{version.ticks_table}")
    if lease is not None:
        raise AlreadyRunning(
            f"the ingestor {lease.holder} writes to {version.ticks_table}: stop it first (when it was killed, its "
            f"lease ends at {lease.expires_at:%H:%M:%S} UTC)"
        )


@contextmanager
def _outboxes(settings: Settings, version: Version) -> Iterator[list[Path]]:
    """Yield the files of this version's outboxes, and hold the locks of their ingestors and backfills meanwhile."""
    with ExitStack() as locks:
        found: list[Path] = []
        for path in (outbox_path(settings, version.ticks_table, folder) for folder in _OUTBOXES):
            if path.exists() and _belongs(path, version):
                locks.enter_context(locked(path.with_suffix(".lock")))
                locks.enter_context(locked(path.with_name(f"{path.stem}-backfill.lock"), "backfill"))
                # The database's file is removed before its -shm and -wal files. If only these are left, SQLite ignores
                # them.
                found += sorted(path.parent.glob(f"{path.name}*"))
        yield found


def _belongs(path: Path, version: Version) -> bool:
    with closing(Outbox(path, only_reads=True)) as outbox:
        return outbox.rows("SELECT ticks_table FROM identity") == [(version.ticks_table,)]


def _drop(connection: Connection, version: Version) -> None:
    """Drop the functions after the tables whose triggers use them, and before the table ``candle``, which is the row
    type of some functions."""
    shards.limit_lock_waits(connection, _LOCK_S)
    try:
        connection.execute("DELETE FROM market_versions WHERE prefix = %s AND n = %s", (version.prefix, version.n))
        # This comes before the tables, so that an API that has locked the aliases does not wait for a table.
        if version.shards is not None:
            shards.undistribute_aliases(connection)
        connection.execute(_tables(version, *_TABLES))
        values = {"names": _names(version), "has_shards": version.shards is not None}
        if functions := [name for (name,) in connection.execute(_FUNCTIONS, values)]:
            connection.execute(sql.SQL("DROP FUNCTION {}").format(sql.SQL(", ").join(map(sql.SQL, functions))))
        connection.execute(_tables(version, "candle"))
    except shards.LOCK_WAIT_ENDED as error:
        raise StateError(
            f"version {version.n} has been in use for over {_LOCK_S} s; nothing was dropped: stop its API and try again"
        ) from error
    except psycopg.errors.DeadlockDetected as error:
        raise StateError(f"version {version.n} is in use; nothing was dropped: stop its API and try again") from error
    except psycopg.errors.DependentObjectsStillExist as error:
        raise StateError(
            f"nothing was dropped, because other objects need version {version.n}: {error.diag.message_detail}; "
            "drop these first"
        ) from error


def _tables(version: Version, *parts: str) -> sql.Composed:
    """The statement that drops these tables, if they exist."""
    return sql.SQL("DROP TABLE IF EXISTS {}").format(sql.SQL(", ").join(sql.Identifier(version.name(p)) for p in parts))


def _names(version: Version) -> list[str]:
    return [Version.of(version.prefix, version.n).name(part) for part in (*PARTS, "pause")]


_FUNCTIONS = """
    SELECT oid::regprocedure::text FROM pg_proc
    WHERE (proname = ANY (%(names)s) OR %(has_shards)s AND regexp_replace(proname, '_s[0-9]+$', '') = ANY (%(names)s))
      AND pg_function_is_visible(oid)"""
"""The functions of a version, and those of all shards that it has or had (:func:`marketdata.store.shards.placed`)."""
