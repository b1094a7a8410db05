"""Backup and restore of the database that ``DATABASE_URL`` names."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from marketdata.backup import archive
from marketdata.interval import SECOND
from marketdata.settings import Settings
from marketdata.store import migrations, ticks
from marketdata.store.pool import connect
from marketdata.store.version import registered
from tests.functional.killed import KILLED, ROOT
from tests.marketdata.conftest import Command
from tests.marketdata.store.conftest import START, tick


def test_another_database_is_backed_up_and_restored(
    fresh: Settings, command: Command, new_database: Callable[[], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert command("version", "1").returncode == 0
    monkeypatch.setenv("MARKET_PREFIX", "abc")
    assert command("version", "1").returncode == 0
    monkeypatch.delenv("MARKET_PREFIX")
    with connect(fresh.database_url) as connection:
        (entry,) = registered(connection, "md")
        ticks.ingest(connection, entry.version, [tick("A", "1", START + SECOND, "5")])
    assert command("backup", str(tmp_path / "backup")).returncode == 0
    over = command("restore", str(tmp_path / "backup"))
    assert (over.returncode, "already has the table" in over.stderr) == (1, True)

    other = new_database()
    with connect(other) as connection:  # extensions may have made tables, as Citus does on a coordinator
        connection.execute("CREATE VIEW of_extension AS SELECT 1")
        connection.execute("ALTER EXTENSION plpgsql ADD VIEW of_extension")
    monkeypatch.setenv("DATABASE_URL", other)
    monkeypatch.setenv("MARKET_STATE_DIR", str(tmp_path / "state"))
    done = command("restore", str(tmp_path / "backup"))
    assert (done.returncode, done.stderr) == (0, "")
    with connect(other) as connection:
        assert connection.execute("SELECT symbol, id FROM md_ticks_v1").fetchall() == [("A", "1")]
    for file in ("v1.env", "abc-v1.env"):
        assert (tmp_path / "state" / file).read_text() == (fresh.state_dir / file).read_text()


CLI = "marketdata.backup.cli"
FILES = "marketdata.backup.archive"
# A kill in the middle of pg_restore. This script stands in for the program, and runs on unless it is ended with its
# parent process.
PROGRAM = """#!/bin/sh
kill -9 $PPID
sleep 0.3
touch {went_on}
"""


@pytest.fixture
def backed_up(fresh: Settings, command: Command, tmp_path: Path) -> Path:
    """A backup of version 1 with a tick."""
    assert command("version", "1").returncode == 0
    with connect(fresh.database_url or "") as connection:
        (entry,) = registered(connection, "md")
        ticks.ingest(connection, entry.version, [tick("A", "1", START + SECOND, "5")])
    (fresh.state_dir / "secrets").mkdir()
    (fresh.state_dir / "secrets" / "read.json").write_text("{}")
    assert command("backup", str(tmp_path / "backup")).returncode == 0
    return tmp_path / "backup"


POINTS = (
    ("marketdata.store.migrations", "begin_restore", 1, "after"),
    (FILES, "os.link", 1, "after"),
    (CLI, "_restore_database", 1, "after"),
    ("program", "", 1, ""),
)


def test_a_killed_restore_goes_on(
    backed_up: Path, command: Command, new_database: Callable[[], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    went_on, program = tmp_path / "went_on", tmp_path / "pg_restore"
    program.write_text(PROGRAM.format(went_on=went_on))
    program.chmod(0o755)
    script = f"""
from pathlib import Path
from marketdata.backup import programs
from marketdata.cli import main
programs.find = lambda *_arguments: Path({str(program)!r})
main(["restore", {str(backed_up)!r}])
"""
    for number, point in enumerate(POINTS):
        other, state = new_database(), tmp_path / f"state{number}"
        monkeypatch.setenv("DATABASE_URL", other)
        monkeypatch.setenv("MARKET_STATE_DIR", str(state))
        arguments = [script] if point[0] == "program" else [KILLED, *map(str, point), "restore", str(backed_up)]
        killed = subprocess.run(
            [sys.executable, "-P", "-c", *arguments],
            cwd=ROOT, env=os.environ, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert killed.returncode == -signal.SIGKILL, killed.stdout + killed.stderr

        for task in (("init",), ("backup", str(tmp_path / "other"))):
            refused = command(*task)
            assert refused.returncode == 1, point
            assert f"run bin/marketdata-restore {backed_up} again" in refused.stderr
        done = command("restore", str(backed_up))
        assert (done.returncode, done.stderr) == (0, ""), point
        with connect(other) as connection:
            assert connection.execute("SELECT symbol, id FROM md_ticks_v1").fetchall() == [("A", "1")]
            connection.execute("SET ROLE marketdata_reader")
            assert connection.execute("SELECT count(*) FROM md_ticks_v1").fetchone() == (1,)
        files = {str(path.relative_to(state)) for path in state.rglob("*") if path.is_file()}
        assert files == {"v1.env", "secrets/read.json"}, point
        assert command("init").returncode == 0
    threading.Event().wait(0.5)
    assert not went_on.exists()


def test_a_finished_restore_is_not_repeated(
    backed_up: Path, command: Command, new_database: Callable[[], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kill while the tables are analyzed, after the commit, leaves a database that can be used."""
    other, state = new_database(), tmp_path / "state"
    monkeypatch.setenv("DATABASE_URL", other)
    monkeypatch.setenv("MARKET_STATE_DIR", str(state))
    killed = subprocess.run(
        [sys.executable, "-P", "-c", KILLED, CLI, "_analyze", "1", "before", "restore", str(backed_up)],
        cwd=ROOT, env=os.environ, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert killed.returncode == -signal.SIGKILL, killed.stdout + killed.stderr
    assert command("init").returncode == 0
    for said in ("restored", "already restored"):
        (state / "secrets" / "read.json").write_text('{"token": "of a rotation since"}')
        done = command("restore", str(backed_up))
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.endswith(f"{said} {backed_up} into {state}\n"), done.stdout
        with connect(other) as connection:
            analyzed = connection.execute("SELECT count(*) > 0 FROM pg_stats WHERE tablename = 'md_ticks_v1'")
            assert analyzed.fetchone() == (True,)
    assert command("backup", str(tmp_path / "next")).returncode == 0
    monkeypatch.setenv("DATABASE_URL", new_database())
    monkeypatch.setenv("MARKET_STATE_DIR", str(tmp_path / "elsewhere"))
    assert command("restore", str(tmp_path / "next")).returncode == 0


def test_an_unfinished_restore_is_not_completed_by_another_backup(
    backed_up: Path, command: Command, new_database: Callable[[], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert command("token", "create", "--name", "later", "--scope", "read").returncode == 0
    assert command("backup", str(tmp_path / "later")).returncode == 0
    other = new_database()
    monkeypatch.setenv("DATABASE_URL", other)
    monkeypatch.setenv("MARKET_STATE_DIR", str(tmp_path / "state"))
    with connect(other) as connection:
        migrations.begin_restore(connection, migrations.Restore(str(backed_up), archive.identity(backed_up)))
    done = command("restore", str(tmp_path / "later"))
    assert (done.returncode, f"the restore of {backed_up} into this database has not ended" in done.stderr) == (1, True)
