"""The parts of a major upgrade that need no second PostgreSQL; ``tests/functional`` tests the whole upgrade."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import pytest

from marketdata.backup import major_upgrade
from marketdata.errors import StateError
from marketdata.interval import SECOND
from marketdata.operations.setup import make_version
from marketdata.postgres.cluster import Cluster
from marketdata.settings import Settings
from marketdata.store import ticks
from marketdata.store.pool import Connection, connect
from tests.capabilities import needs
from tests.marketdata.conftest import Command
from tests.marketdata.store.conftest import START, tick

NOBODY = 65534


class Filled(NamedTuple):
    """A database with ticks, and what it holds."""

    connection: Connection
    contents: Callable[[], dict[str, str]]


@pytest.fixture
def filled(fresh: Settings, command: Command, monkeypatch: pytest.MonkeyPatch) -> Iterator[Filled]:
    url = fresh.database_url or ""
    assert command("init").returncode == 0
    with connect(url) as connection:
        version = make_version(connection, fresh, 1, lambda _text: None)
        ticks.ingest(connection, version, [tick("A", str(number), START + number * SECOND, "5") for number in range(9)])
        # The cluster of the tests has databases of other tests.
        monkeypatch.setattr(major_upgrade, "databases", lambda _url: [connection.info.dbname])
        now = datetime.now(UTC)
        yield Filled(connection, lambda: major_upgrade.contents(url, now))


CHANGES = (
    ("UPDATE md_rollups_v1 SET high = high + 1 WHERE res = 86400", ("table", "1d candles")),
    ("INSERT INTO md_retracted_v1 VALUES (1, 'A', '0x1')", ("table",)),
    ("SELECT setval('api_tokens_id_seq', 99)", ("sequence",)),
    ("ALTER ROLE marketdata_reader CONNECTION LIMIT 3", ("role",)),
    (
        'CREATE OR REPLACE FUNCTION md_candles_v1(symbol text, bucket text, "from" timestamptz DEFAULT NULL, '
        "\"to\" timestamptz DEFAULT NULL, max_rows integer DEFAULT 500, fill text DEFAULT 'none', "
        "time_zone text DEFAULT '+00:00', current text DEFAULT 'include') RETURNS SETOF md_candle_v1 "
        "LANGUAGE sql STABLE AS 'SELECT NULL::md_candle_v1 WHERE false'",
        ("1m candles", "5m candles", "1d candles"),
    ),
)


def test_a_change_is_a_difference(filled: Filled) -> None:
    before = filled.contents()
    assert any(part.endswith("table public.md_ticks_v1") and "9 rows" in text for part, text in before.items())
    assert major_upgrade.differences(before, filled.contents()) == []
    try:
        for change, parts in CHANGES:
            with filled.connection.transaction():
                filled.connection.execute(change)  # type: ignore[arg-type]
            found = major_upgrade.differences(before, after := filled.contents())
            assert len(found) == len(parts), found
            assert all(any(part in line for line in found) for part in parts), found
            before = after
    finally:
        filled.connection.execute("ALTER ROLE marketdata_reader CONNECTION LIMIT -1")


def folder(state_dir: Path, name: str, major: int) -> Path:
    data = state_dir / name / "data"
    data.mkdir(parents=True)
    (data / "PG_VERSION").write_text(f"{major}\n")
    return data


def test_the_rest_of_a_killed_upgrade_is_removed_or_named(state_dir: Path) -> None:
    said: list[str] = []
    folder(state_dir, "cluster", 15)
    folder(state_dir, "upgrade/cluster", 17)
    (state_dir / "upgrade" / "dump").mkdir()
    major_upgrade._settle(state_dir, said.append)
    assert [path.name for path in state_dir.iterdir()] == ["cluster"]

    shutil.rmtree(state_dir / "cluster")
    folder(state_dir, "cluster", 17)
    folder(state_dir, "upgrade/cluster", 15)
    major_upgrade._settle(state_dir, said.append)
    assert (state_dir / "cluster.previous" / "data" / "PG_VERSION").read_text() == "15\n"
    assert not (state_dir / "upgrade").exists()
    (line,) = said
    assert line.startswith(
        f"{state_dir}/cluster.previous: the former database (PostgreSQL 15); bin/marketdata-db revert"
    )

    folder(state_dir, "upgrade/cluster", 16)
    with pytest.raises(StateError, match="are both former databases: remove the one that you do not need"):
        major_upgrade._settle(state_dir, said.append)
    assert (state_dir / "upgrade" / "cluster").exists()


def test_too_little_room_is_said_before(database: str, state_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    usage = shutil.disk_usage(state_dir)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage._replace(free=200 << 20))
    with pytest.raises(StateError, match=r"needs up to [\d,]+ MB in .*, 210 MB are free: make room, then try again"):
        major_upgrade._check_space(database, state_dir, said.append)
    monkeypatch.undo()
    major_upgrade._check_space(database, state_dir, said.append)
    assert len(said) == 1


@needs(os.geteuid() == 0, "root, who can give files to another account")
def test_the_data_of_others_are_left_alone(command: Command, state_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DATABASE_URL")
    (state_dir / "cluster").mkdir()
    os.chown(state_dir / "cluster", NOBODY, NOBODY)
    done = command("db", "upgrade")
    assert (done.returncode, "belongs to the account nobody: run this as this account" in done.stderr) == (1, True)
    assert [path.name for path in state_dir.iterdir()] == ["cluster"]


def test_the_settings_are_taken_through_no_link(state_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(major_upgrade, "running", lambda _cluster: contextlib.nullcontext())
    old, new = Cluster(state_dir), Cluster(state_dir / "upgrade")
    (folder(state_dir, "cluster", 15) / "postgresql.auto.conf").write_text("work_mem = '7MB'\n")
    written = folder(state_dir, "upgrade/cluster", 17) / "postgresql.auto.conf"
    major_upgrade._take_settings(old, new)
    assert written.read_text() == "work_mem = '7MB'\n"

    (other := state_dir / "other").write_text("kept")
    written.unlink()
    written.symlink_to(other)
    with pytest.raises(OSError, match="symbolic links"):
        major_upgrade._take_settings(old, new)
    assert other.read_text() == "kept"
