"""A streaming replica of a private cluster, made with pg_basebackup."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from marketdata.postgres import binaries
from marketdata.postgres.access import SUPERUSER
from marketdata.postgres.client import Client
from marketdata.postgres.cluster import Cluster
from marketdata.postgres.processes import Account
from marketdata.settings import Settings
from tests.capabilities import need
from tests.functional.market_process import give_cluster
from tests.marketdata.api.conftest import prepare


@contextmanager
def private_cluster() -> Iterator[tuple[Cluster, Settings]]:
    """A private cluster of its own: a copy of the one of the whole run would hold the databases of all tests. It has
    version 1, and ends with the block."""
    with tempfile.TemporaryDirectory(prefix="market-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        give_cluster(Path(folder))
        with Client(Path(folder), linger=False) as client:
            yield Cluster(Path(folder)), prepare(Path(folder), client.conninfo)


@contextmanager
def running_standby(primary: Cluster) -> Iterator[Standby]:
    with tempfile.TemporaryDirectory(prefix="market-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        standby = Standby(primary, Path(folder))
        standby.start()
        try:
            yield standby
        finally:
            standby.stop()


class Standby:
    """``start`` and ``stop`` may be called repeatedly; ``url`` is its connection string."""

    def __init__(self, primary: Cluster, folder: Path) -> None:
        self._found = binaries.find(data_major=None, data=folder).folder
        need((self._found / "pg_basebackup").exists(), "pg_basebackup (Debian package postgresql)")
        self._account = Account.of_this_process()
        self._folder = folder / "standby"
        self._folder.mkdir(mode=0o700)
        if os.geteuid() == 0:
            os.chown(self._folder, self._account.uid, self._account.gid)
        folder.chmod(0o711)
        self._process: subprocess.Popen[bytes] | None = None
        with psycopg.connect(primary.conninfo) as connection:
            row = connection.execute("SHOW max_connections").fetchone()
        assert row is not None
        self._connections = row[0]  # a standby needs at least as many as its primary
        done = subprocess.run(
            [self._found / "pg_basebackup", "-h", primary.folder, "-U", SUPERUSER, "-D", self._folder / "data", "-R",
             "-c", "fast"], capture_output=True, text=True, check=False, cwd="/", **self._account.options,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        self.url = make_conninfo(primary.conninfo, host=str(self._folder))

    def start(self) -> None:
        command = [
            self._found / "postgres", "-D", self._folder / "data", "-c", f"unix_socket_directories={self._folder}",
            "-c", "listen_addresses=", "-c", "hot_standby=on", "-c", f"max_connections={self._connections}",
        ]  # fmt: skip
        with (self._folder.parent / "standby.log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd="/", **self._account.options)
        for _ in range(600):
            try:
                psycopg.connect(self.url).close()
                return
            except psycopg.OperationalError:
                assert self._process.poll() is None, (self._folder.parent / "standby.log").read_text()
                threading.Event().wait(0.1)
        pytest.fail("the standby does not accept connections")

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait(60)
            self._process = None

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Let it receive, but not replay what is committed during the block."""
        self.execute("SELECT pg_wal_replay_pause()")
        while self.value("SELECT pg_get_wal_replay_pause_state()") != "paused":
            threading.Event().wait(0.01)
        try:
            yield
        finally:
            self.execute("SELECT pg_wal_replay_resume()")

    @contextmanager
    def delayed(self, milliseconds: int) -> Iterator[None]:
        """Let it replay each commit after this delay."""
        self._set_delay(milliseconds)
        try:
            yield
        finally:
            self._set_delay(0)

    def _set_delay(self, milliseconds: int) -> None:
        self.execute(f"ALTER SYSTEM SET recovery_min_apply_delay = '{milliseconds}ms'")
        self.execute("SELECT pg_reload_conf()")
        shown = "SELECT setting FROM pg_settings WHERE name = 'recovery_min_apply_delay'"
        while self.value(shown) != str(milliseconds):
            threading.Event().wait(0.01)

    def value(self, query: str) -> Any:
        with psycopg.connect(self.url, autocommit=True) as connection:
            row = connection.execute(query).fetchone()  # type: ignore[arg-type]
        assert row is not None
        return row[0]

    def execute(self, statement: str) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(statement)  # type: ignore[arg-type]
