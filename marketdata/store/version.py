"""The names of one version of the store, and the SQL that makes it.

A version is a table of ticks, ``<prefix>_ticks_vN``, and all that is named after it. Versions live side by side in one
database. ``TICKS_TABLE`` and ``CANDLES_FUNCTION`` name the two parts that a process serves.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any, LiteralString, Self

from psycopg import Connection, sql

from marketdata.errors import UsageError, VersionMissing
from marketdata.settings import PREFIX_MAX, identifier

SCRIPTS = ("version.sql", "rollups.sql", "ingest.sql", "candles.sql")
"""The scripts of a version in their order (``store/sql``)."""

# A function keeps the path that it is made with. Where that does not name pg_temp, temporary tables are found before
# all others: whoever may INSERT would have the triggers, which run as their owner, write to tables of his own.
_TEMPORARY_LAST = (
    "SELECT set_config('marketdata.path', current_setting('search_path'), true),"
    " set_config('search_path', current_setting('search_path') || ', pg_temp', true);"
)
_PATH_AS_BEFORE = "SELECT set_config('search_path', current_setting('marketdata.path'), true);"

_PARTS = (
    "ticks", "ticks_order", "ticks_block", "ticks_guard", "rollups", "rollups_1m", "rollups_15m", "rollups_30m",
    "rollups_1h", "rollups_4h", "rollups_1d", "rollups_insert", "rollups_delete", "symbols",
    "retracted", "coverage", "candle", "candles", "candles_filled", "candles_pieced", "canonical", "lock", "ingest",
    "retract", "restore", "finalize", "instant", "ms", "vwap", "bucket_of", "bucket_end",
)  # fmt: skip
_TICKS_NAME = re.compile(r"([a-z_][a-z0-9_]*)_ticks_v([1-9][0-9]{0,5})")


def braced(text: str) -> str:
    """``text`` for a statement of :meth:`Version.query`, in which its braces are to stay."""
    return text.replace("{", "{{").replace("}", "}}")


@dataclass(frozen=True)
class Version:
    """Names of version ``n`` of ``prefix``; ``candles_function`` is the one that makes the candles of its ticks."""

    prefix: str
    n: int
    candles_function: str

    @classmethod
    def of(cls, prefix: str, n: int) -> Self:
        """The version with the names that :mod:`marketdata.bootstrap` gives."""
        if n < 1:
            raise UsageError(f"version {n}: versions count from 1")
        return cls(prefix, n, f"{prefix}_candles_v{n}")

    @classmethod
    def from_names(cls, ticks_table: str, candles_function: str) -> Self:
        """The version that ``TICKS_TABLE`` and ``CANDLES_FUNCTION`` name; UsageError for names that cannot be one's."""
        for setting, name in (("TICKS_TABLE", ticks_table), ("CANDLES_FUNCTION", candles_function)):
            try:
                identifier(name)
            except ValueError as error:
                raise UsageError(f"{setting}={name!r}: {error}") from error
        named = _TICKS_NAME.fullmatch(ticks_table)
        if not named or len(named[1]) > PREFIX_MAX:
            raise UsageError(
                f"TICKS_TABLE={ticks_table}: a table of ticks is named <prefix>_ticks_vN, like md_ticks_v1"
            )
        return cls(named[1], int(named[2]), candles_function)

    @property
    def ticks_table(self) -> str:
        """``<prefix>_ticks_vN``."""
        return self.name("ticks")

    def name(self, part: str) -> str:
        """``<prefix>_<part>_vN``, unquoted."""
        return self.candles_function if part == "candles" else f"{self.prefix}_{part}_v{self.n}"

    @property
    def has_own_candles(self) -> bool:
        """Whether the candles function is the version's own, and not one that ``CANDLES_FUNCTION`` names instead."""
        return self.candles_function == Version.of(self.prefix, self.n).candles_function

    @lru_cache(maxsize=256)  # noqa: B019 - a process has a version or two, and they live as long as it does
    def query(self, text: LiteralString) -> bytes:
        """A statement with its ``{part}`` placeholders filled in: ``version.query("SELECT * FROM {ticks}")``.

        Braces that are meant as such are doubled (:func:`braced`).
        """
        names: dict[str, sql.Composable] = {part: sql.Identifier(self.name(part)) for part in _PARTS}
        return sql.SQL(text).format(**names).as_bytes(None)

    def script(self) -> bytes:
        """The statements that make the version; they fail on one that exists and belong into one transaction.

        ``market_aliases`` has to be there (:mod:`marketdata.bootstrap.database` makes it).
        """
        folder = files("marketdata.store") / "sql"
        own = Version.of(self.prefix, self.n)
        texts = [(folder / name).read_text(encoding="utf-8") for name in SCRIPTS]
        return own.query("\n".join([_TEMPORARY_LAST, *texts, _PATH_AS_BEFORE]))

    def create(self, conn: Connection[Any]) -> None:
        """Make the tables, triggers and functions in one transaction; the driver's DuplicateTable if they are there."""
        with conn.transaction():
            conn.execute(self.script(), prepare=False)  # several statements at once cannot be prepared

    def check(self, conn: Connection[Any]) -> None:
        """VersionMissing when the table or the function is not there, UsageError when they do not belong together.

        What ties a function to a table is its row type: ``SETOF <prefix>_candle_vN``.
        """
        row = conn.execute(
            """SELECT to_regclass(%(table)s) IS NOT NULL,
                      (SELECT array_agg(CASE WHEN proretset THEN prorettype::regtype::text END)
                       FROM pg_proc WHERE proname = %(function)s AND pg_function_is_visible(oid)),
                      EXISTS (SELECT FROM pg_index  -- one that holds values beside its key
                              WHERE indrelid = to_regclass(%(half_hours)s) AND indnatts > indnkeyatts)""",
            {"table": self.ticks_table, "function": self.candles_function, "half_hours": self.name("rollups_30m")},
        ).fetchone()
        assert row is not None
        there, returned, is_of_today = row
        if not there:
            raise VersionMissing(
                f"there is no table {self.ticks_table} in the database: bin/marketdata-version {self.n} makes it, "
                "or TICKS_TABLE names another"
            )
        if returned is None:
            raise VersionMissing(
                f"there is no function {self.candles_function} in the database: CANDLES_FUNCTION names one of "
                f"{self.ticks_table}, like {Version.of(self.prefix, self.n).candles_function}"
            )
        if returned != [self.name("candle")]:
            raise UsageError(
                f"CANDLES_FUNCTION={self.candles_function} is not made for TICKS_TABLE={self.ticks_table}: "
                f"it would have to return SETOF {self.name('candle')}"
            )
        if not is_of_today:
            raise VersionMissing(
                f"{self.ticks_table} was made by an earlier release: bin/marketdata-version {self.n + 1} makes a "
                "version of this one, to be filled from the source anew"
            )
