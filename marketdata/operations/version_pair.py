"""Two versions of a prefix, and statements over the tables of both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import LiteralString, Self

from psycopg import sql

from marketdata.errors import UsageError
from marketdata.store.pool import Connection
from marketdata.store.version import Registered, Version, registered

LEVELS = {60: "1m", 900: "15m", 1800: "30m", 3600: "1h", 14400: "4h", 86400: "1d"}
"""The stored intervals by their level (``res``)."""

_PARTS = (
    "ticks", "rollups", "rollups_1m", "rollups_1d", "symbols", "retracted", "coverage", "changed", "instant", "vwap",
    "pause",
)  # fmt: skip


@dataclass(frozen=True)
class Pair:
    """``source`` is copied or compared with ``target``."""

    source: Version
    target: Version

    @classmethod
    def of(cls, connection: Connection, prefix: str, source: int, target: int) -> Self:
        """Two registered versions, complete and up to date; UsageError when a number names none."""
        known = registered(connection, prefix)
        pair = cls(find(known, prefix, source).version, find(known, prefix, target).version)
        for each in (pair.source, pair.target):
            each.check(connection)
        return pair

    @lru_cache(maxsize=64)  # noqa: B019 - a command has one pair
    def query(self, text: LiteralString) -> bytes:
        """A statement with names like ``{source_ticks}`` and ``{target_ticks}`` replaced by those of the versions."""
        names: dict[str, sql.Composable] = {}
        for side, version in (("source", self.source), ("target", self.target)):
            names |= {f"{side}_{part}": sql.Identifier(version.name(part)) for part in _PARTS}
        return sql.SQL(text).format(**names).as_bytes(None)

    @property
    def tables(self) -> dict[str, str]:
        """The tables of ticks, which name the versions in the tables that all versions share."""
        return {"source": self.source.ticks_table, "target": self.target.ticks_table}


def find(known: Sequence[Registered], prefix: str, n: int) -> Registered:
    """The version with this number; UsageError, with the numbers that exist, when there is none."""
    for each in known:
        if each.n == n:
            return each
    numbers = ", ".join(str(each.n) for each in known) or "none"
    raise UsageError(
        f"version {n}: there is no such version with the prefix {prefix} (existing versions: {numbers}); "
        f"give the number of one of them, or create it with bin/marketdata-version {n}"
    )
