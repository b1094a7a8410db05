"""What the backfill stored, a part of the outbox's file. A range is entered when the API acknowledged its ticks and its
coverage, so that a process that is killed in between reads it again and stores nothing twice."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from marketdata.ingest.backfill.plan import Blocks, Span
from marketdata.ingest.outbox import Outbox, add_dead_letter
from marketdata.source.rpc_file import Pool


class Refusal(NamedTuple):
    """A tick, as JSON, that the API refused to store."""

    body: str
    code: str
    detail: str


class Backfilled:
    """The ranges of one table of ticks; used by one thread."""

    def __init__(self, outbox: Outbox, ticks_table: str, pools: Iterable[Pool]) -> None:
        self._outbox = outbox
        self._table = ticks_table
        self._addresses = {pool.symbol: pool.address for pool in pools}

    def ranges(self, symbol: str) -> list[Blocks]:
        """In order."""
        rows = self._outbox.rows(
            "SELECT first, last FROM backfilled WHERE ticks_table = ? AND symbol = ? AND address = ? ORDER BY first",
            self._table, symbol, self._addresses[symbol],
        )  # fmt: skip
        return [(first, last) for first, last in rows]

    def enter(self, done: Sequence[Span], refusals: Iterable[Refusal]) -> None:
        """Ranges are done; what the API refused of them becomes dead letters."""
        with self._outbox.transaction() as transaction:
            for refusal in refusals:
                add_dead_letter(transaction, *refusal)
            for span in done:
                for symbol in span.symbols:
                    key = (self._table, symbol, self._addresses[symbol])
                    touching = transaction.execute(
                        "DELETE FROM backfilled WHERE ticks_table = ? AND symbol = ? AND address = ? "
                        "AND first <= ? AND last >= ? RETURNING first, last",
                        (*key, span.last + 1, span.first - 1),
                    ).fetchall()
                    first = min([span.first, *(row[0] for row in touching)])
                    last = max([span.last, *(row[1] for row in touching)])
                    transaction.execute("INSERT INTO backfilled VALUES (?, ?, ?, ?, ?)", (*key, first, last))
