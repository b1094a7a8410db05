"""A version of an earlier release, upgraded: the same candles, and the same rules for what is written next."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, LiteralString

import psycopg
import pytest

from marketdata.errors import VersionMissing
from marketdata.interval import DAY, SECOND
from marketdata.store import candles, ticks
from marketdata.store.change import Change
from marketdata.store.pool import Connection, connect
from marketdata.store.version import Version
from marketdata.tick import Finalize, Restore, Retract, Tick

from . import brute_force, earlier_release
from .conftest import START, new_symbol, stored_rollups, tick

READINGS = [("1s", 0), ("1m", 0), ("5m", 0), ("1h", 330), ("1d", 0), ("1d", 330), ("1M", 0)]


@pytest.fixture(params=earlier_release.SCRIPTS)
def old(conn: Connection, version: Version, request: pytest.FixtureRequest) -> Iterator[Version]:
    """A version of an earlier release; ``version`` is one of this release in the same database."""
    old = Version.of("old", 1)
    earlier_release.create(conn, old, request.param)
    yield old
    tables = "{ticks}, {rollups}, {symbols}, {retracted}, {coverage}, {candle}"
    conn.execute(old.query(f"DROP TABLE {tables} CASCADE"))  # type: ignore[arg-type]
    functions = conn.execute("SELECT oid::regprocedure::text FROM pg_proc WHERE proname LIKE 'old\\_%\\_v1'").fetchall()
    conn.execute("DROP FUNCTION " + ", ".join(name for (name,) in functions) + " CASCADE")  # type: ignore[arg-type]


def some_ticks(symbol: str, count: int = 300) -> list[Tick]:
    return [
        tick(
            symbol,
            f"{n}",
            START + n * n % 90_001 * 37 * SECOND + n,
            f"{n % 7 + 1}.50",
            f"{n % 5}.250",
            seq=n % 3,
            side=(None, "buy", "sell")[n % 3],
            block_number=n % 4,
            block_hash=f"0x{n % 4}",
        )
        for n in range(count)
    ]


def readings(conn: Connection, version: Version, symbol: str) -> list[bytes]:
    """Every way of making candles, filled and not; without the version's own name nothing in them tells it."""
    return [
        candles.read(
            conn, version, symbol, interval, shift=shift, fill=fill, start=START, end=START + 90 * DAY, format=format
        ).head
        for interval, shift in READINGS
        for fill in ("none", "previous")
        for format in ("object", "binance")
    ]


def test_an_upgrade_keeps_every_candle(conn: Connection, version: Version, old: Version) -> None:
    symbol, open_blocks, no_blocks = new_symbol(), new_symbol(), new_symbol()
    stored = some_ticks(symbol)
    others = [tick(open_blocks, "a", START, block_number=1, block_hash="0x1"), tick(no_blocks, "a", START)]
    ticks.ingest(conn, version, [*stored, *others, Finalize(symbol, 2)])
    ticks.ingest(conn, old, [*stored, *others])
    conn.execute(old.query("SELECT {finalize}(%s, 2)"), (symbol,))
    assert old.upgrade(conn) is True
    old.check(conn)
    for each in (symbol, open_blocks, no_blocks):
        assert readings(conn, old, each) == readings(conn, version, each)
    assert stored_rollups(conn, old, symbol) == brute_force.rollups(stored)
    ours, fresh = shape(conn, old), shape(conn, version)
    assert {name: each ^ fresh[name] for name, each in ours.items()} == {name: set() for name in ours}


def shape(conn: Connection, version: Version) -> dict[str, set[Any]]:
    """What the catalogs hold of a version's columns, indexes and functions, without its name."""

    def found(query: LiteralString) -> set[Any]:
        pattern = f"{version.prefix}\\_%\\_v{version.n}%"
        rows = conn.execute(query, {"like": pattern}).fetchall()
        return {
            tuple(re.sub(rf"\b{version.prefix}_(?=\w+_v{version.n}\b)", "", str(part)) for part in row) for row in rows
        }

    return {
        "columns": found(
            """SELECT c.relname, a.attname, a.atttypid::regtype, a.attnotnull, pg_get_expr(d.adbin, d.adrelid)
               FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
               LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
               WHERE c.relname LIKE %(like)s AND c.relkind IN ('r', 'p')"""
        ),
        "indexes": found(
            "SELECT regexp_replace(indexdef, 'INDEX [^ ]+', '') FROM pg_indexes WHERE tablename LIKE %(like)s"
        ),
        "functions": found(
            "SELECT oid::regprocedure, prorettype::regtype, prosrc FROM pg_proc WHERE proname LIKE %(like)s"
        ),
    }


