"""What of a version the GraphQL engine serves, and whether it does."""

from __future__ import annotations

from typing import NamedTuple

from marketdata.graphql.engine import Name, Tracked
from marketdata.store.pool import Connection
from marketdata.store.version import Version

TABLES = ("ticks", "symbols", "coverage", "candle")
"""The tables with what the HTTP API shows, too. ``candle`` is empty: Hasura tracks a function only when it returns rows
of a tracked table."""

_SCHEMAS = """
    SELECT of_tables.nspname, of_function.nspname
    FROM pg_class JOIN pg_namespace of_tables ON of_tables.oid = relnamespace,
         pg_proc JOIN pg_namespace of_function ON of_function.oid = pronamespace
    WHERE pg_class.oid = to_regclass(%s) AND proname = %s AND pg_function_is_visible(pg_proc.oid)"""


class Schemas(NamedTuple):
    """Where the tables of a version are, and where its candles function is."""

    tables: str
    function: str


def schemas(connection: Connection, version: Version) -> Schemas:
    """The version must exist."""
    row = connection.execute(_SCHEMAS, (version.ticks_table, version.candles_function)).fetchone()
    assert row is not None, "the version was checked"
    return Schemas(*row)


def untracked(version: Version, where: Schemas, tracked: Tracked) -> list[str]:
    """Which of the table of ticks and the candles function the engine does not track, like ``table public.a``."""
    table = Name(where.tables, version.ticks_table)
    function = Name(where.function, version.candles_function)
    missing = [] if table in tracked.tables else [f"table {'.'.join(table)}"]
    return missing if function in tracked.functions else [*missing, f"function {'.'.join(function)}"]
