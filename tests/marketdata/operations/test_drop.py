"""``bin/marketdata-drop``: what it removes, and when it refuses."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from contextlib import closing

import pytest

from marketdata.ingest.outbox import Outbox
from marketdata.interval import SECOND
from marketdata.operations.copy import copying
from marketdata.settings import Settings
from marketdata.store import leases, ticks
from marketdata.store.pool import Connection, connect
from marketdata.store.version import registered
from tests.marketdata.conftest import Command
from tests.marketdata.operations.test_copy import environment
from tests.marketdata.store.conftest import START, tick

OBJECTS = """
    SELECT count(*) FROM (SELECT relname::text AS name FROM pg_class UNION ALL SELECT proname::text FROM pg_proc) named
    WHERE name ~ '_v2(_|$)'"""


@pytest.fixture
def conn(two_versions: Connection) -> Connection:
    """Versions 1, the current one, and 2, with a tick of two symbols each."""
    for each in registered(two_versions, "md"):
        ticks.ingest(two_versions, each.version, [tick(name, "1", START + SECOND, "5") for name in "AB"])
    return two_versions


def numbers(connection: Connection) -> list[int]:
    return [each.n for each in registered(connection, "md")]


def test_a_version_is_dropped_with_all_that_belongs_to_it(conn: Connection, command: Command, fresh: Settings) -> None:
    assert command("copy", "1", "2").returncode == 0
    assert command("cutover", "2").returncode == 0
    assert command("cutover", "1").returncode == 0  # the switch leaves the function of the pause in version 2
    assert command("version", "2").returncode == 0  # writes its settings file
    done = command("drop", "2", "--yes")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "dropped version 2 (md_ticks_v2: 2 ticks of 2 symbols)",
        f"{fresh.state_dir}/v2.env: kept; bin/marketdata-version 2 would use it again",
    ]
    assert numbers(conn) == [1]
    assert conn.execute(OBJECTS).fetchone() == (0,)
    assert conn.execute("SELECT count(*) FROM md_ticks_v1").fetchone() == (2,)
    assert command("version", "2").returncode == 0, "it can be created again"


def test_only_outboxes_of_the_version_are_removed(conn: Connection, command: Command, fresh: Settings) -> None:
    tables = ("md_ticks_v1", "md_ticks_v2")
    paths = {table: fresh.state_dir / "ingestor" / f"{table}.sqlite" for table in tables}
    (fresh.state_dir / "ingestor").mkdir()
    for table in tables:
        with closing(Outbox(paths[table])) as outbox:
            outbox.bind(table)
    done = command("drop", "2", "--yes")
    assert done.returncode == 0
    assert f"{paths['md_ticks_v2']}: removed" in done.stdout
    assert [table for table in tables if paths[table].exists()] == ["md_ticks_v1"]


def test_a_version_that_lost_its_tables_is_dropped(conn: Connection, command: Command) -> None:
    conn.execute("DROP TABLE md_ticks_v2, md_rollups_v2")
    assert command("drop", "2", "--yes").returncode == 0
    assert numbers(conn) == [1]
    assert conn.execute(OBJECTS).fetchone() == (0,)


def test_the_current_version_is_refused(conn: Connection, command: Command) -> None:
    done = command("drop", "1", "--yes")
    assert done.returncode == 1
    assert "version 1 is the current one and is not dropped: first make another version current" in done.stderr
    assert numbers(conn) == [1, 2]


def test_a_version_that_a_copy_or_ingestor_uses_stays(conn: Connection, command: Command, fresh: Settings) -> None:
    with connect(fresh.database_url) as other, copying(other, "md"):
        done = command("drop", "2", "--yes")
    assert (done.returncode, "a copy of versions with the prefix md runs" in done.stderr) == (4, True)
    leases.take(conn, "ingestor-md_ticks_v2", "here 1", 30)
    done = command("drop", "2", "--yes")
    assert (done.returncode, "the ingestor here 1 writes to md_ticks_v2: stop it first" in done.stderr) == (4, True)
    assert numbers(conn) == [1, 2]


def test_objects_that_need_the_version_are_named(conn: Connection, command: Command) -> None:
    conn.execute("CREATE VIEW mine AS SELECT price FROM md_ticks_v2")
    done = command("drop", "2", "--yes")
    assert done.returncode == 1
    assert "other objects need version 2: view mine depends on table md_ticks_v2; drop these first" in done.stderr
    assert numbers(conn) == [1, 2]


def test_it_asks_only_on_a_terminal(conn: Connection, fresh: Settings) -> None:
    done = subprocess.run(
        dropping(), env=environment(fresh), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "standard input is no terminal, so nobody can be asked whether to drop version 2" in done.stderr
    assert "give --yes" in done.stderr
    for answer, code, left in (("n", 1, [1, 2]), ("y", 0, [1])):
        assert answered(fresh, answer) == code
        assert numbers(conn) == left


def answered(fresh: Settings, answer: str) -> int:
    """The exit code after this answer on a terminal."""
    ours, theirs = pty.openpty()
    try:
        os.write(ours, f"{answer}\n".encode())
        return subprocess.run(dropping(), env=environment(fresh), stdin=theirs, timeout=60, check=False).returncode
    finally:
        os.close(ours)
        os.close(theirs)


def dropping() -> list[str]:
    return [sys.executable, "-P", "-m", "marketdata", "drop", "2"]
