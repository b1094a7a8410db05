"""Finality and coverage that are reported for a whole chain: their effect on its symbols, and how little they write."""

from __future__ import annotations

import random
import threading
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from marketdata.interval import DAY, SECOND, WIDTHS, Zone, bucket_open
from marketdata.store import candles, coverage, symbols, ticks
from marketdata.store.coverage import Range
from marketdata.store.notifications import Change
from marketdata.store.pool import Connection, connect
from marketdata.store.version import Version
from marketdata.tick import Finalize, FinalizeChain, Item, Retract, Tick, chain_of
from tests.functional.serving import until

from .conftest import START, tick
from .test_candles import MINUTE, finalized, in_block
from .test_notifications import TABLE, notified


@pytest.fixture
def chain() -> str:
    """A chain of a test's own."""
    return f"c{uuid.uuid4().hex[:12]}"


def minutes(symbol: str, count: int = 3) -> list[Tick]:
    """A tick of a block in each of the minutes from START on."""
    return [in_block(symbol, number, START + number * MINUTE) for number in range(count)]


@given(st.text("AB:/", max_size=5))
def test_sql_and_python_agree_on_the_chain_of_a_symbol(conn: Connection, version: Version, symbol: str) -> None:
    assert conn.execute(version.query("SELECT {chain_of}(%s)"), (symbol,)).fetchone() == (chain_of(symbol),)


def test_a_final_block_of_the_chain_counts_for_its_symbols_with_blocks(
    conn: Connection, version: Version, chain: str
) -> None:
    pool, nested = f"{chain}:A-B", f"{chain}:A:B"
    others = [chain, f"{chain}/x:A-B", f"x{chain}:A-B", f":{chain}"]
    for symbol in (pool, nested, *others):
        ticks.ingest(conn, version, minutes(symbol))
    blockless = f"{chain}:trades"
    ticks.ingest(conn, version, [tick(blockless, str(n), START + n * MINUTE) for n in range(3)])
    ticks.ingest(conn, version, [FinalizeChain(chain, 7, START + MINUTE)])
    for fill in ("none", "previous"):
        for symbol in (pool, nested):
            assert finalized(conn, version, symbol, fill=fill)[:3] == [True, False, False]
            assert not any(finalized(conn, version, symbol, "15m", fill=fill))
        for symbol in others:
            assert not any(finalized(conn, version, symbol, fill=fill))
        assert finalized(conn, version, blockless, fill=fill)[:3] == [True, True, True]
    shown = {each.symbol: each.finalized_block for each in symbols.list_all(conn, version)}
    assert (shown[pool], shown[nested], shown[blockless], shown[chain]) == (7, 7, None, None)


def test_the_later_finality_of_symbol_and_chain_counts(
    conn: Connection, version: Version, chain: str, rng: random.Random
) -> None:
    """A lower block than the chain's newest one changes nothing."""
    for number in range(6):
        symbol = f"{chain}:{number}"
        own = of_chain = 0
        ticks.ingest(conn, version, minutes(symbol, 9))
        conn.execute(version.query("DELETE FROM {chains} WHERE chain = %s"), (chain,))
        for _ in range(6):
            block = rng.randrange(1, 9)
            item: Item = Finalize(symbol, block, START + block * MINUTE)
            if rng.random() < 0.6:
                item = FinalizeChain(chain, block, START + block * MINUTE)
                of_chain = max(of_chain, block)
            else:
                own = max(own, block)
            ticks.ingest(conn, version, [item])
            assert finalized(conn, version, symbol) == [n < max(own, of_chain) for n in range(9)]
    ticks.ingest(conn, version, [FinalizeChain(chain, 9, START), FinalizeChain(chain, 8, START + 9 * MINUTE)])
    assert not finalized(conn, version, symbol)[-1]


