"""``bin/marketdata-drop N``: removes the tables and functions of a version, and the outboxes of its ingestors on this
machine. With an old outbox, an ingestor would skip the ticks that it had stored in the dropped tables."""

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
from marketdata.store import leases, migrations
from marketdata.store.pool import Connection
from marketdata.store.version import PARTS, Version, registered

_LOCK_S = 10
_OUTBOXES = ("ingestor", "demo")
"""Folders in the state directory."""
_TABLES = ("ticks", "rollups", "symbols", "retracted", "coverage")


class Held(NamedTuple):
    """What the tables of a version hold."""

    ticks: int
    symbols: int


def droppable(connection: Connection, prefix: str, n: int) -> Version:
    """The version; UsageError when it does not exist, StateError when it is the current one."""
    entry = find(registered(connection, prefix), prefix, n)
    if entry.is_current:
        raise StateError(
            f"version {n} is the current one, and is not dropped: first make another one current "
            "with bin/marketdata-cutover"
        )
    return entry.version


def held(connection: Connection, version: Version) -> Held:
    """Nothing, when its tables are missing."""
    try:
        row = connection.execute(
            version.query("SELECT coalesce(sum(n), 0)::bigint, count(DISTINCT symbol) FROM {rollups} WHERE res = 86400")
        ).fetchone()
    except psycopg.errors.UndefinedTable:
        return Held(0, 0)
    assert row is not None
    return Held(*row)


def drop(connection: Connection, settings: Settings, n: int) -> list[Path]:
    """Drop the version, in one transaction; returns the files that were removed. AlreadyRunning while a copy or an
    ingestor uses the version."""
    prefix = settings.prefix
    version = droppable(connection, prefix, n)
    with _outboxes(settings, version) as files, connection.transaction():
        migrations.lock(connection)
        version = droppable(connection, prefix, n)  # another task may have switched meanwhile
        _refuse_users(connection, version)
        _drop(connection, version)
        connection.execute("DELETE FROM market_versions WHERE prefix = %s AND n = %s", (prefix, n))
        # Before the commit: were the drop undone, an ingestor would only read the chain again.
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
    """The files of the outboxes for this version, locked as an ingestor and a backfill lock them."""
    with ExitStack() as locks:
        found: list[Path] = []
        for path in (outbox_path(settings, version.ticks_table, folder) for folder in _OUTBOXES):
            if path.exists() and _belongs(path, version):
                locks.enter_context(locked(path.with_suffix(".lock")))
                locks.enter_context(locked(path.with_name(f"{path.stem}-backfill.lock"), "backfill"))
                # The file of the database before its -shm and -wal: SQLite does not read these into a new one.
                found += sorted(path.parent.glob(f"{path.name}*"))
        yield found


def _belongs(path: Path, version: Version) -> bool:
    with closing(Outbox(path, only_reads=True)) as outbox:
        return outbox.rows("SELECT ticks_table FROM identity") == [(version.ticks_table,)]


def _drop(connection: Connection, version: Version) -> None:
    """The functions between the tables: triggers need them, and they need the row type of the candles."""
    connection.execute(f"SET LOCAL lock_timeout = '{_LOCK_S}s'")
    try:
        connection.execute(_tables(version, *_TABLES))
        for (function,) in connection.execute(_FUNCTIONS, (_names(version),)).fetchall():
            connection.execute(sql.SQL("DROP FUNCTION {}").format(sql.SQL(function)))
        connection.execute(_tables(version, "candle"))
    except psycopg.errors.LockNotAvailable as error:
        raise StateError(
            f"version {version.n} has been in use for over {_LOCK_S} s; nothing was dropped: stop its API and try again"
        ) from error
    except psycopg.errors.DependentObjectsStillExist as error:
        raise StateError(
            f"nothing was dropped, since other objects need version {version.n}: {error.diag.message_detail}; "
            "drop these first"
        ) from error


def _tables(version: Version, *parts: str) -> sql.Composed:
    """Also of a version that has lost some of its tables."""
    return sql.SQL("DROP TABLE IF EXISTS {}").format(sql.SQL(", ").join(sql.Identifier(version.name(p)) for p in parts))


def _names(version: Version) -> list[str]:
    return [Version.of(version.prefix, version.n).name(part) for part in (*PARTS, "pause")]


_FUNCTIONS = "SELECT oid::regprocedure::text FROM pg_proc WHERE proname = ANY (%s) AND pg_function_is_visible(oid)"