def test_what_is_written_after_an_upgrade_is_merged(conn: Connection, version: Version, old: Version) -> None:
    symbol = new_symbol()
    stored = some_ticks(symbol)
    ticks.ingest(conn, old, stored[:200])
    old.upgrade(conn)
    assert ticks.ingest(conn, old, stored[150:]) == ["duplicate"] * 50 + ["created"] * 100
    assert stored_rollups(conn, old, symbol) == brute_force.rollups(stored)
    again = [each for each in stored if each.block_hash == "0x1"]
    ticks.ingest(conn, old, [Retract(symbol, "0x1"), Restore(symbol, "0x1"), *again[:5]])
    left = [each for each in stored if each.block_hash != "0x1"] + again[:5]
    assert stored_rollups(conn, old, symbol) == brute_force.rollups(left)


def test_a_version_that_is_up_to_date_is_left_alone(conn: Connection, version: Version, old: Version) -> None:
    assert version.upgrade(conn) is False
    assert (old.upgrade(conn), old.upgrade(conn)) == (True, False)


def test_before_its_upgrade_the_command_is_named(conn: Connection, old: Version) -> None:
    with pytest.raises(VersionMissing, match=r"earlier release: upgrade it with bin/marketdata-version 1$"):
        old.check(conn)


def test_an_upgrade_that_is_rolled_back_changes_nothing(conn: Connection, old: Version) -> None:
    before = conn.execute("SELECT proname, prosrc FROM pg_proc WHERE proname LIKE 'old\\_%' ORDER BY 1").fetchall()
    with conn.transaction(force_rollback=True):
        assert old.upgrade(conn)
    after = conn.execute("SELECT proname, prosrc FROM pg_proc WHERE proname LIKE 'old\\_%' ORDER BY 1").fetchall()
    assert after == before
    with pytest.raises(VersionMissing):
        old.check(conn)


def test_an_upgrade_beside_writers_and_readers_neither_loses_a_tick_nor_deadlocks(
    conn: Connection, database: str, old: Version
) -> None:
    symbol = new_symbol()
    stored = some_ticks(symbol, 600)
    ticks.ingest(conn, old, stored[:10])
    upgraded = threading.Event()

    def write() -> None:
        with connect(database) as own:
            for first in range(10, 600, 10):
                ticks.ingest(own, old, stored[first : first + 10])

    def read() -> None:
        # By the function alone: the API's statements name the column that is renamed. One call may wait with the old
        # body of the function and then miss an old column or function; none may be in the way of the upgrade.
        with psycopg.connect(database, autocommit=True) as own:
            while not upgraded.is_set():
                with suppress(psycopg.ProgrammingError):
                    own.execute(old.query("SELECT open FROM {candles}(%s, '1d', fill => 'previous')"), (symbol,))

    with ThreadPoolExecutor(3) as threads:
        running = [threads.submit(write), threads.submit(read), threads.submit(read)]
        try:
            assert old.upgrade(conn)
        finally:
            upgraded.set()
        for each in running:
            each.result(60)
    assert stored_rollups(conn, old, symbol) == brute_force.rollups(stored)


def test_an_upgraded_version_notifies_changes(database: str, conn: Connection, old: Version) -> None:
    old.upgrade(conn)
    assert notified(database, conn, old, tick("TEST:N", "a", START)) == [
        Change('"old_ticks_v1"', "TEST:N", START, START, "stored")
    ]


def test_a_version_without_notifications_is_upgraded(database: str, conn: Connection, version: Version) -> None:
    """That of the release before them differs in functions alone."""
    conn.execute(version.query("DROP FUNCTION {changed}"))
    with pytest.raises(VersionMissing, match="earlier release"):
        version.check(conn)
    assert version.upgrade(conn) is True
    assert version.upgrade(conn) is False
    version.check(conn)
    symbol = new_symbol()
    assert len(notified(database, conn, version, tick(symbol, "a", START))) == 1


def notified(database: str, conn: Connection, version: Version, *items: Tick) -> list[Change]:
    """The changes that are notified when these items are stored."""
    with connect(database) as listening:
        listening.execute("LISTEN market_changes")
        ticks.ingest(conn, version, items)
        return [Change.parsed(each.payload) for each in listening.notifies(timeout=20, stop_after=1)]
