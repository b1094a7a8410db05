"""Which version this process serves: the one its settings name, or the current one, which a cutover may change."""

from __future__ import annotations

from marketdata.errors import VersionMissing
from marketdata.settings import Settings
from marketdata.store import registry
from marketdata.store.pool import Connection, Pool
from marketdata.store.version import Version


class ServedVersion:
    """Knows the version once it was found; before that every use asks the database."""

    def __init__(self, settings: Settings, pool: Pool) -> None:
        self._settings = settings
        self._pool = pool
        self._version: Version | None = None

    @property
    def is_named(self) -> bool:
        """Whether the settings name a table or a function; if not, it is the current version."""
        return bool(self._settings.ticks_table or self._settings.candles_function)

    def version(self) -> Version:
        """The version; :class:`VersionMissing` when there is none, or one of the database's errors."""
        version = self._version
        if version is None:
            with self._pool.connection() as connection:
                version = self.find(connection)
            self._version = version
        return version

    def refresh(self, connection: Connection) -> None:
        """Follow a cutover; keep what is served when the registry says nothing."""
        try:
            found = self.find(connection)
        except VersionMissing:
            return
        if found != self._version:
            self._version = found

    def find(self, connection: Connection) -> Version:
        """Ask the registry and look at the tables themselves."""
        return registry.served(connection, self._settings)
