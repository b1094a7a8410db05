"""``bin/marketdata-prune``: what it deletes, what it keeps, and what it says."""

from __future__ import annotations

import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest

from marketdata.interval import DAY, SECOND
from marketdata.operations import aliases
from marketdata.settings import Settings
from marketdata.store import ticks
from marketdata.store.pool import Connection
from marketdata.store.version import Version, registered
from marketdata.tick import Finalize, FinalizeChain, Retract
from tests.functional.killed import KILLED
from tests.marketdata.conftest import Command
from tests.marketdata.operations.test_copy import environment
from tests.marketdata.store.conftest import START, stored_rollups, stored_ticks, tick

PLAIN, CHAINED, FINAL, UNFINAL = "X:PLAIN", "ETH:CHAINED", "ETH:FINAL", "BSC:UNFINAL"
LATER = "later"


@pytest.fixture
def conn(two_versions: Connection) -> Connection:
    """Four symbols with ticks of the five days from 2024-01-31 on, of which some are final."""
    version = version_of(two_versions)
    for symbol in (PLAIN, CHAINED, FINAL, UNFINAL):
        blocks = [
            {} if symbol == PLAIN else {"block_number": day, "block_hash": f"0x{day}"} for day in range(5)
        ]  # fmt: skip
        ticks.ingest(
            two_versions,
            version,
            [
                tick(symbol, f"{day} {n}", START + day * DAY + n * SECOND, **blocks[day])
                for day in range(5)
                for n in range(4)
            ],
        )
    ticks.ingest(
        two_versions, version, [FinalizeChain("ETH", 2, START + 2 * DAY + 5), Finalize(FINAL, 3, START + 3 * DAY)]
    )
    return two_versions


def version_of(connection: Connection) -> Version:
    return registered(connection, "md")[0].version


def days(connection: Connection, symbol: str) -> list[int]:
    """The days that have ticks, counted from the first."""
    found = connection.execute(
        "SELECT DISTINCT (ts AT TIME ZONE 'UTC')::date - '2024-01-31' FROM md_ticks_v1 WHERE symbol = %s ORDER BY 1",
        (symbol,),
    )
    return [day for (day,) in found]


def test_each_symbol_is_pruned_up_to_what_is_final(conn: Connection, command: Command) -> None:
    symbols = (PLAIN, CHAINED, FINAL, UNFINAL)
    rows = [stored_rollups(conn, version_of(conn), symbol) for symbol in symbols]
    done = command("prune", "--before", "2024-02-04T13:00:00+01:00")
    assert (done.returncode, done.stderr) == (0, "")
    (line,) = done.stdout.splitlines()
    assert re.fullmatch(
        r"line 2024-02-04, rounded down from 2024-02-04T12:00:00Z; BSC:UNFINAL none, ETH:CHAINED only 2024-02-02, "
        r"ETH:FINAL only 2024-02-03, because nothing later is final; deleted 36 ticks of 4 symbols in \d+\.\d s\. "
        r"PostgreSQL reuses their space when autovacuum has passed",
        line,
    )
    assert [days(conn, symbol) for symbol in symbols] == [[4], [2, 3, 4], [3, 4], [0, 1, 2, 3, 4]]
    assert [stored_rollups(conn, version_of(conn), symbol) for symbol in symbols] == rows
    outcomes = ticks.ingest(
        conn, version_of(conn),
        [tick(PLAIN, "new", START + 4 * DAY - 1), tick(PLAIN, "0 0", START), tick(CHAINED, "new", START + 2 * DAY),
         Retract(CHAINED, "0x1"), Retract(CHAINED, "0x2"), tick("X:LATER", "new", START)],
    ).outcomes  # fmt: skip
    assert outcomes == ["pruned", "pruned", "created", "pruned", "done", "created"]


def test_a_second_prune_goes_on_and_never_lowers_a_line(conn: Connection, command: Command) -> None:
    aliases.add(conn, "NICK", PLAIN)
    assert (
        "line 2024-02-03; deleted 12 ticks of X:PLAIN"
        in command("prune", "--before", "2024-02-03", "--symbol", "NICK").stdout
    )
    again = command("prune", "--before", str((START + DAY) // 1000), "--symbol", PLAIN).stdout
    assert again.startswith(
        "line 2024-02-01; X:PLAIN 2024-02-03 already, from an earlier prune; deleted 0 ticks of X:PLAIN"
    )
    assert days(conn, PLAIN) == [3, 4]
    assert days(conn, CHAINED) == [0, 1, 2, 3, 4]
    assert "deleted 4 ticks of X:PLAIN" in command("prune", "--before", "2024-02-04", "--symbol", PLAIN).stdout


def test_a_killed_prune_goes_on_and_no_candle_changes(conn: Connection, fresh: Settings, command: Command) -> None:
    """It is killed between two batches. The line is drawn by then, so later ticks below it are refused."""
    version = version_of(conn)
    many = [tick(PLAIN, f"more {n}", START + n * SECOND) for n in range(4100)]
    ticks.ingest(conn, version, many)
    rows = stored_rollups(conn, version, PLAIN)
    place = ("marketdata.store.prune", "_delete", "1", "after")
    arguments = ("prune", "--before", "2024-02-03", "--symbol", PLAIN)
    killed = subprocess.run([sys.executable, "-c", KILLED, *place, *arguments], env=environment(fresh), check=False)
    assert killed.returncode == -9
    assert 0 < len(stored_ticks(conn, version, PLAIN)) - 8 < 4100 + 12
    assert ticks.ingest(conn, version, [tick(PLAIN, "late", START)]).outcomes == ["pruned"]
    assert stored_rollups(conn, version, PLAIN) == rows
    assert command(*arguments).returncode == 0
    assert days(conn, PLAIN) == [3, 4]
    assert stored_rollups(conn, version, PLAIN) == rows


def test_what_cannot_be_pruned_is_refused(conn: Connection, command: Command) -> None:
    tomorrow = f"{datetime.now(UTC) + timedelta(days=1):%Y-%m-%d}"
    for arguments, message in (
        (("--before", "2024-02-30"), "must be an existing time"),
        (("--before", "1706745600"), "looks like seconds"),
        (("--before", tomorrow), f"--before {tomorrow}T00:00:00Z is in the future: give a time in the past"),
        (("--before", "2024-02-01", "--symbol", "X:PLANE"), "has no such symbol; did you mean X:PLAIN?"),
        (("--before", "2024-02-01", "--symbol", PLAIN, "--symbol", "other"), "'other': version 1 (md_ticks_v1) has no"),
        ((), "the following arguments are required: --before"),
    ):
        done = command("prune", *arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert message in done.stderr
    assert days(conn, PLAIN) == [0, 1, 2, 3, 4]


def test_the_served_version_is_pruned(conn: Connection, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TICKS_TABLE", "md_ticks_v2")
    assert "deleted 0 ticks of 0 symbols" in command("prune", "--before", "2024-02-01").stdout
    assert days(conn, PLAIN) == [0, 1, 2, 3, 4]
