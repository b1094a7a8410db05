"""Backup and restore of the database that ``DATABASE_URL`` names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from marketdata.interval import SECOND
from marketdata.settings import Settings
from marketdata.store import registry, ticks
from marketdata.store.pool import connect
from tests.marketdata.conftest import Command
from tests.marketdata.store.conftest import START, tick


def test_another_database_is_backed_up_and_restored(
    fresh: Settings,
    command: Command,
    new_database: Callable[[], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert fresh.database_url is not None
    assert command("version", "1").returncode == 0
    with connect(fresh.database_url) as connection:
        (entry,) = registry.registered(connection, "md")
        ticks.ingest(connection, entry.version, [tick("A", "1", START + SECOND, "5")])
    assert command("backup", str(tmp_path / "backup")).returncode == 0
    over = command("restore", str(tmp_path / "backup"))
    assert (over.returncode, "already has the table" in over.stderr) == (1, True)

    other = new_database()
    monkeypatch.setenv("DATABASE_URL", other)
    monkeypatch.setenv("MARKET_STATE_DIR", str(tmp_path / "state"))
    done = command("restore", str(tmp_path / "backup"))
    assert (done.returncode, done.stderr) == (0, "")
    with connect(other) as connection:
        assert connection.execute("SELECT symbol, id FROM md_ticks_v1").fetchall() == [("A", "1")]
    assert (tmp_path / "state" / "v1.env").read_text() == (fresh.state_dir / "v1.env").read_text()
