"""Versions of the store: their names, the SQL that creates one, and their registry ``market_versions``.

A version is a table of ticks, ``<prefix>_ticks_vN``, with the tables, functions and triggers that belong to it.
Several versions exist side by side in one database. ``TICKS_TABLE`` and ``CANDLES_FUNCTION`` name the one that a
process serves.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.resources import files
from typing import LiteralString, Self

from psycopg import sql
from psycopg.rows import class_row

from marketdata.errors import UsageError, VersionMissing
from marketdata.interval import LEVELS
from marketdata.settings import MAX_PREFIX, Settings, identifier
from marketdata.store.pool import Connection

SCRIPTS = ("version.sql", "rollups.sql", "ingest.sql", "candles.sql")
"""Scripts in ``store/sql``, in the order in which they run: first tables, then functions and triggers."""

# The functions are created with SET search_path FROM CURRENT. If the path did not name pg_temp, PostgreSQL would search
# temporary tables first. Anybody who may INSERT could then make the triggers, which run as their owner, write to
# temporary tables instead.
_SEARCH_PG_TEMP_LAST = (
    "SELECT set_config('marketdata.path', current_setting('search_path'), true),"
    " set_config('search_path', current_setting('search_path') || ', pg_temp', true);"
)
_RESTORE_SEARCH_PATH = "SELECT set_config('search_path', current_setting('marketdata.path'), true);"

PARTS = (
    "ticks", "ticks_order", "ticks_block", "ticks_guard", "rollups", *(f"rollups_{interval}" for interval in LEVELS),
    "rollups_insert", "rollups_delete", "symbols", "chains", "retracted", "pruned", "coverage", "imports", "candle",
    "candles", "candles_filled", "candles_pieced", "canonical", "canonicals", "chain_of", "lock", "ingest", "cut_at",
    "is_pruned", "retract", "restore", "refuse_pruned", "block_time", "finalize", "finalize_chain", "changed",
    "instant", "ms", "vwap", "bucket_of", "bucket_end", "offset_at", "day_start", "local_day", "first_day", "bounds",
    "opened_in", "ended_in", "buckets", "aliases",
    "lock_here", "keep_here",
)  # fmt: skip
"""The names in braces in the scripts: tables, indexes, triggers and functions. ``aliases`` is the table
``market_aliases``, which all versions share. ``lock_here`` and ``keep_here`` exist only in shards
(``sql/shard.sql``)."""
_TICKS_NAME = re.compile(r"([a-z_][a-z0-9_]*)_ticks_v([1-9][0-9]{0,5})")


def with_safe_search_path(statements: LiteralString) -> LiteralString:
    """``statements`` that create functions, run while ``search_path`` names ``pg_temp`` last."""
    return "\n".join([_SEARCH_PG_TEMP_LAST, statements, _RESTORE_SEARCH_PATH])


def braced(text: str) -> str:
    """``text`` with its braces doubled, so that :meth:`Version.query` leaves them as they are."""
    return text.replace("{", "{{").replace("}", "}}")


@dataclass(frozen=True)
class Version:
    """The names of version ``n`` of ``prefix``. ``candles_function`` may be a custom function. ``shards`` is the number
    of shards if Citus distributes the version (:mod:`marketdata.store.shards`), otherwise None."""

    prefix: str
    n: int
    candles_function: str
    shards: int | None = None

    @classmethod
    def of(cls, prefix: str, n: int) -> Self:
        """Version ``n`` with its default candles function."""
        if n < 1:
            raise UsageError(f"version {n}: the number must be 1 or greater")
        return cls(prefix, n, f"{prefix}_candles_v{n}")

    @classmethod
    def from_names(cls, ticks_table: str, candles_function: str) -> Self:
        """The version that ``TICKS_TABLE`` and ``CANDLES_FUNCTION`` name. Raises UsageError for invalid names."""
        for setting, name in (("TICKS_TABLE", ticks_table), ("CANDLES_FUNCTION", candles_function)):
            try:
                identifier(name)
            except ValueError as error:
                raise UsageError(f"{setting}={name!r}: {error}") from error
        named = _TICKS_NAME.fullmatch(ticks_table)
        if not named or len(named[1]) > MAX_PREFIX:
            raise UsageError(
                f"TICKS_TABLE={ticks_table}: the name must have the form <prefix>_ticks_vN, like md_ticks_v1"
            )
        return cls(named[1], int(named[2]), candles_function)

    @property
    def ticks_table(self) -> str:
        """``<prefix>_ticks_vN``."""
        return self.name("ticks")

    def name(self, part: str) -> str:
        """``<prefix>_<part>_vN``, unquoted."""
        if part == "aliases":
            return "market_aliases"
        return self.candles_function if part == "candles" else f"{self.prefix}_{part}_v{self.n}"

    @property
    def is_placed(self) -> LiteralString:
        """The SQL condition that the tables are those of the version, and no copy that Citus left behind."""
        return "true"

    @property
    def has_own_candles(self) -> bool:
        """Whether the candles function is the version's default one, not a custom one."""
        return self.candles_function == Version.of(self.prefix, self.n).candles_function

    @lru_cache(maxsize=8192)  # noqa: B019 - a process has one or two versions, and their shards, until it ends
    def query(self, text: LiteralString) -> bytes:
        """A statement with the version's names in place of ``{part}``: ``version.query("SELECT * FROM {ticks}")``.

        Literal braces must be doubled (:func:`braced`). ``{is_placed}`` is the condition :attr:`is_placed`.
        """
        names: dict[str, sql.Composable] = {part: sql.Identifier(self.name(part)) for part in PARTS}
        names["is_placed"] = sql.SQL(self.is_placed)
        return sql.SQL(text).format(**names).as_bytes(None)

    @staticmethod
    def scripts() -> LiteralString:
        """The text of all scripts, with names in braces."""
        return "\n".join(map(_read, SCRIPTS))

    def script(self) -> bytes:
        """The statements that create the version. Run them in one transaction. They fail if the version exists.

        The table ``market_aliases`` must exist (:mod:`marketdata.store.migrations`).
        """
        own = Version.of(self.prefix, self.n)
        return own.query(with_safe_search_path(self.scripts()))

    def create(self, conn: Connection) -> None:
        """Create the tables, triggers and functions in one transaction. Raises the driver's DuplicateTable if they
        exist."""
        with conn.transaction():
            conn.execute(self.script(), prepare=False)  # several statements at once cannot be prepared

    def check(self, conn: Connection) -> None:
        """Raise VersionMissing if the table or the function does not exist, and UsageError if they do not belong
        together: the function must return ``SETOF <prefix>_candle_vN``."""
        row = conn.execute(
            """SELECT to_regclass(%(table)s) IS NOT NULL,
                      (SELECT array_agg(CASE WHEN proretset THEN prorettype::regtype::text END)
                       FROM pg_proc WHERE proname = %(function)s AND pg_function_is_visible(oid))""",
            {"table": self.ticks_table, "function": self.candles_function},
        ).fetchone()
        assert row is not None
        has_table, row_types = row
        if not has_table:
            raise VersionMissing(
                f"the database has no table {self.ticks_table}: create it with bin/marketdata-version {self.n}, "
                "or set TICKS_TABLE to another"
            )
        if row_types is None:
            raise VersionMissing(
                f"the database has no function {self.candles_function}: set CANDLES_FUNCTION to a function of "
                f"{self.ticks_table}, like {Version.of(self.prefix, self.n).candles_function}"
            )
        if self.shards is not None and not self.has_own_candles:
            raise UsageError(
                f"CANDLES_FUNCTION={self.candles_function}: {self.ticks_table} is distributed, and its candles are "
                f"computed by {Version.of(self.prefix, self.n).candles_function} of each shard; unset CANDLES_FUNCTION"
            )
        if row_types != [self.name("candle")]:
            raise UsageError(
                f"CANDLES_FUNCTION={self.candles_function} does not belong to TICKS_TABLE={self.ticks_table}: "
                f"it must return SETOF {self.name('candle')}"
            )


