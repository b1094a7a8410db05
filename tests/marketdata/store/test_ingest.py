"""The outcomes of sent ticks, and the rollups, which must always equal those computed from the stored ticks."""

from __future__ import annotations

import random
from collections.abc import Sequence
from decimal import Decimal

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from marketdata.errors import InvalidValue
from marketdata.interval import DAY
from marketdata.store import candles, ticks
from marketdata.store.pool import Connection
from marketdata.store.postgres_errors import translated
from marketdata.store.symbols import Symbol, list_all
from marketdata.store.version import Version
from marketdata.tick import Finalize, Item, Restore, Retract, Tick

from .brute_force import rollups
from .conftest import RELAXED, START, history, insert, new_symbol, stored_rollups, stored_ticks, tick


class Model:
    """The rules of ingest as plain sets."""

    def __init__(self) -> None:
        self.held: dict[str, Tick] = {}
        self.retracted: set[str] = set()

    def apply(self, item: Item) -> str:
        match item:
            case Retract(_, block_hash):
                self.retracted.add(block_hash)
                self.held = {id: each for id, each in self.held.items() if each.block_hash != block_hash}
            case Restore(_, block_hash):
                self.retracted.discard(block_hash)
            case Tick() if item.block_hash in self.retracted:
                return "retracted"
            case Tick() if item.id in self.held:
                stored = self.held[item.id]
                return "duplicate" if as_numbers(stored) == as_numbers(item) else "conflict"
            case Tick():
                self.held[item.id] = item
                return "created"
        return "done"


def as_numbers(tick: Tick) -> tuple[object, ...]:
    return (*tick[:4], Decimal(tick.price), Decimal(tick.size), *tick[6:])


def cut(items: Sequence[Item], rng: random.Random) -> list[Sequence[Item]]:
    places = sorted(rng.sample(range(1, len(items)), min(len(items) - 1, rng.randrange(5)))) if len(items) > 1 else []
    return [items[a:b] for a, b in zip([0, *places], [*places, len(items)], strict=True)]


@settings(**RELAXED)
@given(data=st.data())
def test_outcomes_and_rollups_of_any_sequence(conn: Connection, version: Version, data: st.DataObject) -> None:
    """Duplicates, conflicts, retractions, restores and late ticks in any order and any split into batches."""
    symbol, rng = new_symbol(), data.draw(st.randoms(use_true_random=False))
    sent: list[Item] = list(data.draw(history(symbol, max_size=25)))
    again = data.draw(st.lists(st.sampled_from(sent), max_size=10))
    sent += [
        each._replace(price=each.price + rng.choice(["", "0"]) if "." in each.price else each.price) for each in again
    ]
    sent += [each._replace(seq=each.seq + 5) for each in again[:2]]
    for number in range(data.draw(st.integers(0, 5))):
        kind = Restore if number % 2 else Retract
        sent.append(kind(symbol, f"0xb{rng.randrange(1, 5)}"))
    rng.shuffle(sent)
    model = Model()
    for batch in cut(sent, rng):
        assert ticks.ingest(conn, version, batch).outcomes == [model.apply(item) for item in batch]
        assert stored_rollups(conn, version, symbol) == rollups(model.held.values())


@settings(**RELAXED)
@given(data=st.data())
def test_batches_and_their_order_change_no_result(conn: Connection, version: Version, data: st.DataObject) -> None:
    """The same ticks in other batches and another order make byte-identical rollups; so do plain INSERTs."""
    held = data.draw(history("x", max_size=30))
    rng = data.draw(st.randoms(use_true_random=False))
    made = []
    for way in range(3):
        symbol = new_symbol()
        own = [each._replace(symbol=symbol) for each in held]
        rng.shuffle(own)
        for batch in cut(own, rng):
            if way == 2:
                insert(conn, version, batch)
            else:
                ticks.ingest(conn, version, batch)
        made.append(stored_rollups(conn, version, symbol))
    assert made[0] == made[1] == made[2] == rollups(held)


