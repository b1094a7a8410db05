"""``bin/marketdata-cutover``: the comparison of candles, what it refuses, and the switch."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from marketdata.interval import SECOND
from marketdata.settings import Settings
from marketdata.store import registry, ticks
from marketdata.store.pool import Connection, connect
from marketdata.tick import Item
from tests.marketdata.conftest import Command
from tests.marketdata.store.conftest import START, tick


@pytest.fixture
def conn(fresh: Settings, command: Command) -> Iterator[Connection]:
    """Versions 1, the current one, and 2, which is a copy of it."""
    assert fresh.database_url is not None
    for n in ("1", "2"):
        assert command("version", n).returncode == 0
    with connect(fresh.database_url) as connection:
        store(connection, 1, *history())
        assert command("copy", "1", "2").returncode == 0
        yield connection


def history() -> list[Item]:
    return [
        tick(symbol, f"{number}", START + number * 1800 * SECOND, f"{number + 1}", "2", block_number=number,
             block_hash=f"0x{number}", side=("buy", "sell")[number % 2])
        for symbol in ("A", "B")
        for number in range(100)
    ]  # fmt: skip


def store(connection: Connection, n: int, *items: Item) -> None:
    version = registry.registered(connection, "md")[n - 1].version
    ticks.ingest(connection, version, items)


def current(connection: Connection) -> list[int]:
    return [each.n for each in registry.registered(connection, "md") if each.is_current]


def test_equal_versions_are_switched_and_back(conn: Connection, command: Command) -> None:
    done = command("cutover", "2")
    assert (done.returncode, done.stderr) == (0, "")
    candles = conn.execute("SELECT count(*) FROM md_rollups_v1").fetchone()[0]  # type: ignore[index]
    assert done.stdout.splitlines()[0] == (
        f"compared {candles} candles of 2 symbols (1m, 15m, 30m, 1h, 4h, 1d) of version 1 with version 2: all are equal"
    )
    assert "version 2 is the current one" in done.stdout
    assert current(conn) == [2]
    assert command("cutover", "2").stdout == "version 2 is the current one: nothing to do\n"
    assert command("cutover", "1").returncode == 0
    assert current(conn) == [1]


def test_a_difference_is_refused_and_its_candles_are_named(conn: Connection, command: Command) -> None:
    store(conn, 2, tick("B", "planted", START + 90 * SECOND, "5"))
    done = command("cutover", "2")
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert lines[0].endswith("of version 1 with version 2: 6 differ")
    assert lines[1] == "DIFFERS B 1m 2024-01-31T00:01:00Z: in version 2, not in version 1"
    assert lines[2] == (
        "DIFFERS B 15m 2024-01-31T00:00:00Z: high 1 and 5, close 1 and 5, volume 2 and 3, quote 2 and 7, n 1 and 2, "
        "vwap 1 and 2.333333333333333333 in versions 1 and 2"
    )
    assert "version 1 stays the current one. Run bin/marketdata-copy 1 2" in done.stderr
    assert current(conn) == [1]
