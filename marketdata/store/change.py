"""A change of stored candles, as the transaction that makes it notifies it (``sql/rollups.sql``); pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Self

Kind = Literal["stored", "removed", "final"]


@dataclass(frozen=True, slots=True)
class Change:
    """Ticks of ``symbol`` with ``first`` <= ts <= ``last`` (microseconds) were stored or removed, or the candles of
    that time became final. ``table`` is the quoted name of the table of ticks."""

    table: str
    symbol: str
    first: int
    last: int
    kind: Kind

    @classmethod
    def parsed(cls, payload: str) -> Self:
        """The change that the function ``changed`` wrote as ``payload``."""
        table, symbol, first, last, kind = payload.split(" ")
        return cls(table, symbol, int(first), int(last), kind)  # type: ignore[arg-type]

    def is_of(self, ticks_table: str) -> bool:
        return self.table == f'"{ticks_table}"'
