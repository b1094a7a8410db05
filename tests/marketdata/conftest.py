"""A real PostgreSQL for the tests: one private cluster for the whole run, started by the service's own code."""

from __future__ import annotations

import os
import tempfile
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from marketdata.cli import main
from marketdata.postgres.client import Client
from marketdata.settings import Settings, declared, load
from marketdata.store.pool import Connection, connect
from tests.marketdata.citus.cluster import CitusCluster, citus_cluster


@pytest.fixture(scope="session", autouse=True)
def _no_settings_of_the_shell() -> None:
    for setting in declared().values():
        os.environ.pop(setting.name, None)


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The connection string of the run's cluster, as its superuser. Tests work in ``database`` or ``new_database``."""
    with (
        tempfile.TemporaryDirectory(prefix="market-", dir="/tmp", ignore_cleanup_errors=True) as folder,
        Client(Path(folder), linger=False) as client,
    ):
        with psycopg.connect(client.conninfo, autocommit=True) as connection:
            # Every test is quicker. Only a failure of the machine loses data without fsync; a killed process loses
            # none.
            connection.execute("ALTER SYSTEM SET fsync = off")
            connection.execute("SELECT pg_reload_conf()")
        yield client.conninfo


@pytest.fixture(scope="session")
def new_database(postgres: str) -> Callable[..., str]:
    """``new_database()`` is the URL of a fresh, empty database in the run's cluster; ``options`` are those
    of CREATE DATABASE."""

    def make(options: str = "") -> str:
        name = f"test_{uuid.uuid4().hex}"
        with psycopg.connect(postgres, autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{name}" {options}')
        return make_conninfo(postgres, dbname=name)

    return make


@pytest.fixture(scope="session")
def citus(pytestconfig: pytest.Config) -> Iterator[CitusCluster]:
    """A Citus for the whole run, only with --full."""
    if not pytestconfig.getoption("full"):
        pytest.skip("only with --full: it starts a Citus of four nodes")
    with citus_cluster() as cluster:
        yield cluster


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
def fresh(settings: Settings, new_database: Callable[[], str]) -> Settings:
    """Settings with an empty database."""
    return replace(settings, database_url=new_database())


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
    assert fresh.database_url is not None
    monkeypatch.setenv("DATABASE_URL", fresh.database_url)
    monkeypatch.setenv("MARKET_STATE_DIR", str(fresh.state_dir))
    return run_command


@pytest.fixture
def two_versions(fresh: Settings, command: Command) -> Iterator[Connection]:
    """A connection to a database with the versions 1, the current one, and 2, both without ticks."""
    assert fresh.database_url is not None
    for n in ("1", "2"):
        assert command("version", n).returncode == 0
    with connect(fresh.database_url) as connection:
        yield connection
