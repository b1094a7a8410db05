"""How far a database has written, or replayed, the write-ahead log."""

from __future__ import annotations

from dataclasses import dataclass

from marketdata.store.pool import Connection

_POSITION = """
    SELECT in_recovery, (CASE WHEN in_recovery THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END
                         - '0/0'::pg_lsn)::bigint
    FROM pg_is_in_recovery() AS in_recovery
"""


@dataclass(frozen=True)
class LogPosition:
    """``is_standby``: the database replays the log of another one. ``written``: bytes of the log from its beginning."""

    is_standby: bool
    written: int


def log_position(conn: Connection) -> LogPosition:
    """The current position."""
    row = conn.execute(_POSITION, prepare=False).fetchone()
    assert row is not None
    return LogPosition(row[0], row[1] or 0)