@settings(**RELAXED)
@given(data=st.data())
def test_plain_deletes_are_followed_too(conn: Connection, version: Version, data: st.DataObject) -> None:
    symbol, other = new_symbol(), new_symbol()
    held = data.draw(history(symbol))
    ticks.ingest(conn, version, [*held, *(each._replace(symbol=other) for each in held)])
    gone = {each.id for each in data.draw(st.lists(st.sampled_from(held)))}
    before = candles.counters(conn, version, [symbol])[symbol].counter
    conn.execute(version.query("DELETE FROM {ticks} WHERE symbol = %s AND id = ANY (%s)"), (symbol, list(gone)))
    left = [each for each in held if each.id not in gone]
    assert stored_rollups(conn, version, symbol) == rollups(left)
    assert stored_rollups(conn, version, other) == rollups(held)
    assert (candles.counters(conn, version, [symbol])[symbol].counter > before) == bool(gone)


def test_items_of_a_batch_are_applied_in_their_order(conn: Connection, version: Version) -> None:
    symbol = new_symbol()
    late = tick(symbol, "a", START, block_number=7, block_hash="h")
    final = Finalize(symbol, 7, START + DAY)
    batch: list[Item] = [late, Retract(symbol, "h"), late, Restore(symbol, "h"), late, final, late]
    outcomes = ["created", "done", "retracted", "done", "created", "done", "duplicate"]
    assert ticks.ingest(conn, version, batch).outcomes == outcomes
    assert ticks.ingest(conn, version, []).outcomes == []
    assert candles.read(conn, version, symbol, "1m").body.count(b'"finalized":true') == 1


