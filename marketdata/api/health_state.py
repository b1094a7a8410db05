"""What this process knows about the health of its databases, and how far the replica is behind the primary.

The positions of both in the write-ahead log are compared: the replica is as old as the newest position of the primary
that it has replayed. The time of the last replayed transaction would not do: it also ages while nothing is written.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from time import monotonic

from marketdata.api.health_check import HealthCheck
from marketdata.errors import MarketError
from marketdata.settings import Settings
from marketdata.store.replication import LogPosition

_SAMPLES = 1800
"""Positions of the primary that are kept, one each check. A replica further behind is older than the reported lag."""


@dataclass(frozen=True)
class Lag:
    """``is_standby`` is False when DATABASE_READ_URL leads to a database that writes, like the primary itself."""

    is_standby: bool
    seconds: float
    bytes: int


class ReplicaLag:
    """``wrote`` is called with each position of the primary, ``replayed`` with each of the replica."""

    def __init__(self) -> None:
        self._primary: deque[tuple[float, int]] = deque(maxlen=_SAMPLES)
        self.current: Lag | None = None
        """As of the last check of the replica; None before."""

    def wrote(self, position: LogPosition) -> None:
        self._primary.append((monotonic(), position.written))

    def replayed(self, position: LogPosition) -> None:
        samples = list(self._primary)
        if not position.is_standby or not samples:
            self.current = Lag(position.is_standby, 0.0, 0)
            return
        missing = [at for at, written in samples if written > position.written]
        # What was written by the first missing sample is younger than the sample before.
        seconds = monotonic() - missing[0] if missing else 0.0
        self.current = Lag(True, round(seconds, 3), max(samples[-1][1] - position.written, 0))


class Health:
    """The checks of the database ``url`` and, where ``DATABASE_READ_URL`` is set, of the replica.

    ``start`` once, ``stop`` any number of times. The other methods never wait for a database.
    """

    def __init__(self, url: str, settings: Settings) -> None:
        self._lag = ReplicaLag()
        self.primary = HealthCheck("database", url, settings)
        self.replica: HealthCheck | None = None
        if settings.database_read_url is not None:
            self.primary = HealthCheck("database", url, settings, self._lag.wrote)
            self.replica = HealthCheck("replica", settings.database_read_url, settings, self._lag.replayed)
        self._checks = [self.primary] if self.replica is None else [self.primary, self.replica]

    def start(self) -> None:
        for check in self._checks:
            check.start()

    def stop(self, timeout: float = 5.0) -> None:
        for check in self._checks:
            check.stop(timeout)

    def wait_for_first(self) -> None:
        """Wait a moment for the first result after the start."""
        for check in self._checks:
            check.wait_for_first()

    def error(self) -> MarketError | None:
        """Why one of the databases is not usable; None when all are."""
        return next((error for check in self._checks if (error := check.error()) is not None), None)

    @property
    def lag(self) -> Lag | None:
        """How far the replica is behind; None without one, and while its last check or that of the primary failed."""
        return self._lag.current if self.error() is None else None

    @property
    def age(self) -> float:
        """Seconds since the end of the oldest of the last checks."""
        return max(check.age for check in self._checks)