@dataclass(frozen=True)
class Registered:
    """A row of ``market_versions``."""

    prefix: str
    n: int
    ticks_table: str
    candles_function: str
    state: str
    is_current: bool
    shards: int | None

    @property
    def version(self) -> Version:
        return replace(Version.from_names(self.ticks_table, self.candles_function), shards=self.shards)


def registered(connection: Connection, prefix: str) -> list[Registered]:
    """The versions of a prefix, oldest first."""
    with connection.cursor(row_factory=class_row(Registered)) as cursor:
        return cursor.execute(
            "SELECT prefix, n, ticks_table, candles_function, state, is_current, shards "
            "FROM market_versions WHERE prefix = %s ORDER BY n",
            (prefix,),
        ).fetchall()


def distributed(connection: Connection) -> list[str]:
    """The ticks tables of the versions that Citus distributes, of all prefixes."""
    if connection.execute("SELECT to_regclass('market_versions')").fetchone() == (None,):
        return []
    rows = connection.execute("SELECT ticks_table FROM market_versions WHERE shards IS NOT NULL ORDER BY ticks_table")
    return [table for (table,) in rows]


def register(connection: Connection, version: Version) -> Registered:
    """Register a version; the first one of its prefix becomes the current one."""
    connection.execute(
        "INSERT INTO market_versions (prefix, n, ticks_table, candles_function, shards, is_current) "
        "SELECT %(prefix)s, %(n)s, %(table)s, %(function)s, %(shards)s, "
        "NOT EXISTS (SELECT FROM market_versions WHERE prefix = %(prefix)s)",
        {
            "prefix": version.prefix,
            "n": version.n,
            "table": version.ticks_table,
            "function": version.candles_function,
            "shards": version.shards,
        },
    )
    return next(each for each in registered(connection, version.prefix) if each.n == version.n)


def find_served(connection: Connection, settings: Settings) -> Version:
    """The version that ``TICKS_TABLE`` and ``CANDLES_FUNCTION`` name, or the current one if both are unset.

    If a registered version has one of the names, the other may be unset. Raises VersionMissing when the table or the
    function does not exist, and UsageError when they do not belong together.
    """
    table, function = settings.ticks_table, settings.candles_function
    row = connection.execute(
        "SELECT ticks_table, candles_function, shards FROM market_versions WHERE CASE "
        "WHEN %(table)s::text IS NOT NULL THEN ticks_table = %(table)s "
        "WHEN %(function)s::text IS NOT NULL THEN candles_function = %(function)s "
        "ELSE prefix = %(prefix)s AND is_current END",
        {"table": table, "function": function, "prefix": settings.prefix},
    ).fetchone()
    if row is None and (table is None or function is None):
        raise _missing(settings)
    own_table, own_function, shards = row or (None, None, None)
    version = replace(Version.from_names(table or own_table, function or own_function), shards=shards)
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


def _read(script: str) -> LiteralString:
    return (files("marketdata.store") / "sql" / script).read_text(encoding="utf-8")
