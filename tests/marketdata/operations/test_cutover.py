"""``bin/marketdata-cutover``: the comparison of candles, what it refuses, and the switch."""

from __future__ import annotations

import pytest

from marketdata.errors import Contended
from marketdata.interval import LEVELS, SECOND
from marketdata.store.pool import Connection
from marketdata.store.version import registered
from marketdata.tick import Finalize, FinalizeChain, Item
from tests.marketdata.conftest import Command
from tests.marketdata.operations import accessed
from tests.marketdata.store.conftest import START, tick


@pytest.fixture
def conn(two_versions: Connection, command: Command) -> Connection:
    """Versions 1, the current one, and 2, which is a copy of it."""
    store(two_versions, 1, *history())
    assert command("copy", "1", "2").returncode == 0
    return two_versions


def history() -> list[Item]:
    return [
        tick(symbol, f"{number}", START + number * 1800 * SECOND, f"{number + 1}", "2", block_number=number,
             block_hash=f"0x{number}", side=("buy", "sell")[number % 2])
        for symbol in ("A", "B")
        for number in range(100)
    ]  # fmt: skip


def store(connection: Connection, n: int, *items: Item) -> None:
    accessed.store(connection, registered(connection, "md")[n - 1].version, *items)


def current(connection: Connection) -> list[int]:
    return [each.n for each in registered(connection, "md") if each.is_current]


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


def test_the_former_version_takes_no_writes_for_a_while(conn: Connection, command: Command) -> None:
    assert command("cutover", "2").returncode == 0
    for item in (tick("A", "late", START), Finalize("A", 1), FinalizeChain("ETH", 1, START)):
        store(conn, 2, item)
        with pytest.raises(Contended):
            store(conn, 1, item)


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


def test_a_range_is_compared(conn: Connection, command: Command) -> None:
    store(conn, 2, tick("B", "planted", START + 90 * SECOND, "5"))
    done = command("cutover", "2", "--compare", "--from", "2024-02-01T00:00:00Z")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("of version 1 with version 2: all are equal\n")
    done = command("cutover", "2", "--compare", "--to", "2024-01-31T00:14:00Z")
    assert done.returncode == 1
    assert "DIFFERS B 1m 2024-01-31T00:01:00Z" in done.stdout
    assert current(conn) == [1]
    done = command("cutover", "2", "--from", "2024-02-02T00:00:00Z", "--to", "2024-02-01T00:00:00Z")
    assert (done.returncode, "is after --to 2024-02-01" in done.stderr) == (2, True), done
    done = command("cutover", "2", "--to", "2023-01-01T00:00:00Z")
    assert done.returncode == 1
    assert "version 1 has no candle in this range, so nothing was compared or switched" in done.stderr
    assert current(conn) == [1]


def test_a_switch_despite_differences_is_asked_for(conn: Connection, command: Command) -> None:
    store(conn, 2, tick("B", "planted", START + 90 * SECOND, "5"))
    done = command("cutover", "2", "--despite-differences")
    assert (done.returncode, done.stderr) == (0, "")
    assert "DIFFERS B 1m 2024-01-31T00:01:00Z: in version 2, not in version 1" in done.stdout
    assert current(conn) == [2]


CHANGE_FIRST = """
    UPDATE md_rollups_v2 SET vwap = vwap + %(change)s WHERE symbol = 'A' AND res = %(res)s
    AND bucket = (SELECT min(bucket) FROM md_rollups_v2 WHERE symbol = 'A' AND res = %(res)s)"""


def test_every_interval_is_compared(conn: Connection, command: Command) -> None:
    """The comparison finds a wrong stored candle in each level."""
    for level, seconds in LEVELS.items():
        conn.execute(CHANGE_FIRST, {"change": 1, "res": seconds})
        done = command("cutover", "2")
        assert done.returncode == 1
        assert "of version 1 with version 2: 1 differ\n" in done.stdout
        assert f"\nDIFFERS A {level} 2024-01-31T00:00:00Z: vwap " in done.stdout
        conn.execute(CHANGE_FIRST, {"change": -1, "res": seconds})
    assert current(conn) == [1]


def test_later_ticks_of_the_new_version_are_no_difference(conn: Connection, command: Command) -> None:
    store(conn, 2, tick("A", "newer", START + 99 * 1800 * SECOND + 1, "5"), tick("C", "only", START, "5"))
    done = command("cutover", "2")
    assert (done.returncode, done.stderr) == (0, "")
    done = command("cutover", "1")
    assert done.returncode == 1, "version 1 lacks them"
    assert "Run bin/marketdata-copy 2 1" in done.stderr
    assert command("copy", "2", "1").returncode == 0
    assert command("cutover", "1").returncode == 0
    assert current(conn) == [1]
