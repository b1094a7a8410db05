"""``bin/marketdata-copy``: what it carries over from version 1 to version 2, and what it leaves alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from marketdata.bootstrap.copy import Carried, Copy
from marketdata.bootstrap.database import initialise
from marketdata.bootstrap.pair import Pair
from marketdata.bootstrap.version import make_version
from marketdata.interval import DAY, SECOND
from marketdata.settings import Settings
from marketdata.store import coverage, ticks
from marketdata.store.coverage import Range
from marketdata.store.pool import Connection, connect
from marketdata.store.version import Version
from marketdata.tick import Finalize, Item, Retract
from tests.marketdata.store.conftest import START, stored_rollups, stored_ticks, tick

SYMBOLS = ("A", "B")


@pytest.fixture
def conn(settings: Settings, new_database: Callable[[], str]) -> Iterator[Connection]:
    """A fresh database with versions 1 and 2."""
    with connect(new_database()) as connection:
        initialise(connection, lambda _text: None)
        for n in (1, 2):
            make_version(connection, settings, n, lambda _text: None)
        yield connection


@pytest.fixture
def pair(conn: Connection) -> Pair:
    return Pair.of(conn, "md", 1, 2)


def of_block(number: int, symbol: str = "A", count: int = 3, *, fork: str = "") -> list[Item]:
    """Ticks of a block, which lies an hour after the one before it; those of a fork have other prices."""
    return [
        tick(symbol, f"{number}{fork}:{each}", START + number * 3600 * SECOND, f"{number + 1}.{each}{len(fork)}", "2",
             seq=each, side="buy", block_number=number, block_hash=f"0x{number}{fork}")
        for each in range(count)
    ]  # fmt: skip


def store(conn: Connection, version: Version, *items: Item) -> None:
    ticks.ingest(conn, version, items)


def carry(conn: Connection, pair: Pair) -> Carried:
    return Copy(conn, pair, lambda _done, _day: None).carry()


def contents(conn: Connection, version: Version) -> dict[str, Any]:
    """All that is stored, but the counters."""
    tables = {
        "symbols": "symbol, finalized_block, final_until::text",
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
    coverage.record(conn, first, "A", Range(START, START + DAY, "indexed"))
    coverage.record(conn, first, "A", Range(START + DAY, START + 2 * DAY, "failed"))
    assert carry(conn, pair) == Carried(2 * 151 - 3, 2, 0)
    assert_same(conn, pair)
    before = conn.execute("SELECT symbol, version FROM md_symbols_v2").fetchall()
    assert carry(conn, pair) == Carried(0, 0, 0)
    assert conn.execute("SELECT symbol, version FROM md_symbols_v2").fetchall() == before, (
        "nothing to carry, but it was written to"
    )
