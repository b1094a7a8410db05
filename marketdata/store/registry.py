"""``market_versions``: the versions in the database, and the one that a process serves."""

from __future__ import annotations

from dataclasses import dataclass

from psycopg.rows import class_row

from marketdata.errors import VersionMissing
from marketdata.settings import Settings
from marketdata.store.pool import Connection
from marketdata.store.version import Version


@dataclass(frozen=True)
class Registered:
    """A row of ``market_versions``."""

    prefix: str
    n: int
    ticks_table: str
    candles_function: str
    state: str
    is_current: bool

    @property
    def version(self) -> Version:
        return Version.from_names(self.ticks_table, self.candles_function)


def registered(connection: Connection, prefix: str) -> list[Registered]:
    """The versions of a prefix, oldest first."""
    with connection.cursor(row_factory=class_row(Registered)) as cursor:
        return cursor.execute(
            "SELECT prefix, n, ticks_table, candles_function, state, is_current "
            "FROM market_versions WHERE prefix = %s ORDER BY n",
            (prefix,),
        ).fetchall()


def register(connection: Connection, version: Version) -> Registered:
    """Register a version; the first one of its prefix becomes the current one."""
    connection.execute(
        "INSERT INTO market_versions (prefix, n, ticks_table, candles_function, is_current) "
        "SELECT %(prefix)s, %(n)s, %(table)s, %(function)s, "
        "NOT EXISTS (SELECT FROM market_versions WHERE prefix = %(prefix)s)",
        {
            "prefix": version.prefix,
            "n": version.n,
            "table": version.ticks_table,
            "function": version.candles_function,
        },
    )
    return next(each for each in registered(connection, version.prefix) if each.n == version.n)


def served(connection: Connection, settings: Settings) -> Version:
    """The version that ``TICKS_TABLE`` and ``CANDLES_FUNCTION`` name, else the current one of the prefix.

    One of the two names suffices if it is that of a registered version. VersionMissing when they do not exist,
    UsageError when they do not belong together.
    """
    table, function = settings.ticks_table, settings.candles_function
    if table is None or function is None:
        row = connection.execute(
            "SELECT ticks_table, candles_function FROM market_versions WHERE CASE "
            "WHEN %(table)s::text IS NOT NULL THEN ticks_table = %(table)s "
            "WHEN %(function)s::text IS NOT NULL THEN candles_function = %(function)s "
            "ELSE prefix = %(prefix)s AND is_current END",
            {"table": table, "function": function, "prefix": settings.prefix},
        ).fetchone()
        if row is None:
            raise _missing(settings)
        table, function = row
    version = Version.from_names(table, function)
    version.check(connection)
    return version


def _missing(settings: Settings) -> VersionMissing:
    if settings.ticks_table or settings.candles_function:
        named = f"TICKS_TABLE={settings.ticks_table}" if settings.ticks_table else ""
        named = named or f"CANDLES_FUNCTION={settings.candles_function}"
        return VersionMissing(f"{named} belongs to no registered version: create one with bin/marketdata-version N")
    return VersionMissing(
        f"there is no current version with the prefix {settings.prefix}: create one with bin/marketdata-version 1, or "
        "set TICKS_TABLE and CANDLES_FUNCTION"
    )
