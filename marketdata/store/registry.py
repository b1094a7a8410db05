"""Which versions the database holds, and which of them this process serves."""

from __future__ import annotations

from dataclasses import dataclass

from psycopg.rows import class_row

from marketdata.errors import VersionMissing
from marketdata.settings import Settings
from marketdata.store.pool import Connection


@dataclass(frozen=True)
class Version:
    """A row of ``market_versions``."""

    prefix: str
    n: int
    ticks_table: str
    candles_function: str
    state: str
    is_current: bool


_COLUMNS = "prefix, n, ticks_table, candles_function, state, is_current"


def versions(connection: Connection, prefix: str) -> list[Version]:
    """The versions of a prefix, oldest first."""
    with connection.cursor(row_factory=class_row(Version)) as cursor:
        return cursor.execute(
            f"SELECT {_COLUMNS} FROM market_versions WHERE prefix = %s ORDER BY n", (prefix,)
        ).fetchall()


def served(connection: Connection, settings: Settings) -> Version:
    """The version that ``TICKS_TABLE`` and ``CANDLES_FUNCTION`` name (one may be left out), else the current one.

    :class:`VersionMissing` says what is wrong: nothing of that name, or a function made for another table.
    """
    table, function = settings.ticks_table, settings.candles_function
    with connection.cursor(row_factory=class_row(Version)) as cursor:
        found = cursor.execute(
            f"SELECT {_COLUMNS} FROM market_versions WHERE ticks_table = %(table)s OR candles_function = %(function)s "
            "OR (%(table)s::text IS NULL AND %(function)s::text IS NULL AND prefix = %(prefix)s AND is_current)",
            {"table": table, "function": function, "prefix": settings.prefix},
        ).fetchall()
    made = {version.ticks_table: version for version in found}
    by_function = {version.candles_function: version for version in found}
    if table and table not in made:
        raise VersionMissing(f"TICKS_TABLE={table}: no version has that table; make it with bin/marketdata-version N")
    if function and function not in by_function:
        raise VersionMissing(
            f"CANDLES_FUNCTION={function}: no version has that function; make it with bin/marketdata-version N"
        )
    if table and function and made[table] != by_function[function]:
        raise VersionMissing(
            f"CANDLES_FUNCTION={function} is made for the table {by_function[function].ticks_table}, and "
            f"TICKS_TABLE={table} is another one: take both from the same vN.env"
        )
    if not found:
        raise VersionMissing(
            f"no version with the prefix {settings.prefix} is current: make one with bin/marketdata-version 1, or name "
            "one in TICKS_TABLE and CANDLES_FUNCTION"
        )
    return found[0]
