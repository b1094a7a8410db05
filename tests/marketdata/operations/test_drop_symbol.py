"""``bin/marketdata-symbol drop``: what it removes, what it leaves, and what it says."""

from __future__ import annotations

import signal
import subprocess
import sys
from datetime import timedelta

import psycopg
import pytest

from marketdata.interval import DAY, SECOND
from marketdata.operations import aliases
from marketdata.operations.copy import copying
from marketdata.operations.version_pair import Pair
from marketdata.settings import Settings
from marketdata.store import coverage, leases, prune, symbols, ticks
from marketdata.store.coverage import Range
from marketdata.store.pool import Connection, connect
from marketdata.store.version import Version, registered
from marketdata.tick import FinalizeChain, Retract
from tests.functional.serving import until
from tests.marketdata.conftest import Command
from tests.marketdata.operations.test_copy import FIRST, carry, environment
from tests.marketdata.store.conftest import START, tick

GONE, KEPT = "ETH:A", "ETH:B"
MANY = 2_000

TABLES = """
    SELECT c.oid::regclass::text FROM pg_class c
    JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'symbol' AND NOT a.attisdropped
    WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relnamespace = 'public'::regnamespace ORDER BY 1"""
"""Every table with a column ``symbol``: what a drop has to know."""


@pytest.fixture
def conn(two_versions: Connection) -> Connection:
    """Versions 1 and 2; both symbols are in version 1 with all that a symbol may have."""
    first = version_of(two_versions, 1)
    for symbol in (GONE, KEPT):
        of_block = [tick(symbol, f"b{n}", START + n * SECOND, block_number=n, block_hash=f"0x{n}") for n in range(9)]
        ticks.ingest(two_versions, first, [*of_block, tick(symbol, "late", START + 2 * DAY), Retract(symbol, "0x8")])
        coverage.record(two_versions, first, [symbol], Range(START, START + DAY, "joined"))
        aliases.add(two_versions, f"ALIAS:{symbol}", symbol)
    ticks.ingest(two_versions, first, [FinalizeChain("ETH", 3, START + DAY)])
    for line in prune.lines(two_versions, first, FIRST + timedelta(days=1)):
        prune.draw(two_versions, first, line)
    for below in prune.below(two_versions, first, [GONE, KEPT]):
        assert list(prune.delete(two_versions, first, below, 5))
    assert rows(two_versions, KEPT)["md_pruned_v1"]
    coverage.record_chain(two_versions, first, "ETH", Range(START + DAY, START + 2 * DAY, "indexed"))
    return two_versions


def version_of(connection: Connection, n: int) -> Version:
    return registered(connection, "md")[n - 1].version


def rows(connection: Connection, symbol: str) -> dict[str, int]:
    """The number of rows about the symbol, by table, without empty ones."""
    found = {}
    for (table,) in connection.execute(TABLES).fetchall():
        counted = connection.execute(f"SELECT count(*) FROM {table} WHERE symbol = %s", (symbol,)).fetchone()
        found[table] = counted[0]
    return {table: count for table, count in found.items() if count}


def test_everything_of_the_symbol_is_removed_and_nothing_else(conn: Connection, command: Command) -> None:
    before = rows(conn, KEPT)
    assert before == rows(conn, GONE)
    done = command("symbol", "drop", GONE, "--yes")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "ETH:A in version 1 (md_ticks_v1): 1 ticks and 12 candles, from 2024-01-31T00:00:00Z to 2024-02-02T00:00:00Z",
        "listed in 1 version: md_ticks_v1",
        "aliases: ALIAS:ETH:A",
        "dropped ETH:A from version 1 (md_ticks_v1): 1 ticks and 12 candles, and its aliases ALIAS:ETH:A",
    ]
    assert rows(conn, GONE) == {}
    assert rows(conn, KEPT) == before
    assert [each.symbol for each in symbols.list_all(conn, version_of(conn, 1))] == [KEPT]
    assert coverage.ranges(conn, version_of(conn, 1), KEPT)[1][0].state == "indexed", "the range of the chain stays"


def test_another_version_keeps_the_symbol_and_what_a_copy_knows(conn: Connection, command: Command) -> None:
    """The copy that follows must not take the retraction back, because version 1 no longer refuses the block."""
    pair = Pair.of(conn, "md", 1, 2)
    carry(conn, pair)
    assert command("symbol", "drop", GONE, "--yes").stdout.splitlines()[1:] == [
        "listed in 2 versions: md_ticks_v1, md_ticks_v2",
        "aliases: ALIAS:ETH:A; kept, because md_ticks_v2 has the symbol, too",
        "dropped ETH:A from version 1 (md_ticks_v1): 1 ticks and 12 candles",
    ]
    left = rows(conn, GONE)
    assert left.keys() == {"md_coverage_v2", "md_pruned_v2", "md_retracted_v2", "md_rollups_v2", "md_symbols_v2",
                           "md_ticks_v2", "market_aliases"}  # fmt: skip
    carry(conn, pair)
    assert rows(conn, GONE) == left


