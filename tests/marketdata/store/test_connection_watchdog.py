"""Statements that the database does not answer are ended, and only those."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from marketdata import errors as e
from marketdata.store.pool import Patience, Pool, connect
from tests.functional.serving import until

STALL = 1.5
"""Seconds after which the database counts as stalled."""


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
def made(database: str, answers: Answers) -> Iterator[Callable[..., Pool]]:
    """Makes a pool of two connections, with these times of the watchdog."""
    with ExitStack() as stack:

        def make(overdue: float = 35.0, wait: float = 30.0) -> Pool:
            pool = Pool(
                database, application_name="test", size=2, answers=answers, wait_seconds=wait,
                patience=Patience(overdue, STALL, 0.05),
            )  # fmt: skip
            stack.callback(pool.close)
            return pool

        yield make


def ask(pool: Pool, statement: str = "SELECT 1") -> None:
    with pool.connection() as connection:
        connection.execute(statement)  # type: ignore[arg-type]


def test_a_statement_that_is_never_answered_is_ended(made: Callable[..., Pool]) -> None:
    pool = made(overdue=0.2)
    for _ in range(3):  # more often than there are connections
        with pytest.raises(e.DatabaseStalled, match="may or may not have been stored"):
            ask(pool, "SELECT pg_sleep(600)")
    with ExitStack() as held:
        for _ in range(2):
            held.enter_context(pool.connection())
    assert pool.error() is None


def test_while_nothing_answers_requests_fail_at_once(made: Callable[..., Pool], answers: Answers) -> None:
    pool = made()
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


def test_slow_clients_that_hold_all_connections_are_no_stall(made: Callable[..., Pool], answers: Answers) -> None:
    answers.value = False
    pool = made(wait=0.5)
    with pool.connection(), pool.connection():
        with pytest.raises(e.DatabaseExhausted):
            ask(pool)
        assert isinstance(pool.error(), e.DatabaseExhausted)
    ask(pool)
    assert pool.error() is None


def test_slow_statements_are_no_stall_while_new_ones_are_answered(made: Callable[..., Pool], database: str) -> None:
    pool = made(wait=1.2 * STALL)
    with connect(database) as other, ThreadPoolExecutor(2) as threads:
        other.execute("SELECT pg_advisory_lock(1)")
        running = [threads.submit(ask, pool, "SELECT pg_advisory_xact_lock(1)") for _ in range(2)]
        until(lambda: not pool.stats()["pool_available"] and pool.stats()["pool_size"] == 2, 60)
        with pytest.raises(e.DatabaseExhausted):
            ask(pool)
        other.execute("SELECT pg_advisory_unlock(1)")
        for each in running:
            each.result(60)
