"""Pruned ticks: their candles stay as they are, and nothing below the line changes any more."""

from __future__ import annotations

from datetime import datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from marketdata.interval import DAY
from marketdata.store import prune, ticks
from marketdata.store.pool import Connection
from marketdata.store.prune import EPOCH, Line
from marketdata.store.symbols import is_known
from marketdata.store.version import Version
from marketdata.tick import Item, Restore, Retract, Tick

from .conftest import RELAXED, START, history, new_symbol, stored_rollups, stored_ticks
from .test_ingest import Model, cut


def moment(us: int) -> datetime:
    return EPOCH + timedelta(microseconds=us)


def pruned(conn: Connection, version: Version, symbol: str, us: int, batch: int = 3) -> int:
    """Prune one symbol before this midnight, whatever is final. Returns the number of deleted ticks."""
    prune.draw(conn, version, Line(symbol, None, moment(us)))
    return sum(count for of in prune.below(conn, version, [symbol]) for count in prune.delete(conn, version, of, batch))


class PrunedModel(Model):
    """The rules with a line."""

    def __init__(self) -> None:
        super().__init__()
        self.line = 0
        self.gone: dict[str, Tick] = {}
        self.numbers: dict[str, int] = {}

    def prune(self, line: int) -> None:
        self.line = max(self.line, line)
        below = {id: each for id, each in self.held.items() if each.ts < self.line}
        self.gone |= below
        self.held = {id: each for id, each in self.held.items() if id not in below}

    def apply(self, item: Item) -> str:
        match item:
            case Tick() if item.ts < self.line:
                return "pruned"
            case Retract(_, block_hash) if self._has_pruned(block_hash):
                return "pruned"
            case Retract(_, block_hash):
                numbers = [each.block_number for each in self.held.values() if each.block_hash == block_hash]
                if block_hash not in self.retracted and numbers:
                    self.numbers[block_hash] = max(number for number in numbers if number is not None)
            case Restore(_, block_hash):
                if self._is_before_the_line(block_hash):
                    return "pruned"
                self.numbers.pop(block_hash, None)
        return super().apply(item)

    def _has_pruned(self, block_hash: str) -> bool:
        return any(each.block_hash == block_hash for each in self.gone.values())

    def _is_before_the_line(self, block_hash: str) -> bool:
        if block_hash not in self.retracted:
            return self._has_pruned(block_hash)
        days = {each.ts // DAY for each in self.gone.values() if each.block_number is not None}
        last = [each.block_number or 0 for each in self.gone.values() if days and each.ts // DAY == max(days)]
        return block_hash in self.numbers and bool(last) and self.numbers[block_hash] <= max(last)


@settings(**RELAXED)
@given(data=st.data())
def test_outcomes_of_any_sequence_with_a_line(conn: Connection, version: Version, data: st.DataObject) -> None:
    """Ticks, retractions and restorations in any order, between prunes: each refused one is named, and the stored
    candles below the line never change."""
    symbol, rng = new_symbol(), data.draw(st.randoms(use_true_random=False))
    sent: list[Item] = list(data.draw(history(symbol, max_size=25)))
    sent += data.draw(st.lists(st.sampled_from(sent), max_size=10))
    for number in range(data.draw(st.integers(0, 8))):
        kind = Restore if number % 2 else Retract
        sent.append(kind(symbol, f"0xb{rng.randrange(1, 6)}"))
    rng.shuffle(sent)
    model, kept = PrunedModel(), []
    for batch in cut(sent, rng):
        assert ticks.ingest(conn, version, batch).outcomes == [model.apply(item) for item in batch]
        assert sorted(stored_ticks(conn, version, symbol)) == sorted(model.held.values())
        if rng.random() < 0.5:
            line = START + rng.randrange(-1, 100) * DAY
            before = len(model.held)
            model.prune(line)
            rows = stored_rollups(conn, version, symbol)
            assert pruned(conn, version, symbol, line) == before - len(model.held)
            assert stored_rollups(conn, version, symbol) == rows
        below = [row for row in stored_rollups(conn, version, symbol) if row[1] < model.line]
        assert set(kept) <= set(below)
        kept = below


def test_a_dropped_symbol_is_not_made_again_by_its_line(conn: Connection, version: Version) -> None:
    symbol = new_symbol()
    prune.draw(conn, version, Line(symbol, None, moment(START)))
    assert not is_known(conn, version, symbol)