def test_the_first_tick_with_a_block_meets_the_finality_of_its_chain(
    conn: Connection, version: Version, chain: str
) -> None:
    ticks.ingest(conn, version, [FinalizeChain(chain, 1, START + MINUTE)])
    symbol = f"{chain}:new"
    ticks.ingest(conn, version, [tick(symbol, "no block", START), tick(symbol, "later", START + MINUTE)])
    assert finalized(conn, version, symbol) == [True, True]
    ticks.ingest(conn, version, minutes(symbol))
    assert finalized(conn, version, symbol) == [True, False, False]
    ticks.ingest(conn, version, [Retract(symbol, "0xb0")])
    assert finalized(conn, version, symbol) == [True, False, False]


def test_the_state_names_the_first_bucket_that_is_not_final(conn: Connection, version: Version, chain: str) -> None:
    symbol = f"{chain}:A"
    ticks.ingest(conn, version, minutes(symbol))
    states = []
    for ts in (START + MINUTE - 1, START + MINUTE, START + 2 * MINUTE - 1, START + 2 * MINUTE):
        ticks.ingest(conn, version, [FinalizeChain(chain, 1, ts)])
        state = candles.read(conn, version, symbol, "1m").state
        counter = candles.counters(conn, version, [symbol])[symbol]
        assert counter.final == ts
        assert candles.State.of(counter, "1m", candles.UTC_ZONE).final == state.final
        states.append((state.counter, state.final - START // SECOND))
    assert states == [(1, 0), (1, 60), (1, 60), (1, 120)]


def test_equal_states_have_equal_candles(conn: Connection, version: Version, chain: str, rng: random.Random) -> None:
    """The ETag is made from the state: when the finality of the chain changes a candle, the state has changed."""
    symbol = f"{chain}:A"
    held = [in_block(symbol, number, START + number * 5 * MINUTE) for number in range(200)]
    held += [in_block(symbol, 200 + number, START + number * DAY) for number in range(90)]
    ticks.ingest(conn, version, held)
    zones = [Zone.fixed(offset) for offset in (0, 330, -570)]
    times = sorted(START + rng.choice([rng.randrange(90 * DAY), rng.randrange(DAY)]) for _ in range(8))
    times += [bucket_open(ts, interval) + change for ts in times[-1:] for interval in WIDTHS for change in (-1, 0)]
    seen: dict[object, bytes] = {}
    reads = 0
    for number, ts in enumerate(sorted(times)):
        ticks.ingest(conn, version, [FinalizeChain(chain, number, ts)])
        for interval in WIDTHS:
            zone = rng.choice(zones)
            found = candles.read(conn, version, symbol, interval, zone=zone)
            key = (replace(found.state, as_of=0), interval, zone)
            assert seen.setdefault(key, found.head) == found.head
            reads += 1
    assert len(WIDTHS) < len(seen) < reads


def test_one_notification_names_the_chain(database: str, conn: Connection, version: Version, chain: str) -> None:
    ticks.ingest(conn, version, [*minutes(f"{chain}:A"), *minutes(f"{chain}:B"), FinalizeChain(chain, 1, START)])
    found = notified(database, conn, version, FinalizeChain(chain, 2, START + MINUTE))
    assert found == [Change(TABLE, chain, START, START + MINUTE, "chain_final")]


@pytest.mark.parametrize("lock", ["SHARE", "SHARE ROW EXCLUSIVE"])
def test_a_chain_waits_like_a_tick_for_a_backup_and_a_cutover(
    conn: Connection, database: str, version: Version, chain: str, lock: str
) -> None:
    """A backup and a cutover lock the table of symbols, so that nothing is written meanwhile."""
    with connect(database) as other, connect(database) as writing, ThreadPoolExecutor(1) as pool:
        with other.transaction():
            other.execute(version.query("LOCK TABLE {symbols} IN LOCK_MODE MODE").replace(b"LOCK_MODE", lock.encode()))
            later = pool.submit(ticks.ingest, writing, version, [FinalizeChain(chain, 1, START)])
            while not conn.execute(
                "SELECT FROM pg_locks WHERE pid = %s AND NOT granted", (writing.info.backend_pid,)
            ).rowcount:
                assert not later.done()
        assert later.result(30).outcomes == ["done"]


def test_chains_and_ticks_at_once_neither_wait_for_each_other_nor_deadlock(
    conn: Connection, database: str, version: Version, chain: str
) -> None:
    chains = [f"{chain}{n}" for n in range(4)]
    names = [f"{each}:{writer}" for each in chains for writer in range(6)]
    with connect(database) as other, other.transaction():
        ticks.ingest(other, version, [FinalizeChain(chains[0], 1, START)])
        for each in names:
            ticks.ingest(conn, version, minutes(each, 1))  # it would wait forever if it locked the chain's row
    together = threading.Barrier(6)

    def write(seed: int) -> None:
        rng = random.Random(seed)
        with connect(database) as own:
            together.wait(60)
            for n in range(1, 30):
                items: list[Item] = [FinalizeChain(each, n, START + n * MINUTE) for each in chains]
                items += [in_block(f"{each}:{seed}", n, START + n * MINUTE) for each in chains]
                rng.shuffle(items)
                ticks.ingest(own, version, items)

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(write, range(6)))
    for each in names:
        assert finalized(conn, version, each) == [n < 29 for n in range(30)]


def test_a_round_of_many_pools_writes_one_row_of_finality_and_one_of_coverage(
    new_store: Callable[[], AbstractContextManager[tuple[str, Version]]], chain: str
) -> None:
    """In a database of its own, in which nobody else writes."""
    pools = [f"{chain}:{n}" for n in range(500)]
    with new_store() as (database, version), connect(database) as conn:
        ticks.ingest(conn, version, [in_block(name, 1, START) for name in pools])
        coverage.record(conn, version, pools, Range(START, START + DAY, "joined"))
        with conn.transaction():
            conn.execute("SELECT pg_stat_force_next_flush()")
        until(lambda: conn.execute(OTHERS).fetchone() == (0,), 60)  # a connection that ends still counts what it wrote
        before = written(conn)
        for number in range(1, 4):
            end = START + DAY + number * MINUTE
            with conn.transaction():
                ticks.ingest(conn, version, [FinalizeChain(chain, number, end)])
                coverage.record_chain(conn, version, chain, Range(end - MINUTE, end, "indexed"))
                conn.execute("SELECT pg_stat_force_next_flush()")
        # Each round inserts or updates the row of the chain. The row of its range is written anew: at first only
        # inserted.
        assert written(conn) - before == 3 + 1 + 2 * 2
        assert finalized(conn, version, pools[-1]) == [True]
        assert coverage.ranges(conn, version, pools[-1])[1] == [
            Range(START, START + DAY, "indexed"),
            Range(START + DAY, START + DAY + 3 * MINUTE, "no_trades"),
        ]


OTHERS = """
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()"""


def written(conn: Connection) -> int:
    """The number of rows that were inserted, updated or deleted in all tables."""
    conn.execute("SELECT pg_stat_clear_snapshot()")
    row = conn.execute("SELECT sum(n_tup_ins + n_tup_upd + n_tup_del)::bigint FROM pg_stat_user_tables").fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.plain_only("of a distributed version, the coordinator erases what concerns chains and imports")
def test_to_erase_the_symbols_of_a_chain_erases_what_is_known_of_it(
    conn: Connection, version: Version, chain: str
) -> None:
    symbol = f"{chain}:A"
    ticks.ingest(conn, version, [*minutes(symbol), FinalizeChain(chain, 3, START + DAY)])
    coverage.record(conn, version, [symbol], Range(START, START + DAY, "joined"))
    coverage.record_chain(conn, version, chain, Range(START + DAY, START + 2 * DAY, "indexed"))
    symbols.erase(conn, version, [symbol], with_chains=True)
    ticks.ingest(conn, version, minutes(symbol))
    assert not any(finalized(conn, version, symbol))
    coverage.record(conn, version, [symbol], Range(START, START + DAY, "indexed"))
    assert coverage.ranges(conn, version, symbol)[1] == [Range(START, START + DAY, "indexed")]
