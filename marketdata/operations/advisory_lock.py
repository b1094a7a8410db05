"""Locks of PostgreSQL for work that only one process may do at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg

from marketdata.errors import AlreadyRunning
from marketdata.store.pool import Connection

_WAIT_S = 5
"""How long a process waits for a lock. A killed process keeps its lock until the server has finished the current
statement."""


@contextmanager
def exclusive(connection: Connection, name: str, held: Callable[[], str]) -> Iterator[None]:
    """Hold the lock ``name`` while the block runs. Raises AlreadyRunning with the message that ``held`` returns if
    another process has it."""
    values = {"name": name}
    try:
        with connection.transaction():
            connection.execute(f"SET LOCAL lock_timeout = '{_WAIT_S}s'")
            connection.execute("SELECT pg_advisory_lock(hashtextextended(%(name)s, 0))", values)
    except psycopg.errors.LockNotAvailable as error:
        raise AlreadyRunning(held()) from error
    try:
        yield
    finally:
        if not connection.closed:
            connection.execute("SELECT pg_advisory_unlock(hashtextextended(%(name)s, 0))", values)
