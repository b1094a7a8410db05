"""What this process knows about the health of its databases."""

from __future__ import annotations

from marketdata.api.health_check import HealthCheck
from marketdata.api.health_lag import Lag, ReplicaLag
from marketdata.errors import MarketError
from marketdata.settings import Settings


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
