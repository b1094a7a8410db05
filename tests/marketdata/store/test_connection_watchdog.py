"""Statements that the database does not answer are ended, and only those."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from marketdata import errors as e
from marketdata.store import pool as module
from marketdata.store.pool import ConnectionWatchdog, Pool
from tests.functional.serving import until

pytestmark = pytest.mark.plain_only("they are about connections")


class Answers:
    """Whether new connections are answered, as a health check says."""

    def __init__(self) -> None:
        self.value = True

    def __call__(self) -> bool:
        return self.value


@pytest.fixture
def answers() -> Answers:
    return Answers()


@pytest.fixture
def pool(database: str, answers: Answers, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pool]:
    monkeypatch.setattr(module, "STALL_SECONDS", 0.3)
    monkeypatch.setattr(module, "_WATCH_SECONDS", 0.05)
    pool = Pool(database, application_name="test", size=2, answers=answers)
    yield pool
    pool.close()


def ask(pool: Pool, statement: str = "SELECT 1") -> None:
    with pool.connection() as connection:
        connection.execute(statement)  # type: ignore[arg-type]


def test_a_statement_that_is_never_answered_is_ended(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "OVERDUE_SECONDS", 0.2)
    for _ in range(3):  # more often than there are connections
        with pytest.raises(e.DatabaseStalled, match="may or may not have been stored"):
            ask(pool, "SELECT pg_sleep(600)")
    with ExitStack() as held:
        for _ in range(2):
            held.enter_context(pool.connection()).execute("SELECT 1")
    assert pool.error() is None


def test_a_holder_that_waits_for_its_client_is_not_disturbed(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "OVERDUE_SECONDS", 0.8)
    with pool.connection() as connection:
        connection.execute("SELECT 1")
        threading.Event().wait(0.9)
        pool.renew(connection)
        connection.execute("SELECT pg_sleep(0.1)")


def test_while_nothing_answers_requests_fail_at_once(pool: Pool, answers: Answers) -> None:
    ask(pool)
    answers.value = False
    with pytest.raises(e.DatabaseStalled):
        ask(pool, "SELECT pg_sleep(600)")
    for _ in range(5):
        with pytest.raises(e.DatabaseStalled):
            ask(pool)
    assert isinstance(pool.error(), e.DatabaseStalled)
    answers.value = True
    until(lambda: pool.error() is None, 60)
    ask(pool)


def test_slow_clients_that_hold_all_connections_are_no_stall(
    pool: Pool, answers: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers.value = False
    monkeypatch.setattr(pool._pool, "timeout", 0.5)
    with pool.connection(), pool.connection():
        with pytest.raises(e.DatabaseExhausted):
            ask(pool)
        assert isinstance(pool.error(), e.DatabaseExhausted)
    ask(pool)
    assert pool.error() is None


@pytest.mark.full
def test_slow_statements_are_no_stall_while_new_connections_are_answered(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool._pool, "timeout", 0.5)
    with ThreadPoolExecutor(2) as threads:
        running = [threads.submit(ask, pool, "SELECT pg_sleep(1.5)") for _ in range(2)]
        until(lambda: not pool.stats()["pool_available"] and pool.stats()["pool_size"] == 2, 60)
        with pytest.raises(e.DatabaseExhausted):
            ask(pool)
        for each in running:
            each.result()


def test_open_connections_are_used_when_only_new_ones_are_not_answered(pool: Pool, answers: Answers) -> None:
    answers.value = False
    for _ in range(10):
        ask(pool, "SELECT pg_sleep(0.05)")
    threading.Event().wait(2 * module.STALL_SECONDS)  # idle for longer than a stall takes
    ask(pool)
    assert pool.error() is None


def test_close_ends_the_thread_and_may_be_repeated() -> None:
    for _ in range(20):
        watchdog = ConnectionWatchdog("closed", lambda: True)
        watchdog.close()
        watchdog.close()
        assert "closed-watchdog" not in {thread.name for thread in threading.enumerate()}
