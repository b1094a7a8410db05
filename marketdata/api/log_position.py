"""Positions in the write-ahead log of PostgreSQL, and how far a replica is behind the primary by them.

The lag is the age of the oldest recorded position of the primary that the replica has not replayed. The age of the last
replayed transaction cannot be used, because it also grows while nothing is written.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from time import monotonic

from marketdata.store.pool import Connection

_MAX_SAMPLES = 3600
"""Number of the primary's positions that are kept. If a replica is behind all of them, the true lag is larger than
the reported one."""

# The first eight digits of the name of a file of the log are the timeline. A standby does not report such names.
_POSITION = """
    SELECT in_recovery,
           (CASE WHEN in_recovery THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END - '0/0'::pg_lsn)::bigint,
           concat_ws('/', current_setting('marketdata.cluster', true), current_database()),
           pg_postmaster_start_time(),
           CASE WHEN in_recovery THEN received.timeline
                ELSE ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::integer END,
           received.is_streaming
    FROM pg_is_in_recovery() AS in_recovery
    LEFT JOIN (SELECT received_tli, coalesce(status = 'streaming', true) FROM pg_stat_wal_receiver)
        AS received (timeline, is_streaming) ON in_recovery
"""


@dataclass(frozen=True)
class LogPosition:
    """A database's position in the write-ahead log: the end of what a primary has written, or of what a standby has
    replayed.

    ``at`` is the monotonic time before the database was asked, ``written`` the position in bytes from the beginning of
    the log. ``database`` names the cluster and the database in it, and is the same at a replica. ``timeline`` is that
    of the log, at a standby that of the log it receives. It is None if the role may not read it. ``is_receiving`` is
    whether a standby receives log over a connection.
    """

    at: float
    is_standby: bool
    written: int
    database: str
    started_at: datetime
    timeline: int | None
    is_receiving: bool


def log_position(connection: Connection) -> LogPosition:
    """Read the position of this database. The connection must know its cluster
    (:func:`marketdata.store.pool.name_cluster`)."""
    at = monotonic()
    row = connection.execute(_POSITION, prepare=False).fetchone()
    assert row is not None
    is_standby, written, database, started_at, timeline, is_receiving = row
    return LogPosition(at, is_standby, written or 0, database, started_at, timeline, bool(is_receiving))


@dataclass(frozen=True)
class Lag:
    """How far a replica is behind."""

    seconds: float
    bytes: int


class PrimaryLog:
    """The recorded positions of the primary. They are forgotten when the primary's history changes: after a failover,
    or after a restore from a backup."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._samples: deque[tuple[float, int]] = deque(maxlen=_MAX_SAMPLES)
        self.last: LogPosition | None = None
        self.history = 0
        """The number of the present history. A comparison with an earlier history is no longer valid."""

    def record(self, position: LogPosition) -> None:
        last = self.last
        if last is not None and (
            position.written < last.written or (position.database, position.timeline) != (last.database, last.timeline)
        ):
            self._samples = deque(maxlen=_MAX_SAMPLES)
            self.history += 1
        self._samples.append((position.at, position.written))
        self.last = position

    def lag(self, written: int) -> Lag:
        """The lag of a replica that has replayed the log up to ``written``. It is 0 before the first record."""
        samples = list(self._samples)
        missing = [at for at, position in samples if position > written]
        if not missing:
            return Lag(0.0, 0)
        # The first missing record was written after the previous sample, so the true lag is at most an interval longer.
        return Lag(round(self._clock() - missing[0], 3), samples[-1][1] - written)
