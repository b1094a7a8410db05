"""Leases: who does what only one may do (``market_leases``), by the database's clock alone.

Their rows stay, so that the fencing number only grows.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from psycopg.rows import class_row

from marketdata.errors import Conflict
from marketdata.store.pool import Connection

# clock_timestamp, not now: the statement may have waited for another one on the same lease.
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
_IN_FORCE = """
    SELECT name, holder, fencing, expires_at FROM market_leases WHERE name = %s AND expires_at > clock_timestamp()
"""


@dataclass(frozen=True)
class Lease:
    """``fencing`` grows with every taking: what carries a lower one comes from a holder of the past."""

    name: str
    holder: str
    fencing: int
    expires_at: datetime


def take(conn: Connection, name: str, holder: str, seconds: float) -> Lease:
    """Take a lease that is free, or keep one's own for ``seconds`` more; Conflict (``lease_held``) for another's."""
    with conn.cursor(row_factory=class_row(Lease)) as cursor:
        lease = cursor.execute(_TAKE, {"name": name, "holder": holder, "seconds": seconds}).fetchone()
        if lease is None:
            raise _held(cursor.execute(_IN_FORCE, (name,)).fetchone(), name)
    return lease


def release(conn: Connection, name: str, holder: str) -> bool:
    """Give one's lease up; False when there is none of that name in force. Conflict (``lease_held``) for another's."""
    with conn.cursor(row_factory=class_row(Lease)) as cursor:
        if cursor.execute(_RELEASE, (name, holder)).rowcount:
            return True
        other = cursor.execute(_IN_FORCE, (name,)).fetchone()
    if other is not None:
        raise _held(other, name)
    return False


def _held(lease: Lease | None, name: str) -> Conflict:
    if lease is None:  # its holder gave it up a moment ago
        return Conflict(f"the lease {name} has just changed hands; try again", code="lease_held")
    return Conflict(
        f"{lease.holder} holds the lease {name} until {lease.expires_at.isoformat()}",
        code="lease_held",
        extra={"holder": lease.holder},
    )
