"""The reader of the SQL interface: its password, what it reads, and what it may not do."""

from __future__ import annotations

import re
import signal
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from marketdata.cli import main
from marketdata.interval import SECOND
from marketdata.postgres.client import Client
from marketdata.store import ticks
from marketdata.store.pool import connect
from marketdata.store.version import Version
from tests.functional.market_process import ApiProcess, command, give_cluster
from tests.marketdata.store.conftest import START, tick

pytestmark = pytest.mark.functional

LINES = re.compile(r"(.+): has the new password of the role marketdata_reader\npsql \"(.+)\"\n")


class Market(NamedTuple):
    folder: Path
    owner: str


@pytest.fixture(scope="module")
def market() -> Iterator[Market]:
    """A private PostgreSQL, with all statements in its log, and a version with ticks."""
    with tempfile.TemporaryDirectory(prefix="market-", dir="/tmp", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        give_cluster(folder)
        with Client(folder, linger=False) as client:
            with psycopg.connect(client.conninfo, autocommit=True) as connection:
                connection.execute("ALTER SYSTEM SET log_statement = 'all'")
                connection.execute("SELECT pg_reload_conf()")
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("MARKET_STATE_DIR", name)
                assert main(["version", "1"]) == 0
            with connect(client.conninfo) as connection:
                found = [tick("DEMO:ETH-USD", str(i), START + i * 10 * SECOND, str(100 + i % 7)) for i in range(360)]
                ticks.ingest(connection, Version.of("md", 1), found)
            yield Market(folder, client.conninfo)


@pytest.fixture(scope="module")
def reader(market: Market) -> str:
    """The connection string that the command prints."""
    done = command(market.folder, "reader", "passwd")
    lines = LINES.fullmatch(done.stdout)
    assert lines is not None, done.stdout
    assert (lines[1], done.stderr) == (str(market.folder / "secrets" / "reader.pgpass"), "")
    assert password(market.folder) not in done.stdout
    return lines[2]


def password(folder: Path) -> str:
    return (folder / "secrets" / "reader.pgpass").read_text().strip().rpartition(":")[2]


def first_value(conninfo: str, statement: str) -> object:
    with psycopg.connect(conninfo) as connection:
        row = connection.execute(statement.encode()).fetchone()
    return row and row[0]


def test_the_password_is_in_a_file_of_the_service_alone(market: Market, reader: str) -> None:
    file = market.folder / "secrets" / "reader.pgpass"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert len(password(market.folder)) >= 32
    assert first_value(reader, "SELECT current_user") == "marketdata_reader"
    stored = first_value(market.owner, "SELECT rolpassword FROM pg_authid WHERE rolname = 'marketdata_reader'")
    assert str(stored).startswith("SCRAM-SHA-256$")
    log = (market.folder / "database.log").read_text()
    assert 'ALTER ROLE "marketdata_reader" LOGIN PASSWORD' in log
    assert password(market.folder) not in log


def test_without_the_password_or_for_another_database_there_is_no_login(market: Market, reader: str) -> None:
    for more, refusal in (
        ({"passfile": "/dev/null"}, "no password supplied"),
        ({"password": "guessed"}, "password authentication failed"),
        ({"dbname": "postgres"}, "no pg_hba.conf entry"),
        ({"user": "api_reader", "password": password(market.folder)}, "no pg_hba.conf entry"),
    ):
        with pytest.raises(psycopg.OperationalError, match=refusal):
            psycopg.connect(make_conninfo(reader, **more))


def test_it_reads_the_tables_and_the_function(reader: str) -> None:
    assert first_value(reader, "SELECT count(*) FROM md_ticks_v1 WHERE symbol = 'DEMO:ETH-USD'") == 360
    assert first_value(reader, "SELECT sum(n) FROM md_candles_v1('DEMO:ETH-USD', '1m')") == 360
    for table in ("md_symbols_v1", "md_coverage_v1", "md_candle_v1", "market_aliases"):
        first_value(reader, f"SELECT FROM {table}")


def test_it_may_do_nothing_else(market: Market, reader: str) -> None:
    with psycopg.connect(reader, autocommit=True) as connection:
        for statement in (
            "SELECT FROM api_tokens",
            "SELECT rolpassword FROM pg_authid",
            "INSERT INTO md_ticks_v1 (symbol, id, ts, price, size) VALUES ('DEMO:ETH-USD', 'x', '2024-01-31Z', 1, 1)",
            "DELETE FROM md_ticks_v1",
            "DROP TABLE md_ticks_v1",
            "CREATE TABLE of_the_reader (n int)",
            "SELECT md_retract_v1('DEMO:ETH-USD', '0x1')",
            "COPY (SELECT 1) TO PROGRAM 'cat'",
            "SELECT pg_read_file('PG_VERSION')",
            "ALTER ROLE marketdata_reader SUPERUSER",
            "SET ROLE marketdata",
            "SET temp_file_limit = -1",
            "CREATE TEMP TABLE of_the_session (n int)",
            "SELECT lo_from_bytea(0, 'x')",
            "SELECT lo_create(0)",
            "SELECT lo_creat(-1)",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(statement.encode())
    assert first_value(market.owner, "SELECT count(*) FROM md_ticks_v1 WHERE price > 1") == 360


def test_its_statements_have_limits(market: Market, reader: str) -> None:
    """Those that somebody has chosen stay, also when the API starts again."""
    limits = "SELECT current_setting('statement_timeout') || ' ' || current_setting('temp_file_limit')"
    assert first_value(reader, limits) == "1min 1GB"
    with psycopg.connect(market.owner, autocommit=True) as connection:
        connection.execute("ALTER ROLE marketdata_reader SET statement_timeout = '5min'")
    assert command(market.folder, "init").stdout == "schema: up to date\nrole marketdata_reader: already exists\n"
    assert first_value(reader, limits) == "5min 1GB"


def test_a_new_password_replaces_the_former_one(market: Market, reader: str) -> None:
    former = password(market.folder)
    with psycopg.connect(reader) as open_before:
        assert command(market.folder, "reader", "passwd").stdout.endswith(f'psql "{reader}"\n')
        assert open_before.execute("SELECT 1").fetchone() == (1,)
    assert password(market.folder) != former
    assert first_value(reader, "SELECT current_user") == "marketdata_reader"
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(reader, password=former)


def test_a_change_that_was_killed_is_completed_at_the_next_start(market: Market, reader: str) -> None:
    """The kill comes before the new password is on the disk, before the role has it, or before the file has its
    name."""
    for point, killed_at in {
        "reader.pgpass.new": ("pathlib", "Path.replace", "1", "before"),
        "the role": ("marketdata.operations.credential_files", "_apply_password", "1", "before"),
        "reader.pgpass": ("pathlib", "Path.replace", "2", "before"),
    }.items():
        former = password(market.folder)
        assert command(market.folder, "reader", "passwd", killed_at=killed_at).returncode == -signal.SIGKILL, point
        api = ApiProcess(market.folder)
        api.start()
        try:
            assert first_value(reader, "SELECT current_user") == "marketdata_reader"
        finally:
            api.stop()
        assert (password(market.folder) != former) is (point != "reader.pgpass.new"), point
        names = [path.name for path in (market.folder / "secrets").iterdir()]
        assert sorted(names) == ["alg.json", "read.json", "reader.pgpass"], point