def test_an_unknown_symbol_is_refused_with_the_nearest_one(conn: Connection, command: Command) -> None:
    for name, words in (
        ("ETH:AA", "SYMBOL 'ETH:AA': version 1 (md_ticks_v1) has no such symbol; did you mean ETH:A?"),
        ("ALIAS:ETH:A", "SYMBOL ALIAS:ETH:A is an alias: name its symbol, ETH:A"),
    ):
        done = command("symbol", "drop", name, "--yes")
        assert (done.returncode, done.stdout, words in done.stderr) == (2, "", True), done
    assert rows(conn, GONE)


def test_it_is_refused_during_a_copy_alone(conn: Connection, command: Command, fresh: Settings) -> None:
    with connect(fresh.database_url) as other, copying(other, "md"):
        done = command("symbol", "drop", GONE, "--yes")
    assert (done.returncode, "a copy of versions with the prefix md runs" in done.stderr) == (4, True)
    leases.take(conn, "ingestor-md_ticks_v1", "here 1", 30)
    done = command("symbol", "drop", GONE, "--yes")
    assert done.returncode == 0
    assert (
        "note: the ingestor here 1 writes to md_ticks_v1; it stores ETH:A again if its pools still have it"
        in done.stdout.splitlines()
    )


def dropping(symbol: str, *more: str) -> list[str]:
    return [sys.executable, "-P", "-m", "marketdata", "symbol", "drop", symbol, *more]


def fill(connection: Connection, version: Version, symbol: str, count: int) -> None:
    """Store ticks, one a second, by one statement of another client."""
    connection.execute(
        version.query(
            "INSERT INTO {ticks} (symbol, id, ts, price, size) SELECT %s, n::text, '2024-03-01Z'::timestamptz"
            " + n * interval '1 s', 1 + n %% 7, 1 + n %% 5 FROM generate_series(1, %s) AS n"
        ),
        (symbol, count),
    )


def test_a_killed_drop_removes_nothing_and_hinders_no_other_symbol(conn: Connection, fresh: Settings) -> None:
    """It is killed while it deletes the ticks, and before its last statement: it waits for a lock in both."""
    first = version_of(conn, 1)
    fill(conn, first, GONE, MANY)
    before = rows(conn, GONE)
    for lock, part in (
        (f"SELECT FROM md_ticks_v1 WHERE symbol = '{GONE}' FOR UPDATE", 'DELETE FROM "md_ticks_v1"%'),
        ("LOCK TABLE market_aliases IN EXCLUSIVE MODE", "DELETE FROM market_aliases%"),
    ):
        with psycopg.connect(fresh.database_url) as blocker:
            blocker.execute(lock.encode())
            process = subprocess.Popen(dropping(GONE, "--yes"), env=environment(fresh), stdout=subprocess.DEVNULL)
            wait_for_statement(conn, part)
            ticks.ingest(conn, first, [tick(KEPT, f"during {part}", START + DAY)])
            assert process.poll() is None
            process.send_signal(signal.SIGKILL)
            process.wait()
        wait_until_gone(conn)
        assert rows(conn, GONE) == before
    done = subprocess.run(dropping(GONE, "--yes"), env=environment(fresh), capture_output=True, text=True, check=True)
    assert f"dropped ETH:A from version 1 (md_ticks_v1): {MANY + 1} ticks" in done.stdout
    assert rows(conn, GONE) == {}


RUNNING = """
    SELECT count(*) FROM pg_stat_activity WHERE application_name = 'marketdata-operation' AND query LIKE %s
    AND state = 'active' AND datname = current_database()"""
SESSIONS = """
    SELECT count(*) FROM pg_stat_activity
    WHERE application_name = 'marketdata-operation' AND datname = current_database()"""


def wait_for_statement(connection: Connection, pattern: str) -> None:
    until(lambda: connection.execute(RUNNING, (pattern,)).fetchone() != (0,), 60)


def wait_until_gone(connection: Connection) -> None:
    """The server notices the death of its client when the running statement has ended."""
    until(lambda: connection.execute(SESSIONS).fetchone() == (0,), 60)
