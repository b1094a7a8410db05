"""One moment of the database and the outboxes.

An ingestor removes an item from its outbox when the API has stored it. Were the outbox copied after the database, such
an item could be in neither; were it copied before, the database could hold blocks that the ingestor does not know, and
would not retract after a reorganisation. So writers wait while the outboxes are copied, for some milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg
from psycopg import sql

from marketdata.errors import StateError
from marketdata.store.pool import Connection, connect
from marketdata.store.version import Version

LOCK_S, TRIES = 3, 10
"""While this waits for a long write to end, other writers wait behind it."""

_NAME = "marketdata-backup"
_VERSIONS = "SELECT ticks_table, candles_function FROM market_versions WHERE to_regclass(ticks_table) IS NOT NULL"


@contextmanager
def moment(url: str, copy: Callable[[], None]) -> Iterator[str]:
    """Calls ``copy`` while nothing is written; the block gets the name of a snapshot of the database as it was then."""
    with connect(url, application_name=_NAME) as reader:
        reader.execute("SET idle_in_transaction_session_timeout = 0")  # pg_dump may take hours
        with connect(url, application_name=_NAME) as locker, locker.transaction():
            _hold_writers(locker)
            reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            row = reader.execute("SELECT pg_export_snapshot()").fetchone()
            copy()
        assert row is not None
        yield str(row[0])
        reader.execute("ROLLBACK")


def _hold_writers(connection: Connection) -> None:
    """Until the caller's transaction ends. Every write of ticks begins with the table of symbols."""
    versions = [Version.from_names(*row) for row in connection.execute(_VERSIONS).fetchall()]
    tables = [each.name(part) for part in ("symbols", "coverage") for each in versions]
    if not tables:
        return
    statement = sql.SQL("LOCK TABLE {} IN SHARE MODE").format(sql.SQL(", ").join(map(sql.Identifier, tables)))
    connection.execute(f"SET LOCAL lock_timeout = '{LOCK_S}s'")
    for _ in range(TRIES):
        try:
            with connection.transaction():
                connection.execute(statement)
            return
        except psycopg.errors.LockNotAvailable:
            continue
    raise StateError(f"a write has been running for over {LOCK_S * TRIES} s: make the backup when it has ended")
