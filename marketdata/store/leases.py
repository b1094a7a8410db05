"""Leases (``market_leases``): each has at most one holder at a time. Expiry is measured by the database's clock.

Rows are never deleted, so that the fencing number of a lease only increases.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from psycopg.rows import class_row

from marketdata.errors import Conflict
from marketdata.store.pool import Connection

# clock_timestamp() instead of now(): the statement may have waited for a lock on the row.
_TAKE = """
    INSERT INTO market_leases AS l (name, holder, fencing, expires_at)
    VALUES (%(name)s, %(holder)s, 1, clock_timestamp() + make_interval(secs => %(seconds)s))
    ON CONFLICT (name) DO UPDATE SET
        fencing = l.fencing + (l.holder <> excluded.holder OR l.expires_at <= clock_timestamp())::int,
        holder = excluded.holder,
        expires_at = clock_timestamp() + make_interval(secs => %(seconds)s)
    WHERE l.holder = excluded.holder OR l.expires_at <= clock_timestamp()
    RETURNING name, holder, fencing, expires_at
"""
_RELEASE = """
    UPDATE market_leases SET expires_at = '-infinity'
    WHERE name = %s AND holder = %s AND expires_at > clock_timestamp()
"""
_CURRENT = """
    SELECT name, holder, fencing, expires_at FROM market_leases WHERE name = %s AND expires_at > clock_timestamp()
"""


@dataclass(frozen=True)
class Lease:
    """A lease that is held. ``fencing`` is a fencing token: it increases with every new holder, so a lower number
    belongs to a former holder."""

    name: str
    holder: str
    fencing: int
    expires_at: datetime


def take(conn: Connection, name: str, holder: str, seconds: float) -> Lease:
    """Take a free lease for ``seconds``, or extend it if ``holder`` has it. Raises Conflict (``lease_held``) if another
    holder has it."""
    with conn.cursor(row_factory=class_row(Lease)) as cursor:
        lease = cursor.execute(_TAKE, {"name": name, "holder": holder, "seconds": seconds}).fetchone()
        if lease is None:
            raise _held(cursor.execute(_CURRENT, (name,)).fetchone(), name)
    return lease


def release(conn: Connection, name: str, holder: str) -> bool:
    """Release the lease of ``holder``. Returns False if nobody has it; raises Conflict (``lease_held``) if another
    holder has it."""
    with conn.cursor(row_factory=class_row(Lease)) as cursor:
        if cursor.execute(_RELEASE, (name, holder)).rowcount:
            return True
        other = cursor.execute(_CURRENT, (name,)).fetchone()
    if other is not None:
        raise _held(other, name)
    return False


def current(conn: Connection, name: str) -> Lease | None:
    """The lease, or None if nobody holds it."""
    with conn.cursor(row_factory=class_row(Lease)) as cursor:
        return cursor.execute(_CURRENT, (name,)).fetchone()


def _held(lease: Lease | None, name: str) -> Conflict:
    if lease is None:  # released between the two statements
        return Conflict(f"the lease {name} was released just now; try again", code="lease_held")
    return Conflict(
        f"{lease.holder} holds the lease {name} until {lease.expires_at.isoformat()}",
        code="lease_held",
        extra={"holder": lease.holder},
    )
