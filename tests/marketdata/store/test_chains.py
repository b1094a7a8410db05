"""Finality and coverage that are reported for a whole chain: their effect on its symbols, and how little they write."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from marketdata.interval import DAY, SECOND
from marketdata.store import candles, coverage, symbols, ticks
from marketdata.store.coverage import Range
from marketdata.store.notifications import Change
from marketdata.store.pool import Connection, connect
from marketdata.store.version import Version
from marketdata.tick import Finalize, FinalizeChain, Retract, Tick, chain_of

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


def test_a_final_block_counts_for_the_symbols_with_blocks(conn: Connection, version: Version, chain: str) -> None:
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


def test_the_later_finality_counts(conn: Connection, version: Version, chain: str) -> None:
    """A lower block than the newest one changes nothing."""
    symbol = f"{chain}:A"
    ticks.ingest(conn, version, minutes(symbol, 9))
    for item, final in (
        (Finalize(symbol, 2, START + 2 * MINUTE), 2),
        (FinalizeChain(chain, 5, START + 5 * MINUTE), 5),
        (Finalize(symbol, 3, START + 3 * MINUTE), 5),
        (Finalize(symbol, 7, START + 7 * MINUTE), 7),
        (FinalizeChain(chain, 6, START + 6 * MINUTE), 7),
        (FinalizeChain(chain, 5, START + 9 * MINUTE), 7),
        (FinalizeChain(chain, 8, START + 8 * MINUTE), 8),
    ):
        ticks.ingest(conn, version, [item])
        assert finalized(conn, version, symbol) == [n < final for n in range(9)], item


def test_the_first_tick_with_a_block_meets_the_finality(conn: Connection, version: Version, chain: str) -> None:
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


def test_one_notification_names_the_chain(database: str, conn: Connection, version: Version, chain: str) -> None:
    ticks.ingest(conn, version, [*minutes(f"{chain}:A"), *minutes(f"{chain}:B"), FinalizeChain(chain, 1, START)])
    found = notified(database, conn, version, FinalizeChain(chain, 2, START + MINUTE))
    assert found == [Change(TABLE, chain, START, START + MINUTE, "chain_final")]


@pytest.mark.parametrize("lock", ["SHARE", "SHARE ROW EXCLUSIVE"])
def test_a_chain_waits_for_a_backup(conn: Connection, database: str, version: Version, chain: str, lock: str) -> None:
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


def test_ticks_wait_for_no_final_block(conn: Connection, database: str, version: Version, chain: str) -> None:
    chains = [f"{chain}{n}" for n in range(4)]
    names = [f"{each}:{writer}" for each in chains for writer in range(6)]
    with connect(database) as other, other.transaction():
        ticks.ingest(other, version, [FinalizeChain(chains[0], 1, START)])
        for each in names:
            ticks.ingest(conn, version, minutes(each, 1))  # it would wait forever if it locked the chain's row


@pytest.mark.plain_only("of a distributed version, the coordinator erases what concerns chains and imports")
def test_to_erase_the_symbols_of_a_chain_erases_its_rows(conn: Connection, version: Version, chain: str) -> None:
    symbol = f"{chain}:A"
    ticks.ingest(conn, version, [*minutes(symbol), FinalizeChain(chain, 3, START + DAY)])
    coverage.record(conn, version, [symbol], Range(START, START + DAY, "joined"))
    coverage.record_chain(conn, version, chain, Range(START + DAY, START + 2 * DAY, "indexed"))
    symbols.erase(conn, version, [symbol], with_chains=True)
    ticks.ingest(conn, version, minutes(symbol))
    assert not any(finalized(conn, version, symbol))
    coverage.record(conn, version, [symbol], Range(START, START + DAY, "indexed"))
    assert coverage.ranges(conn, version, symbol)[1] == [Range(START, START + DAY, "indexed")]
