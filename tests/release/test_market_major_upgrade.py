"""A major upgrade of the private PostgreSQL by its one command, on the real programs of two major versions."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from marketdata.postgres.client import Client as DatabaseClient
from marketdata.postgres.cluster import Cluster
from tests.capabilities import need
from tests.functional.killed import KILLED
from tests.functional.market_process import ROOT, ApiProcess, Client
from tests.functional.test_market_backup import bodies, command, fill, tick
from tests.release import postgresql_wheels

pytestmark = pytest.mark.functional

SECONDS = 120
MAJORS = (16, 17)
COLUMN_VERSION = b"pg_attver"
"""An option that PostgreSQL gives to columns since release 15.20 and those of the same day. The programs
of earlier releases dump it and cannot restore it."""
UPGRADE = "marketdata.backup.major_upgrade"
POINTS = (
    (UPGRADE, "programs.run", 5, "after"),  # pg_restore of the first database
    (UPGRADE, "exchange", 1, "after"),
)


class Old:
    """A state directory of an older PostgreSQL, and a newer one beside it."""

    def __init__(self, state_dir: Path, before: dict[str, str], both: dict[str, str], majors: tuple[int, int]) -> None:
        self.state_dir = state_dir
        self.before = before
        self.both = both
        self.old, self.new = majors

    def run(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        return command(self.state_dir, *arguments, **self.both)

    def upgraded(self) -> str:
        done = self.run("db", "upgrade")
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    def serving(self, **environment: str) -> ApiProcess:
        api = ApiProcess(self.state_dir, **environment or self.both)
        api.start()
        return api

    def major(self, folder: str = "cluster") -> int:
        return int((self.state_dir / folder / "data" / "PG_VERSION").read_text())

    def asked(self, query: str) -> Any:
        with DatabaseClient(self.state_dir, linger=False) as client, psycopg.connect(client.conninfo) as connection:
            return connection.execute(query).fetchall()  # type: ignore[arg-type]


@pytest.fixture
def made(state_dir: Path, postgresqls: dict[int, Path], monkeypatch: pytest.MonkeyPatch) -> Iterator[Old]:
    """A state directory for which the older PostgreSQL can be chosen alone, or both."""
    for major in MAJORS:
        need(major in postgresqls, f"PostgreSQL {major}, in the system or in a wheel")
    old, new = (COLUMN_VERSION in (postgresqls[major] / "pg_dump").read_bytes() for major in MAJORS)
    need(new or not old, f"a PostgreSQL {MAJORS[1]} that is newer than this release of {MAJORS[0]}")
    environments = []
    with tempfile.TemporaryDirectory(prefix="chosen-", dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        for name, majors in (("before", MAJORS[:1]), ("both", MAJORS)):
            place = Path(folder, name)
            place.mkdir(0o755)
            environments.append(postgresql_wheels.only(place, *(postgresqls[major] for major in majors)))
        before, both = environments
        monkeypatch.setenv("PYTHONPATH", both["PYTHONPATH"])  # for the owners that this process starts
        yield Old(state_dir, before, both, MAJORS)


@pytest.fixture
def old(made: Old) -> Iterator[Old]:
    """The same with two versions, an alias, a revoked token, and settings and roles of an administrator."""
    api = made.serving(**made.before)
    with closing(Client(api.port, api.token("alg"))) as write:
        fill(write)
    for arguments in (
        ("version", "2"),
        ("alias", "add", "BACKUP:ALIAS", "BACKUP:A-B"),
        ("token", "create", "--name", "gone", "--scope", "read"),
        ("token", "revoke", "3"),
    ):
        done = command(made.state_dir, *arguments, **made.before)
        assert done.returncode == 0, done.stderr
    with psycopg.connect(Cluster(made.state_dir).conninfo, autocommit=True) as connection:
        for statement in (
            "ALTER ROLE marketdata_reader LOGIN PASSWORD 'a password'",
            "ALTER ROLE marketdata_reader SET work_mem = '7MB'",
            "CREATE ROLE analyst NOINHERIT IN ROLE marketdata_reader",
            "ALTER DATABASE marketdata SET marketdata.note = 'kept'",
            "CREATE DATABASE other",
            "ALTER SYSTEM SET maintenance_work_mem = '77MB'",
        ):
            connection.execute(statement)  # type: ignore[arg-type]
    refused = made.run("db", "upgrade")
    assert (refused.returncode, f"process {api.pid} (marketdata api). Stop them" in refused.stderr) == (1, True)
    assert api.stop() == 0
    yield made
    assert Cluster(made.state_dir).processes() == []
    assert Cluster(made.state_dir / "upgrade").processes() == []


def check(old: Old, answers: dict[str, Any], major: int) -> None:
    """The API, on a PostgreSQL of this major version, gives the answers."""
    assert answers_of(old) == answers
    assert old.major() == major


def answers_of(old: Old) -> dict[str, Any]:
    api = old.serving()
    try:
        return bodies(api, api.token("read"))
    finally:
        assert api.stop() == 0


def test_an_upgrade_keeps_data_roles_and_settings(old: Old) -> None:
    answers = answers_of(old)
    assert old.major() == old.old  # a newer PostgreSQL that is only installed changes nothing
    roles = "SELECT rolname, rolcanlogin, rolinherit, rolpassword FROM pg_authid WHERE rolname !~ '^pg_' ORDER BY 1"
    tokens = "SELECT * FROM api_tokens ORDER BY id"
    granted = "SELECT has_table_privilege('marketdata_reader', 'md_ticks_v2', 'SELECT')"
    before = [old.asked(query) for query in (roles, tokens, granted)]

    said = old.upgraded()
    assert f"switching to PostgreSQL {old.new}" in said
    assert f"rm -r {old.state_dir}/cluster.previous" in said
    assert (old.major(), old.major("cluster.previous")) == (old.new, old.old)
    assert not (old.state_dir / "upgrade").exists()
    assert [old.asked(query) for query in (roles, tokens, granted)] == before
    check(old, answers, old.new)
    assert old.asked("SELECT current_setting('marketdata.note'), current_setting('maintenance_work_mem')") == [
        ("kept", "77MB")
    ]
    assert old.asked("SELECT setconfig FROM pg_db_role_setting WHERE setrole = 'marketdata_reader'::regrole") == [
        (["work_mem=7MB"],)
    ]
    assert old.asked("SELECT 1 FROM pg_database WHERE datname = 'other'") == [(1,)]
    assert "no newer one is installed, so nothing was changed" in old.upgraded()

    api = old.serving()
    with closing(Client(api.port, api.token("alg"))) as write:
        assert write("POST", "/v1/ingest/tick", tick(9000))[0] == 201
    assert api.stop() == 0
    newer = answers_of(old)
    assert newer != answers
    reverted = old.run("db", "revert")
    assert (reverted.returncode, reverted.stderr) == (0, "")
    assert f"What was written since the switch is in {old.state_dir}/cluster.previous" in reverted.stdout
    check(old, answers, old.old)
    refused = old.run("db", "upgrade")
    assert (refused.returncode, "cluster.previous still holds a former database" in refused.stderr) == (1, True)
    assert old.run("db", "revert").returncode == 0
    check(old, newer, old.new)


@pytest.mark.parametrize("point", POINTS, ids=lambda point: "-".join(map(str, point[1:])))
def test_a_kill_at_any_point_is_repaired(old: Old, point: tuple[str, str, int, str]) -> None:
    answers = answers_of(old)
    killed = subprocess.run(
        [sys.executable, "-P", "-c", KILLED, *map(str, point), "db", "upgrade"],
        cwd=ROOT, env=os.environ | {"MARKET_STATE_DIR": str(old.state_dir)} | old.both,
        capture_output=True, text=True, timeout=SECONDS, check=False,
    )  # fmt: skip
    assert killed.returncode == -signal.SIGKILL, killed.stdout + killed.stderr
    repaired(old, answers, killed.stdout)


def repaired(old: Old, answers: dict[str, Any], where: str) -> None:
    """After a killed upgrade, the cluster serves requests and takes a tick. The same command then upgrades it with that
    tick."""
    api = old.serving()
    try:
        assert bodies(api, api.token("read")) == answers, where
        with closing(Client(api.port, api.token("alg"))) as write:
            assert write("POST", "/v1/ingest/tick", tick(9000))[0] == 201
        more = bodies(api, api.token("read"))
    finally:
        assert api.stop() == 0
    old.upgraded()
    assert (old.major(), old.major("cluster.previous")) == (old.new, old.old), where
    assert not (old.state_dir / "upgrade").exists()
    check(old, more, old.new)
