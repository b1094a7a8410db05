"""The pools of the replicas, and the choice among them: the least lagging one that is usable, otherwise the primary."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from marketdata.api.database_health import ReplicaHealth
from marketdata.errors import (
    DatabaseDefect,
    DatabaseExhausted,
    DatabaseStalled,
    DatabaseUnavailable,
    MarketError,
    VersionMissing,
)
from marketdata.store.pool import Connection, Pool

ResultT = TypeVar("ResultT")


def is_of_replica(error: MarketError) -> bool:
    """Whether a read that failed at a replica with this error is sent to the primary. This is so if the replica has
    stopped, has cancelled a statement that conflicted with its replay, or has not replayed a new version yet. It is not
    so if the replica is overloaded, because its reads would then slow down the writes of the primary."""
    return isinstance(error, _OF_REPLICA) and not isinstance(error, DatabaseExhausted)


_OF_REPLICA = (DatabaseUnavailable, DatabaseDefect, VersionMissing)


class Replica(NamedTuple):
    """A host of ``DATABASE_READ_URL``, and the connections to it."""

    health: ReplicaHealth
    pool: Pool


class Replicas:
    """Lends connections for reads that may be as old as ``MARKET_READ_LAG_S``. Thread-safe."""

    def __init__(self, primary: Pool, replicas: Sequence[Replica], process: int | None = None) -> None:
        """``process`` is the number of this process, by default its id."""
        self._primary = primary
        # Several processes begin with different replicas, so that replicas of equal lag share the work.
        first = (os.getpid() if process is None else process) % max(len(replicas), 1)
        self._replicas = [*replicas[first:], *replicas[:first]]

    def __bool__(self) -> bool:
        """Whether reads may go to another database than the primary."""
        return bool(self._replicas)

    def least_lagging(self) -> Pool | None:
        """The pool of the replica to read, or None to read the primary."""
        usable = [
            (lag.seconds, pool)
            for health, pool in self._replicas
            if (lag := health.usable_lag) is not None and not isinstance(pool.error(), DatabaseStalled)
        ]
        return min(usable, key=lambda each: each[0])[1] if usable else None

    @property
    def pool(self) -> Pool:
        """The pool that is read now."""
        return self.least_lagging() or self._primary

    def read(self, read: Callable[[Connection], ResultT]) -> ResultT:
        """Returns what ``read`` returns for a connection to the replica, or to the primary if the replica fails."""
        replica = self.least_lagging()
        if replica is not None:
            try:
                with replica.connection() as connection:
                    return read(connection)
            except MarketError as error:
                if not is_of_replica(error):
                    raise
        with self._primary.connection() as connection:
            return read(connection)

    def error(self) -> MarketError | None:
        """Does what :meth:`Pool.error` does."""
        return self.pool.error()

    def renew(self, connection: Connection) -> None:
        """Does what :meth:`Pool.renew` does, for a connection of any replica."""
        for _, pool in self._replicas:
            pool.renew(connection)

    def close(self, timeout: float) -> None:
        for _, pool in self._replicas:
            pool.close(timeout)
