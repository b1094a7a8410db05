"""The private cluster by itself: how it is made, what it refuses, what it repairs."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from marketdata.errors import MissingRequirement, StateError, UsageError
from marketdata.postgres import binaries, processes
from marketdata.postgres.access import check_socket_path
from marketdata.postgres.cluster import Cluster
from tests.capabilities import needs
from tests.functional.market_process import give_cluster

pytestmark = pytest.mark.functional

needs_root = needs(os.geteuid() == 0, "root, who runs PostgreSQL as another account")


def start(cluster: Cluster) -> None:
    cluster.prepare()
    cluster.start()
    while not cluster.is_ready():
        assert cluster.postmaster.poll() is None, cluster.recent_log()
        threading.Event().wait(0.02)


@pytest.fixture(scope="module")
def made() -> Iterator[Path]:
    """A cluster that was started once and shut down, for tests to copy, without settings of its own.

    It is not in a folder of pytest: every run of pytest closes these folders to other users, also to postgres.
    """
    with tempfile.TemporaryDirectory(prefix="market-", dir="/tmp") as folder:
        give_cluster(Path(folder))
        (Path(folder) / "cluster" / "data" / "postgresql.auto.conf").write_text("")
        yield Path(folder, "cluster")


@pytest.fixture
def cluster(state_dir: Path, made: Path) -> Iterator[Cluster]:
    subprocess.run(["cp", "-a", made, state_dir / "cluster"], check=True)
    cluster = Cluster(state_dir)
    yield cluster
    cluster.stop()
    assert cluster.processes() == []


def value(cluster: Cluster, expression: str) -> object:
    with psycopg.connect(cluster.conninfo) as connection:
        row = connection.execute(f"SELECT {expression}").fetchone()  # type: ignore[arg-type]
    return row[0]


def test_the_cluster_has_the_settings_of_the_service(cluster: Cluster) -> None:
    start(cluster)
    settings = (
        "data_checksums", "fsync", "synchronous_commit", "full_page_writes", "jit", "listen_addresses", "TimeZone",
    )  # fmt: skip
    found = [value(cluster, f"current_setting('{name}')") for name in settings]
    assert found == ["on", "on", "on", "on", "off", "", "UTC"]
    assert value(cluster, "current_setting('unix_socket_directories')") == f'"{cluster.folder}"'
    assert value(cluster, "current_setting('unix_socket_permissions')") == "0700"
    assert value(cluster, "'a' < 'B'") is False  # by code point, as C does
    assert value(cluster, "getdatabaseencoding()") == "UTF8"
    assert stat.S_IMODE(cluster.folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(cluster.log.stat().st_mode) == 0o600
    owner = cluster.postmaster.pid
    assert (Path("/proc") / str(owner)).stat().st_uid != 0
    cluster.stop()
    cluster.stop()
    assert "database system is shut down" in cluster.recent_log()


def test_it_ends_though_the_shell_around_ignores_the_signal(cluster: Cluster) -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        cluster.prepare()
        cluster.start()
        cluster.postmaster.send_signal(signal.SIGINT)  # before it can have set its handlers
        cluster.postmaster.wait(timeout=60)
    finally:
        signal.signal(signal.SIGINT, before)


def test_stopped_processes_are_continued_to_shut_down(cluster: Cluster) -> None:
    start(cluster)
    for pid in cluster.processes():
        os.kill(pid, signal.SIGSTOP)
    cluster.stop()
    assert "database system is shut down" in cluster.recent_log()


def test_a_process_that_a_debugger_holds_does_not_prevent_the_end(cluster: Cluster) -> None:
    """PostgreSQL is killed, and the next start recovers."""
    start(cluster)
    with psycopg.connect(cluster.conninfo, autocommit=True) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 1 AS n")
        pid = connection.info.backend_pid
        command = ["gdb", "-nx", "-q", "-p", str(pid)]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as gdb:
            try:
                while " (tracing stop)" not in Path(f"/proc/{pid}/status").read_text():
                    threading.Event().wait(0.02)
                cluster.stop()
            finally:
                gdb.kill()
    cluster.postmaster.wait(timeout=60)
    start(cluster)
    assert value(cluster, "(SELECT n FROM kept)") == 1


def test_a_pid_file_whose_number_went_to_another_process_is_repaired(cluster: Cluster) -> None:
    account = processes.Account.of_this_process()
    other = subprocess.Popen(["sleep", "600"], **account.options)
    try:
        (cluster.data / "postmaster.pid").write_text(f"{other.pid}\n{cluster.data}\n0\n5432\n\n\n0 0\nready\n")
        (cluster.folder / ".s.PGSQL.5432.lock").write_text(f"{other.pid}\n")
        start(cluster)
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_a_pid_file_of_before_is_not_taken_for_ready(cluster: Cluster) -> None:
    cluster.prepare()
    cluster.start()
    (pid := cluster.data / "postmaster.pid").unlink(missing_ok=True)
    pid.write_text(f"1\n{cluster.data}\n0\n5432\n\n\n0 0\nready\n")
    assert not cluster.is_ready()
    cluster.postmaster.send_signal(signal.SIGQUIT)


def test_data_of_another_major_version_are_refused_with_the_remedy(cluster: Cluster) -> None:
    (cluster.data / "PG_VERSION").write_text("9\n")
    with pytest.raises(StateError) as caught:
        cluster.prepare()
    assert caught.value.code == "other_major_version"
    for word in ("by PostgreSQL 9; installed: ", "bin/marketdata-db upgrade", "MARKET_STATE_DIR", "DATABASE_URL"):
        assert word in caught.value.detail


@needs_root
def test_a_parent_that_postgres_cannot_pass_is_named(state_dir: Path) -> None:
    (state_dir / "a").mkdir(mode=0o700)
    (state_dir / "a" / "b").mkdir()
    state_dir.chmod(0o711)
    with pytest.raises(StateError) as caught:
        Cluster(state_dir / "a" / "b").prepare()
    assert caught.value.code == "untraversable"
    assert f"cannot traverse {state_dir}/a to" in caught.value.detail
    assert "MARKET_STATE_DIR" in caught.value.detail


def test_a_socket_path_that_is_too_long_is_refused(state_dir: Path) -> None:
    check_socket_path(Path("/" + "x" * 106), "MARKET_X")
    with pytest.raises(UsageError, match=r"has 108 bytes.*MARKET_X"):
        check_socket_path(Path("/" + "x" * 107), "MARKET_X")
    with pytest.raises(UsageError, match=r"contains a comma.*MARKET_X"):
        check_socket_path(Path("/a,b"), "MARKET_X")
    with pytest.raises(UsageError, match="MARKET_STATE_DIR"):
        Cluster(state_dir / ("x" * 100)).prepare()


def test_an_incomplete_cluster_is_removed(state_dir: Path) -> None:
    (state_dir / "cluster" / "data.new-1").mkdir(parents=True)
    cluster = Cluster(state_dir)
    cluster.prepare()
    assert [path.name for path in cluster.folder.iterdir()] == ["data"]


# -- the programs ----------------------------------------------------------------------------------------------------


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], Path]:
    """``install(17)`` is the folder of a stand-in for PostgreSQL 17; the real PostgreSQL is not found."""
    monkeypatch.setattr(binaries, "_SYSTEM", (f"{tmp_path}/*/bin",))
    monkeypatch.setattr(binaries, "WHEEL", "no_such_wheel")
    monkeypatch.setattr(shutil, "which", lambda _name: None)

    def make(major: int) -> Path:
        folder = tmp_path / str(major) / "bin"
        folder.mkdir(parents=True)
        for name in ("initdb", "postgres"):
            (folder / name).write_text(f"#!/bin/sh\necho 'postgres (PostgreSQL) {major}.4 (Debian {major}.4-1)'\n")
            (folder / name).chmod(0o755)
        return folder

    return make


def test_the_newest_postgresql_is_taken_and_for_data_their_own(install: Callable[[int], Path], tmp_path: Path) -> None:
    folders = {major: install(major) for major in (9, 15, 17, 16)}
    assert binaries.find(data_major=None, data=tmp_path).folder == folders[17]
    assert binaries.find(data_major=16, data=tmp_path).folder == folders[16]


def test_without_a_new_enough_postgresql_the_remedy_is_named(install: Callable[[int], Path], tmp_path: Path) -> None:
    install(14)
    with pytest.raises(MissingRequirement, match=r"PostgreSQL 15 or newer.*apt-get install postgresql.*DATABASE_URL"):
        binaries.find(data_major=None, data=tmp_path)


def test_the_wheel_steps_in_for_a_normal_user_only(
    install: Callable[[int], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = tmp_path / "site" / "a_wheel"
    (wheel / "pginstall").mkdir(parents=True)
    (wheel / "__init__.py").write_text("")
    install(16).rename(wheel / "pginstall" / "bin")
    (wheel / "pginstall18").mkdir()
    install(18).rename(wheel / "pginstall18" / "bin")
    monkeypatch.syspath_prepend(tmp_path / "site")
    monkeypatch.setattr(binaries, "WHEEL", "a_wheel")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert binaries.find(data_major=None, data=tmp_path).folder == wheel / "pginstall18" / "bin"
    system = install(15)
    assert binaries.find(data_major=None, data=tmp_path).folder == system
    assert binaries.find(data_major=16, data=tmp_path).folder == wheel / "pginstall" / "bin"
    assert binaries.find(data_major=18, data=tmp_path).folder == wheel / "pginstall18" / "bin"
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(StateError):
        binaries.find(data_major=18, data=tmp_path)
