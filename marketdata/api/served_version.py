"""Finds the version that this process serves: the version that the settings name, otherwise the current version, which
may change."""

from __future__ import annotations

from marketdata.errors import VersionMissing
from marketdata.settings import Settings
from marketdata.store.pool import Connection, Pool
from marketdata.store.version import Version, find_served


class ServedVersion:
    """Caches the version once it is found. Until then, every call of ``version`` reads the database."""

    def __init__(self, settings: Settings, pool: Pool) -> None:
        self._settings = settings
        self._pool = pool
        self._version: Version | None = None

    @property
    def is_named(self) -> bool:
        """Whether the settings name a table or a function. Otherwise the current version is served."""
        return bool(self._settings.ticks_table or self._settings.candles_function)

    def version(self) -> Version:
        """Returns the version. Raises :class:`VersionMissing` if it does not exist, or an error of the database."""
        version = self._version
        if version is None:
            with self._pool.connection() as connection:
                version = self.find(connection)
            self._version = version
        return version

    def refresh(self, connection: Connection) -> None:
        """Switch to the current version if it has changed. If no version is registered, keep the present one."""
        try:
            found = self.find(connection)
        except VersionMissing:
            return
        if found != self._version:
            self._version = found

    def find(self, connection: Connection) -> Version:
        """Read the version from the registry and check its tables."""
        return find_served(connection, self._settings)