def test_only_symbols_with_a_tick_are_listed(conn: Connection, version: Version) -> None:
    """Blocks may be retracted before their ticks arrive, and a mistyped symbol never gets a tick."""
    symbol, mistyped = new_symbol(), new_symbol()
    late = tick(symbol, "late", START, block_number=1, block_hash="h")
    ticks.ingest(
        conn, version, [Retract(symbol, "h"), Retract(mistyped, "h"), Restore(mistyped, "h"), Finalize(mistyped, 1)]
    )

    def listed() -> list[Symbol]:
        return [each for each in list_all(conn, version) if each.symbol in (symbol, mistyped)]

    assert listed() == []
    sent = [late, tick(symbol, "a", START + DAY), tick(symbol, "b", START + 3 * DAY)]
    assert ticks.ingest(conn, version, sent).outcomes == ["retracted", "created", "created"]
    assert listed() == [Symbol(symbol, [], (START + DAY) // 1000, (START + 3 * DAY) // 1000, None)]


def test_ids_of_any_characters(conn: Connection, version: Version) -> None:
    for name in ('"', "\\", "a\\\"b,{}'%", "\u2028", "NULL", "😀", "%s"):
        symbol = new_symbol()
        sent = [tick(symbol, name, START, tx=name, block_number=1, block_hash=name), tick(symbol, "plain", START)]
        assert ticks.ingest(conn, version, sent).outcomes == ["created", "created"], name
        assert sorted(stored_ticks(conn, version, symbol)) == sorted(sent)
        again = ticks.ingest(conn, version, [*sent, Retract(symbol, name)]).outcomes
        assert again == ["duplicate", "duplicate", "done"], name
        assert stored_ticks(conn, version, symbol) == sent[1:]


def test_the_outermost_values_are_kept_exactly(conn: Connection, version: Version) -> None:
    symbol = new_symbol()
    digits = "9" * 30
    sent = [
        tick(symbol, "a", 0, f"{digits}.{digits}", f"{digits}.{digits}", seq=-(2**63)),
        tick(
            symbol, "b", 32_503_680_000_000_000 - 1, "0." + "0" * 29 + "1", "0", seq=2**63 - 1, block_number=2**63 - 1
        ),
    ]
    assert ticks.ingest(conn, version, sent).outcomes == ["created", "created"]
    assert sorted(stored_ticks(conn, version, symbol)) == sorted(sent)
    assert stored_rollups(conn, version, symbol) == rollups(sent)


def test_a_tick_is_never_changed_in_place(conn: Connection, version: Version) -> None:
    symbol = new_symbol()
    ticks.ingest(conn, version, [tick(symbol, "a", START)])
    for change in (
        "UPDATE {ticks} SET price = 2",
        "INSERT INTO {ticks} SELECT * FROM {ticks} ON CONFLICT (symbol, id) DO UPDATE SET price = 2",
        "TRUNCATE {ticks}",
    ):
        with pytest.raises(psycopg.errors.FeatureNotSupported, match="DELETE and INSERT them"):
            conn.execute(version.query(change))
    assert [each.price for each in stored_ticks(conn, version, symbol)] == ["1"]


def test_other_clients_cannot_store_an_invalid_tick(conn: Connection, version: Version) -> None:
    for values in (
        "'x', 'a', '1969-12-31Z', 1, 1", "'x', 'a', '3000-01-01Z', 1, 1", "'x', 'a', 'infinity', 1, 1",
        "'x', 'a', now(), 0, 1", "'x', 'a', now(), 'NaN', 1", "'x', 'a', now(), 'Infinity', 1",
        "'x', 'a', now(), 1, -1", "'x', 'a', now(), 1, 'NaN'",
        "'a \"symbol\"', 'a', now(), 1, 1", "'x', NULL, now(), 1, 1",
    ):  # fmt: skip
        insertion = "INSERT INTO {ticks} (symbol, id, ts, price, size) VALUES (ROW)".replace("ROW", values)
        with pytest.raises(InvalidValue), translated():
            conn.execute(version.query(insertion))


@pytest.mark.plain_only("other roles write to the distributed table: citus/test_direct_writes.py")
def test_another_role_stores_ticks_with_privileges_on_their_table_alone(conn: Connection, version: Version) -> None:
    symbol = new_symbol()
    conn.execute("CREATE ROLE plain_writer")
    conn.execute(version.query("GRANT INSERT, DELETE, SELECT ON {ticks} TO plain_writer"))
    try:
        with conn.transaction():
            conn.execute("SET LOCAL ROLE plain_writer")
            insert(conn, version, [tick(symbol, "a", START), tick(symbol, "b", START)])
            conn.execute(version.query("DELETE FROM {ticks} WHERE symbol = %s AND id = 'a'"), (symbol,))
    finally:
        conn.execute("DROP OWNED BY plain_writer")
        conn.execute("DROP ROLE plain_writer")
    assert stored_rollups(conn, version, symbol) == rollups([tick(symbol, "b", START)])


def test_a_plain_insert_after_an_ingest_in_one_transaction_locks_its_symbol(conn: Connection, version: Version) -> None:
    first = tick(new_symbol(), "a", START)
    sent: list[list[Item]] = [[first], [first, first], [Retract(first.symbol, "h")]]
    for items in sent:
        symbol = new_symbol()
        with conn.transaction():
            ticks.ingest(conn, version, items)
            insert(conn, version, [tick(symbol, "a", START)])
        assert candles.counters(conn, version, [symbol])[symbol].counter == 1, items


def test_temporary_tables_are_not_taken_for_those_of_the_version(conn: Connection, version: Version) -> None:
    """The triggers run as their owner. A client that may INSERT could otherwise make them write to temporary tables of
    its own."""
    symbol = new_symbol()
    with conn.transaction():
        for part in ("rollups", "symbols", "retracted"):
            shape = version.query(
                "CREATE TEMP TABLE {PART} (LIKE {PART} INCLUDING ALL) ON COMMIT DROP".replace("PART", part)
            )
            conn.execute(shape)
        insert(conn, version, [tick(symbol, "a", START), tick(symbol, "b", START)])
        conn.execute(version.query("DELETE FROM {ticks} WHERE symbol = %s AND id = 'a'"), (symbol,))
        ticks.ingest(conn, version, [tick(symbol, "c", START), Retract(symbol, "h")])
    late = tick(symbol, "d", START, block_number=1, block_hash="h")
    assert ticks.ingest(conn, version, [late]).outcomes == ["retracted"]
    assert stored_rollups(conn, version, symbol) == rollups([tick(symbol, "b", START), tick(symbol, "c", START)])
