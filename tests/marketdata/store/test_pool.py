"""The pool: what it says of the driver's errors, and how it comes through outages."""

from __future__ import annotations

import os
import re
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import psycopg_pool
import pytest
from psycopg import errors

from marketdata import errors as e
from marketdata.lease import Lease
from marketdata.store import pool as pools
from marketdata.store.pool import Pool, connect, translate

SECRET = "postgresql://me:secret@host/"


@pytest.fixture
def pool(database: str) -> Iterator[Pool]:
    pool = Pool(database, application_name="test", size=2)
    yield pool
    pool.close()
    pool.close()


def ask(pool: Pool) -> int:
    """The backend that answered."""
    with pool.connection() as connection:
        row = connection.execute("SELECT pg_backend_pid()").fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.parametrize(
    ("raised", "kind"),
    [
        (errors.UniqueViolation, e.Conflict),
        (errors.CheckViolation, e.InvalidValue),
        (errors.NumericValueOutOfRange, e.InvalidValue),
        (errors.SerializationFailure, e.Contended),
        (errors.DeadlockDetected, e.Contended),
        (errors.LockNotAvailable, e.Contended),
        (errors.UndefinedTable, e.VersionMissing),
        (errors.UndefinedFunction, e.VersionMissing),
        (errors.SyntaxError, e.DatabaseDefect),
        (errors.DiskFull, e.DatabaseExhausted),
        (errors.TooManyConnections, e.DatabaseExhausted),
        (errors.QueryCanceled, e.TooSlow),
        (errors.AdminShutdown, e.DatabaseUnavailable),
        (errors.CannotConnectNow, e.DatabaseUnavailable),
        (errors.ConnectionFailure, e.DatabaseUnavailable),
        (errors.ReadOnlySqlTransaction, e.DatabaseUnavailable),
        (errors.IoError, e.DatabaseUnavailable),
        (errors.DataCorrupted, e.DatabaseDefect),
        (psycopg.OperationalError, e.DatabaseUnavailable),
        (psycopg.InterfaceError, e.DatabaseUnavailable),
        (psycopg.ProgrammingError, e.DatabaseDefect),
        (psycopg_pool.PoolTimeout, e.DatabaseExhausted),
        (psycopg_pool.PoolClosed, e.DatabaseUnavailable),
    ],
)
def test_every_class_of_errors_has_its_place(raised: type[psycopg.Error], kind: type[e.MarketError]) -> None:
    ours = translate(raised(SECRET))
    assert type(ours) is kind
    assert "secret" not in ours.detail
    assert ours.detail


def test_what_a_function_of_ours_says_of_a_value_is_passed_on(pool: Pool) -> None:
    statement = "DO $$ BEGIN RAISE EXCEPTION 'no such interval' USING ERRCODE = '22023'; END $$"
    with pytest.raises(e.InvalidValue, match=r"^no such interval$"), pool.connection() as connection:
        connection.execute(statement)


def test_a_session_is_what_the_statements_rely_on(pool: Pool) -> None:
    names = ("TimeZone", "DateStyle", "synchronous_commit", "jit", "statement_timeout", "application_name")
    with pool.connection() as connection:
        found = [connection.execute("SELECT current_setting(%s)", (name,)).fetchone() for name in names]
    assert found == [("UTC",), ("ISO, MDY",), ("on",), ("off",), ("30s",), ("test",)]


def test_a_transaction_is_kept_whole_or_not_at_all(pool: Pool) -> None:
    with pool.transaction() as connection:
        connection.execute("CREATE TABLE whole (n int)")
    with pytest.raises(e.InvalidValue), pool.transaction() as connection:  # noqa: PT012 (the first has to work)
        connection.execute("INSERT INTO whole VALUES (1)")
        connection.execute("SELECT 1 / 0")
    with pool.connection() as connection:
        assert connection.execute("SELECT count(*) FROM whole").fetchone() == (0,)


def test_a_statement_that_takes_too_long_is_cut(pool: Pool) -> None:
    with pytest.raises(e.TooSlow), pool.transaction() as connection:  # noqa: PT012 (the first has to work)
        connection.execute("SET LOCAL statement_timeout = 50")
        connection.execute("SELECT pg_sleep(60)")


def test_an_empty_pool_is_told_apart(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool._pool, "timeout", 0.1)
    with pool.connection(), pool.connection(), pytest.raises(e.DatabaseExhausted):
        ask(pool)
    assert ask(pool)


def test_a_connection_that_was_cut_meanwhile_is_not_handed_out(pool: Pool, database: str) -> None:
    cut = {ask(pool) for _ in range(8)}
    with connect(database) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name = 'test'"
        )
    assert ask(pool) not in cut


def test_a_restarted_database_is_found_again_by_all_at_once(state_dir: Path) -> None:
    with Lease(state_dir, linger=False) as lease:
        pool = Pool(lease.conninfo, application_name="test")
        try:
            ask(pool)
            postmaster = int(re.findall(r'"postgres": (\d+)', (state_dir / "owner.lock").read_text())[0])
            os.kill(postmaster, signal.SIGKILL)

            def until_answered() -> int:
                for _ in range(600):
                    try:
                        return ask(pool)
                    except e.DatabaseUnavailable:
                        threading.Event().wait(0.1)
                raise AssertionError("the pool does not find the database again")

            with ThreadPoolExecutor(8) as threads:
                assert all(running.result() for running in [threads.submit(until_answered) for _ in range(8)])
        finally:
            pool.close()


def test_a_one_shot_connection_is_translated_too(new_database: Callable[[], str]) -> None:
    with pytest.raises(e.VersionMissing), connect(new_database()) as connection:
        connection.execute("SELECT FROM no_such_table")
    with pytest.raises(e.DatabaseUnavailable), connect("host=/nonexistent"):
        pass


def test_a_pool_without_a_database_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "WAIT_SECONDS", 0.2)
    pool = Pool("host=/nonexistent", application_name="test")
    try:
        with pytest.raises(e.DatabaseUnavailable):
            ask(pool)
    finally:
        pool.close()
