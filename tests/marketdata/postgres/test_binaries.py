"""PostgreSQL's programs are replaced while they run: it is started again, with complete files only."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from marketdata.postgres.binaries import Binaries, ReplacementWatch
from tests.functional.market_process import give_cluster
from tests.functional.serving import until
from tests.marketdata.postgres.client_process import ClientProcess, Watched
from tests.marketdata.postgres.minor_upgrade import Installation

Replace = Callable[[str], None]


@pytest.fixture
def programs(tmp_path: Path) -> Replace:
    """``programs(version)`` replaces the program and its library by those of this version."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "lib").mkdir()

    def replace(version: str) -> None:
        fresh = tmp_path / "fresh"
        fresh.write_text(f"#!/bin/sh\necho 'postgres (PostgreSQL) {version}'\n")
        fresh.chmod(0o755)
        fresh.rename(tmp_path / "bin" / "postgres")
        fresh.write_text(version)
        fresh.rename(tmp_path / "lib" / "plpgsql.so")

    replace("15.1")
    return replace


@pytest.fixture
def watch(tmp_path: Path, programs: Replace) -> ReplacementWatch:
    return ReplacementWatch(Binaries(tmp_path / "bin", 15), settled=0.0)


def test_other_files_are_noticed_until_they_are_started(watch: ReplacementWatch, programs: Replace) -> None:
    assert not watch.is_replaced()
    watch.started()
    assert not watch.is_replaced()
    programs("15.2")
    assert watch.is_replaced()
    assert watch.is_replaced()
    watch.started()
    assert not watch.is_replaced()


def test_a_file_that_was_touched_by_a_reinstallation_counts(watch: ReplacementWatch, tmp_path: Path) -> None:
    os.utime(tmp_path / "lib" / "plpgsql.so", (1, 1))
    assert watch.is_replaced()


def test_another_major_version_is_not_started(watch: ReplacementWatch, programs: Replace) -> None:
    programs("16.1")
    assert not watch.is_replaced()
    programs("15.2")
    assert watch.is_replaced()


def test_a_missing_file_is_waited_for(watch: ReplacementWatch, programs: Replace, tmp_path: Path) -> None:
    for number, name in enumerate(("bin/postgres", "lib/plpgsql.so"), start=2):
        (tmp_path / name).unlink()
        assert not watch.is_replaced(), name
        programs(f"15.{number}")
        assert watch.is_replaced(), name
        watch.started()


def test_an_unfinished_package_is_waited_for(watch: ReplacementWatch, programs: Replace, tmp_path: Path) -> None:
    programs("15.2")
    for name in ("bin/initdb.dpkg-new", "lib/plpgsql.so.dpkg-tmp"):
        (tmp_path / name).touch()
        assert not watch.is_replaced(), name
        (tmp_path / name).unlink()
        assert watch.is_replaced(), name


def test_files_that_still_change_are_waited_for(programs: Replace, tmp_path: Path) -> None:
    now = 1000.0
    watch = ReplacementWatch(Binaries(tmp_path / "bin", 15), settled=1.0, clock=lambda: now)
    for number in range(2, 5):
        programs(f"15.{number}")
        assert not watch.is_replaced()
        now += 0.9
    assert not watch.is_replaced()
    now += 0.2
    assert watch.is_replaced()


@pytest.fixture
def installation() -> Iterator[Installation]:
    with tempfile.TemporaryDirectory(prefix="programs-", dir="/tmp") as folder:
        yield Installation(Path(folder))


@pytest.fixture
def client(state_dir: Path, installation: Installation) -> Iterator[ClientProcess]:
    give_cluster(state_dir)
    client = ClientProcess(state_dir, **installation.environment)
    assert client.answer() == "ready"
    yield client
    client.kill()


@pytest.mark.functional
def test_replaced_programs_are_started(state_dir: Path, installation: Installation, client: ClientProcess) -> None:
    watched = Watched(state_dir)
    first = watched.status()
    assert Path(f"/proc/{first['postgres']}/exe").resolve() == installation.postgres
    ask(watched, "CREATE TABLE kept AS SELECT 1 AS n")
    os.utime(installation.postgres, (1, 1))
    until(lambda: watched.status().get("postgres", first["postgres"]) != first["postgres"], 60)
    ask(watched, "INSERT INTO kept VALUES (2)")
    assert watched.status()["pid"] == first["pid"]
    running = watched.processes()
    client.leave()
    watched.assert_gone(running)


def ask(watched: Watched, statement: str) -> None:
    with psycopg.connect(watched.cluster.conninfo, autocommit=True) as connection:
        connection.execute(statement)  # type: ignore[arg-type]
