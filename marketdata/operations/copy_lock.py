"""The lock that lets one copy at a time run for a prefix; others ask for it to know whether one runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from marketdata.errors import AlreadyRunning
from marketdata.store.pool import Connection

_KEY = "hashtextextended('marketdata copy ' || %(prefix)s, 0)"
_WAIT_S = 5
"""The server notices only after its current statement that a copy was killed."""


@contextmanager
def copying(connection: Connection, prefix: str) -> Iterator[None]:
    """Hold the lock; AlreadyRunning while another copy does."""
    values = {"prefix": prefix}
    try:
        with connection.transaction():
            connection.execute(f"SET LOCAL lock_timeout = '{_WAIT_S}s'")
            connection.execute(f"SELECT pg_advisory_lock({_KEY})", values)
    except psycopg.errors.LockNotAvailable as error:
        raise AlreadyRunning(
            f"another copy of versions with the prefix {prefix} runs: wait for it, or stop it"
        ) from error
    try:
        yield
    finally:
        if not connection.closed:
            connection.execute(f"SELECT pg_advisory_unlock({_KEY})", values)


def is_copying(connection: Connection, prefix: str) -> bool:
    """Whether a copy runs. If not, none begins before the caller's transaction ends."""
    row = connection.execute(f"SELECT pg_try_advisory_xact_lock({_KEY})", {"prefix": prefix}).fetchone()
    return row is not None and not row[0]
