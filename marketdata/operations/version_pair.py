"""Two versions of a prefix, and statements over the tables of both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import LiteralString, NamedTuple, Self

from psycopg import sql

from marketdata.errors import UsageError
from marketdata.store.pool import Connection
from marketdata.store.version import Registered, Version, registered

_PARTS = (
    "ticks", "rollups", "rollups_1m", "rollups_1d", "symbols", "chains", "retracted", "pruned", "coverage", "changed",
    "instant", "vwap", "lock", "finalize_chain", "is_pruned", "pause",
)  # fmt: skip


class Rows(NamedTuple):
    """Rows of one version, for statements about both, in which ``name`` stands for them in braces. It is replaced by a
    subquery or, where the tables of this version are on another node, by a temporary table. ``select`` names tables of
    one version, like ``{ticks}``. Its first column is the symbol."""

    name: LiteralString
    select: LiteralString
    is_of_target: bool = False


CANDLE_COLUMNS: LiteralString = """
    symbol, res, bucket, open, high, low, close, volume, quote, buy_volume, buy_quote, vwap, n,
    first_ts, first_seq, first_id, last_ts, last_seq, last_id, max_block"""
"""The columns of a stored candle that are not computed from others."""
CHANGED_BY: LiteralString = "xmin::text || (SELECT concat(' ', inet_server_addr(), ' ', inet_server_port()))"
"""Which transaction has written a row, on which node. Each node counts its own transactions."""
SOURCE_SYMBOLS, TARGET_SYMBOLS = (
    Rows(name, "SELECT symbol, finalized_block, final_until, pruned_until FROM {symbols}", is_of_target)
    for name, is_of_target in (("source_all_symbols", False), ("target_all_symbols", True))
)
"""The state of all symbols."""
SOURCE_RETRACTED = Rows("source_all_retracted", "SELECT symbol, block_hash, block_number FROM {retracted}")


@dataclass(frozen=True)
class Pair:
    """Two versions. ``source`` is copied to ``target``, or compared with it."""

    source: Version
    target: Version

    @classmethod
    def of(cls, connection: Connection, prefix: str, source: int, target: int) -> Self:
        """Check and pair two registered versions. Raises UsageError if a number is not registered."""
        known = registered(connection, prefix)
        pair = cls(find(known, prefix, source).version, find(known, prefix, target).version)
        for each in (pair.source, pair.target):
            each.check(connection)
        return pair

    @lru_cache(maxsize=1024)  # noqa: B019 - a command has one pair, or one for each shard of the target
    def query(self, text: LiteralString, inline: tuple[Rows, ...] = (), staged: tuple[Rows, ...] = ()) -> bytes:
        """A statement in which names like ``{source_ticks}`` are replaced by the names of the versions, and the names
        of rows by subqueries (``inline``) or by temporary tables (``staged``)."""
        names: dict[str, sql.Composable] = {}
        for side, version in (("source", self.source), ("target", self.target)):
            names |= {f"{side}_{part}": sql.Identifier(version.name(part)) for part in _PARTS}
        for rows in inline:
            version = self.target if rows.is_of_target else self.source
            names[rows.name] = sql.SQL("({})").format(sql.SQL(version.query(rows.select).decode()))
        names |= {rows.name: sql.Identifier("pg_temp", rows.name) for rows in staged}
        return sql.SQL(text).format(**names).as_bytes(None)

    @property
    def is_distributed(self) -> bool:
        """Whether Citus distributes at least one of the two versions."""
        return (self.source.shards, self.target.shards) != (None, None)

    @property
    def tables(self) -> dict[str, str]:
        """The names of the ticks tables. The tables ``market_copied_…`` identify versions by these names."""
        return {"source": self.source.ticks_table, "target": self.target.ticks_table}


def find(known: Sequence[Registered], prefix: str, n: int) -> Registered:
    """Return the version with this number. If there is none, raises UsageError with the numbers that exist."""
    for each in known:
        if each.n == n:
            return each
    numbers = ", ".join(str(each.n) for each in known) or "none"
    raise UsageError(
        f"version {n}: there is no such version with the prefix {prefix} (existing versions: {numbers}); "
        f"give the number of one of them, or create it with bin/marketdata-version {n}"
    )
