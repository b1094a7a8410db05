"""``bin/marketdata-copy``: what it carries over from version 1 to version 2, and what it leaves alone."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from marketdata.interval import DAY, SECOND
from marketdata.operations import tick_import
from marketdata.operations.advisory_lock import exclusive
from marketdata.operations.copy import Carried, Copy, copying
from marketdata.operations.day_states import Day
from marketdata.operations.prune import pruning
from marketdata.operations.version_pair import Pair
from marketdata.settings import ROOT, Settings
from marketdata.store import coverage
from marketdata.store.coverage import Range
from marketdata.store.pool import Connection, connect
from marketdata.store.version import Version
from marketdata.tick import Finalize, FinalizeChain, Item, Restore, Retract
from tests.functional.killed import KILLED
from tests.marketdata.conftest import Command
from tests.marketdata.operations.accessed import pairs, store
from tests.marketdata.store.conftest import START, stored_rollups, stored_ticks, tick

SYMBOLS = ("A", "B")
FIRST = datetime.fromtimestamp(START / SECOND, UTC)


@pytest.fixture
def conn(two_versions: Connection) -> Connection:
    return two_versions


@pytest.fixture
def pair(conn: Connection) -> Pair:
    return Pair.of(conn, "md", 1, 2)


def of_block(number: int, symbol: str = "A", count: int = 3, *, fork: str = "") -> list[Item]:
    """Ticks of a block, which is an hour later than the previous block. Ticks of a fork have other prices."""
    return [
        tick(symbol, f"{number}{fork}:{each}", START + number * 3600 * SECOND, f"{number + 1}.{each}{len(fork)}", "2",
             seq=each, side="buy", block_number=number, block_hash=f"0x{number}{fork}")
        for each in range(count)
    ]  # fmt: skip


def carry(conn: Connection, pair: Pair) -> Carried:
    return Copy(pairs(conn, pair), lambda _done, _day: None).carry()


def contents(conn: Connection, version: Version) -> dict[str, Any]:
    """All that is stored, but the counters."""
    tables = {
        "symbols": "symbol, finalized_block, final_until::text",
        "chains": "chain, finalized_block, final_until",
        "retracted": "symbol, block_hash, block_number",
        "coverage": 'symbol, "from", "to", state',
    }
    found: dict[str, Any] = {
        table: sorted(conn.execute(f"SELECT {columns} FROM md_{table}_v{version.n}"))  # type: ignore[arg-type]
        for table, columns in tables.items()
    }
    for symbol in SYMBOLS:
        found[f"ticks {symbol}"] = sorted(stored_ticks(conn, version, symbol))
        found[f"rollups {symbol}"] = stored_rollups(conn, version, symbol)
    return found


def assert_same(conn: Connection, pair: Pair) -> None:
    assert contents(conn, pair.source) == contents(conn, pair.target)


def test_everything_is_carried_over(conn: Connection, pair: Pair) -> None:
    first = pair.source
    for symbol in SYMBOLS:
        store(conn, first, *(item for number in range(50) for item in of_block(number, symbol)))
        store(conn, first, tick(symbol, "plain", START - 400 * DAY, "7"))
    store(conn, first, Retract("A", "0x48"), Retract("A", "0x99"), Finalize("A", 40, None), Finalize("C", 3, None))
    coverage.record(conn, first, ["A"], Range(START, START + DAY, "indexed"))
    coverage.record(conn, first, ["A"], Range(START + DAY, START + 2 * DAY, "failed"))
    store(conn, first, FinalizeChain("ETH", 7, START), FinalizeChain("BSC", 9, START + DAY))
    coverage.record_chain(conn, first, "ETH", Range(START, START + DAY, "indexed"))
    assert carry(conn, pair) == Carried(2 * 151 - 3, 2, 0)
    assert_same(conn, pair)
    states = "SELECT symbol, version FROM md_symbols_v2 UNION ALL SELECT chain, xmin::text::bigint FROM md_chains_v2"
    before = sorted(conn.execute(states))
    assert carry(conn, pair) == Carried(0, 0, 0)
    assert sorted(conn.execute(states)) == before, "nothing to carry, but it was written to"


def test_times_that_a_chain_has_to_read_again_are_removed_from_the_target(conn: Connection, pair: Pair) -> None:
    source, target = pair.source, pair.target
    coverage.record(conn, source, ["ETH:A"], Range(START, START + 2 * DAY, "joined"))
    coverage.record_chain(conn, source, "ETH", Range(START + 2 * DAY, START + 9 * DAY, "indexed"))
    carry(conn, pair)
    coverage.record(conn, target, ["ETH:A"], Range(START - DAY, START, "indexed"))
    coverage.record_chain(conn, source, "ETH", Range(START + DAY, START + 8 * DAY, "failed"))
    carry(conn, pair)
    found = contents(conn, target)["coverage"]
    assert [(symbol, (first - FIRST).days, (end - FIRST).days) for symbol, first, end, _ in found] == [
        ("ETH:*", 8, 9), ("ETH:A", -1, 0), ("ETH:A", 0, 1)
    ]  # fmt: skip


def test_ticks_that_arrive_during_a_pass_are_carried_by_the_next(conn: Connection, pair: Pair) -> None:
    """Between two batches the source gets late ticks, retractions, restorations and final blocks, in minutes that were
    carried before and in minutes that will be."""
    source = pair.source
    store(conn, source, *(item for number in range(12) for item in of_block(number)), Retract("A", "0x11"))
    late = tick("A", "late", START + 1, "99", block_number=0, block_hash="0x0")
    arriving: list[list[Item]] = [
        [late, Retract("A", "0x9")],
        [Retract("A", "0x1"), *of_block(1, fork="b"), Restore("A", "0x11"), *of_block(11)],
        [Retract("A", "0x0"), Finalize("A", 4, None), tick("B", "new", START, "7")],
        [Restore("A", "0x1"), Retract("A", "0x1b"), *of_block(1), Restore("A", "0x0"), *of_block(0), late],
        [Restore("A", "0x9"), *of_block(9), Retract("A", "0x7"), Restore("A", "0x7"), *of_block(7)],
    ]

    def progress(_done: Carried, _day: Day) -> None:
        if arriving:
            store(conn, source, *arriving.pop(0))

    work = Copy(pairs(conn, pair), progress, batch=3)
    passes = [work.carry() for _ in range(5)]
    assert not arriving, "the pass should have had a batch for each of them"
    assert passes[0].ticks > 0
    assert passes[1] != Carried()
    assert passes[-1] == Carried()
    assert_same(conn, pair)


def test_ticks_that_the_target_received_by_itself_stay(conn: Connection, pair: Pair) -> None:
    source, target = pair.source, pair.target
    both = [item for number in range(5) for item in of_block(number)]
    store(conn, source, *both)
    store(conn, target, *both, *of_block(5), Finalize("A", 5, None), Retract("A", "0x98"))
    coverage.record(conn, source, ["A"], Range(START, START + DAY, "indexed"))
    coverage.record(conn, target, ["A"], Range(START + DAY, START + 2 * DAY, "indexed"))
    assert carry(conn, pair) == Carried()
    found = contents(conn, target)
    assert len(found["ticks A"]) == 18
    assert [row[1] for row in found["symbols"]] == [5]
    assert [row[1] for row in found["retracted"]] == ["0x98"]
    assert sum((end - start).days for _symbol, start, end, _state in found["coverage"]) == 2


def test_a_copy_that_is_killed_goes_on(conn: Connection, pair: Pair, fresh: Settings) -> None:
    """Meanwhile the source changes."""
    source = pair.source
    far_apart = [tick("A", f"far {each}", START + each * 16 * DAY, "3") for each in range(100)]
    store(conn, source, *far_apart, *of_block(1), *of_block(2))
    for number in range(2):
        before = copied(conn)
        place = ("marketdata.operations.pair_access", "PairAccess.write", str(number + 1), "after")
        killed = subprocess.run(
            [sys.executable, "-c", KILLED, *place, "copy", "1", "2"], env=environment(fresh), check=False
        )
        assert killed.returncode == -signal.SIGKILL
        assert before < copied(conn) < len(far_apart)
        store(conn, source, Retract("A", "0x2"), *of_block(2, fork=f"b{number}"), Restore("A", "0x2"), *of_block(2))
        store(conn, source, Retract("A", f"0x2b{number}"))
    with copying(conn, "md"):  # the killed copies left no lock
        assert carry(conn, pair).ticks > 0
    assert_same(conn, pair)


def copied(conn: Connection) -> int:
    ((count,),) = conn.execute("SELECT count(*) FROM md_ticks_v2").fetchall()
    return int(count)


def environment(fresh: Settings) -> dict[str, str]:
    return os.environ | {
        "DATABASE_URL": fresh.database_url or "", "MARKET_STATE_DIR": str(fresh.state_dir), "PYTHONPATH": str(ROOT)
    }  # fmt: skip


def test_work_that_another_process_does_already_is_refused(
    conn: Connection, pair: Pair, fresh: Settings, command: Command, tmp_path: Path
) -> None:
    """A copy, a prune and an import of the same file, each of which waits some seconds for its lock."""
    path = tmp_path / "ticks.csv"
    path.write_text("symbol,id,ts,price,size\nA,1,2024-01-31T00:00:00Z,1,1\n")
    with path.open("rb") as file:
        importing = f"marketdata import md_ticks_v1 {tick_import.identity(file)}"
    attempts = {
        ("copy", "1", "2"): r"another copy of versions with the prefix md runs",
        ("prune", "--before", "2024-02-01"): r"another prune of md_ticks_v1 runs: process \d+ on \S+\n",
        ("import", str(path)): f"{path}: another process imports this file",
    }
    with (
        connect(fresh.database_url or "") as other,
        copying(other, "md"),
        pruning(other, pair.source),
        exclusive(other, importing, lambda: "held"),
    ):
        running = [
            subprocess.Popen(
                [sys.executable, "-P", "-m", "marketdata", *arguments], env=environment(fresh), text=True,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            )
            for arguments in attempts
        ]  # fmt: skip
        done = [(*each.communicate(timeout=60), each.returncode) for each in running]
    for (said, errors, code), words in zip(done, attempts.values(), strict=True):
        assert (code, said) == (4, "")
        assert re.search(words, errors), errors
    for arguments in attempts:
        assert command(*arguments).returncode == 0


WRONG = {
    ("copy", "1", "1"): "FROM and TO are both 1: give the numbers of two different versions",
    ("copy", "1", "3"): "version 3: there is no such version with the prefix md (existing versions: 1, 2)",
    ("copy", "one", "2"): "argument FROM: must be the number of a version, from 1 to 999999, like 2, not 'one'",
    ("copy", "1", "-2"): "argument TO: must be the number of a version",
    ("copy", "1"): "required: TO",
    ("cutover", "3"): "version 3: there is no such version with the prefix md (existing versions: 1, 2)",
    ("cutover", "v2"): "argument N: must be the number of a version, from 1 to 999999, like 2, not 'v2'",
    ("drop", "3", "--yes"): "version 3: there is no such version with the prefix md (existing versions: 1, 2)",
}


def test_wrong_use_names_the_field_and_the_way_out(conn: Connection, command: Command) -> None:
    for arguments, words in WRONG.items():
        done = command(*arguments)
        assert (done.returncode, done.stdout, words in done.stderr) == (2, "", True), (arguments, done)
    assert conn.execute("SELECT count(*) FROM md_symbols_v2").fetchone() == (0,)
