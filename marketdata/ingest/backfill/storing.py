"""Records the block ranges that the backfill has stored, in the outbox's file.

A range is recorded after the API has acknowledged its ticks and its coverage. If the process is killed earlier, the
next run reads the range again. The API stores no tick twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from marketdata.ingest.api_writer import Refusal
from marketdata.ingest.backfill.plan import Blocks, Span, merged
from marketdata.ingest.outbox import Outbox, add_dead_letter
from marketdata.source.pools.pool import Pool


class StoredRanges:
    """The block ranges that are stored in one table of ticks. Used by one thread."""

    def __init__(self, outbox: Outbox, ticks_table: str, pools: Iterable[Pool]) -> None:
        self._outbox = outbox
        self._table = ticks_table
        self._addresses = {pool.symbol: pool.address for pool in pools}

    def of(self, symbol: str) -> list[Blocks]:
        """The ranges of a symbol, sorted."""
        rows = self._outbox.rows(
            "SELECT first, last FROM backfilled WHERE ticks_table = ? AND symbol = ? AND address = ? ORDER BY first",
            self._table, symbol, self._addresses[symbol],
        )  # fmt: skip
        return [(first, last) for first, last in rows]

    def add(self, done: Sequence[Span], refusals: Iterable[Refusal]) -> None:
        """Record stored ranges, merged with adjacent ones. Refused ticks become dead letters."""
        with self._outbox.transaction() as transaction:
            for refusal in refusals:
                add_dead_letter(transaction, *refusal)
            for span in merged(done):
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
