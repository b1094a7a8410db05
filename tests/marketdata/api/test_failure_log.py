"""The log and the counts of failures that the database causes."""

from __future__ import annotations

import logging
from collections import Counter

import pytest
from psycopg import errors

from marketdata import errors as e
from marketdata.api import failure_log
from marketdata.api.failure_log import FailureLog
from marketdata.store.postgres_errors import translate


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def counted() -> Counter[tuple[str, str]]:
    return Counter()


@pytest.fixture
def log(counted: Counter[tuple[str, str]], clock: Clock) -> FailureLog:
    return FailureLog(lambda code, state: counted.update([(code, state)]), clock)


def caused_by(cause: Exception) -> e.MarketError:
    """Our error as the store raises it."""
    with pytest.raises(e.MarketError) as raised:
        raise translate(cause) from cause  # type: ignore[arg-type]
    return raised.value


def test_the_sqlstate_and_the_first_line_are_logged(
    log: FailureLog, counted: Counter[tuple[str, str]], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        log.note("GET '/v1/chart'", caused_by(errors.TooManyConnections("too many clients\nDETAIL:  a stored value")))
    assert caplog.messages == ["GET '/v1/chart' failed: database_exhausted, SQLSTATE 53300: too many clients"]
    assert counted == {("database_exhausted", "53300"): 1}


def test_all_failures_of_an_outage_are_counted_but_few_are_logged(
    log: FailureLog, counted: Counter[tuple[str, str]], clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        for _ in range(10):
            log.note("GET '/a'", caused_by(errors.AdminShutdown("shutting down")))
        log.note("GET '/b'", caused_by(errors.IoError("broken")))
        clock.now += failure_log.PERIOD_SECONDS
        log.note("GET '/c'", caused_by(errors.AdminShutdown("shutting down")))
    assert counted == {("database_unavailable", "57P01"): 11, ("database_unavailable", "58030"): 1}
    assert [message.partition(" ")[2][:4] for message in caplog.messages] == ["'/a'", "'/b'", "'/c'"]
    assert caplog.messages[-1].endswith("(9 more of this kind since the last line)")


def test_what_the_client_caused_is_not_counted(log: FailureLog, counted: Counter[tuple[str, str]]) -> None:
    for error in (e.NotFound("no"), e.Conflict("no"), e.InvalidValue("no"), ValueError("no")):
        log.note("GET '/'", error)
    assert not counted
