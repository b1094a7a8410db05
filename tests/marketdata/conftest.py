"""A real PostgreSQL for the tests: one private cluster for the whole run, started by the service's own code."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from marketdata.cli import main
from marketdata.postgres import locks
from marketdata.postgres.client import Client
from marketdata.postgres.cluster import Cluster
from marketdata.postgres.processes import signal_and_wait
from marketdata.settings import Settings, declared, load
from marketdata.store.pool import Connection, connect
from tests.run_folder import made_once


@pytest.fixture(scope="session", autouse=True)
def _no_settings_of_the_shell() -> None:
    for setting in declared().values():
        os.environ.pop(setting.name, None)


TEMPLATES = ("template1", "versions_1", "versions_2")
"""The databases of which ``new_database`` makes copies, by the number of their versions."""


@pytest.fixture(scope="session")
def postgres(run_folder: Path) -> Iterator[str]:
    """The connection string of the cluster of the run, as its superuser. All workers share it; tests work in
    ``database`` or ``new_database``."""
    folder = run_folder / "postgres"
    with made_once(folder) as is_first:
        if is_first:
            with Client(folder, linger=False) as client:
                configure(client.conninfo)
        client = Client(folder)
        if is_first:
            prepare(client.conninfo, folder)
    yield client.conninfo
    with made_once(folder):  # no other worker starts or ends a client meanwhile
        client.close()
        end_unused(folder)


def end_unused(folder: Path) -> None:
    """End the cluster at once, unless another worker uses it. A usual stop would write all of it to the disk first."""
    clients, owner = locks.open_clients_lock(folder), locks.open_owner_lock(folder)
    status = locks.read_status(owner)
    if not set(locks.holders(clients)) - {status["pid"]}:
        for name, number in (("pid", signal.SIGKILL), ("postgres", signal.SIGQUIT)):
            assert signal_and_wait([status[name]], number, 60) == []
        assert signal_and_wait(Cluster(folder).processes(), signal.SIGKILL, 60) == []
    os.close(clients)
    os.close(owner)


def configure(postgres: str) -> None:
    """Every test is quicker without fsync. Only a failure of the machine then loses data; a killed process loses none.
    Autovacuum would visit hundreds of databases. All workers together need more connections than one service."""
    with psycopg.connect(postgres, autocommit=True) as connection:
        for setting in ("fsync = off", "full_page_writes = off", "autovacuum = off", "max_connections = 400"):
            connection.execute(f"ALTER SYSTEM SET {setting}")  # type: ignore[arg-type]


def prepare(postgres: str, folder: Path) -> None:
    """Make the databases that ``new_database`` copies."""
    with (
        psycopg.connect(postgres, autocommit=True) as connection,
        pytest.MonkeyPatch.context() as environment,
        contextlib.redirect_stdout(io.StringIO()),
    ):
        environment.setenv("MARKET_STATE_DIR", str(folder))
        for number, (before, name) in enumerate(pairwise(TEMPLATES), start=1):
            connection.execute(f"CREATE DATABASE {name} TEMPLATE {before}")
            environment.setenv("DATABASE_URL", make_conninfo(postgres, dbname=name))
            assert main(("version", str(number))) == 0


@pytest.fixture(scope="session")
def new_database(postgres: str) -> Callable[..., str]:
    """``new_database()`` is the URL of a fresh, empty database in the run's cluster, and ``new_database(versions=2)``
    of one with the versions 1, the current one, and 2, without ticks. ``options`` are those of CREATE DATABASE."""

    def make(options: str = "", versions: int = 0) -> str:
        name = f"test_{uuid.uuid4().hex}"
        options = options or f"TEMPLATE {TEMPLATES[versions]} STRATEGY FILE_COPY"  # a quarter of the usual time
        with psycopg.connect(postgres, autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{name}" {options}')
        return make_conninfo(postgres, dbname=name)

    return make


@pytest.fixture(scope="module")
def database(new_database: Callable[[], str]) -> str:
    """The connection string of a database that the tests of one module share."""
    return new_database()


@pytest.fixture
def settings(state_dir: Path, database: str) -> Settings:
    """Settings with a state directory of the test's own, free ports, and the module's database as DATABASE_URL."""
    return load(
        {
            "MARKET_STATE_DIR": str(state_dir),
            "DATABASE_URL": database,
            "MARKET_API_PORT": "0",
            "MARKET_FRONTEND_PORT": "0",
        }
    )


class Done(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


Command = Callable[..., Done]


@pytest.fixture
def fresh(request: pytest.FixtureRequest, settings: Settings, new_database: Callable[..., str]) -> Settings:
    """Settings with a database of the test's own: an empty one, or that of ``two_versions``."""
    versions = 2 if "two_versions" in request.fixturenames else 0
    return replace(settings, database_url=new_database(versions=versions))


@pytest.fixture
def run_command(capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs a command within this process."""

    def run(*arguments: str) -> Done:
        try:
            code = main(arguments)
        except SystemExit as error:  # argparse raises it
            code = int(error.code or 0)
        return Done(code, *capsys.readouterr())

    return run


@pytest.fixture
def command(fresh: Settings, monkeypatch: pytest.MonkeyPatch, run_command: Command) -> Command:
    """Runs a command on the database of ``fresh``, within this process."""
    monkeypatch.setenv("DATABASE_URL", fresh.database_url)
    monkeypatch.setenv("MARKET_STATE_DIR", str(fresh.state_dir))
    return run_command


@pytest.fixture
def two_versions(fresh: Settings) -> Iterator[Connection]:
    """A connection to the database of ``fresh``, with the versions 1, the current one, and 2, both without ticks."""
    with connect(fresh.database_url) as connection:
        yield connection
