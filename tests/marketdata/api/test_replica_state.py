"""The lag of a replica, and whether it may be read, from positions in the write-ahead log."""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from marketdata.api.log_position import Lag, LogPosition, PrimaryLog
from marketdata.api.replica_state import ReplicaState, State

PRIMARY = LogPosition(0.0, False, 500, "7/market", datetime(2026, 1, 1, tzinfo=UTC), 3, False)
STANDBY = replace(PRIMARY, is_standby=True, started_at=datetime(2026, 1, 2, tzinfo=UTC), is_receiving=True)
LIMIT = 5.0


class Positions:
    """A primary and its replica at a time that the test sets."""

    def __init__(self) -> None:
        self.now = 1000.0
        self._log = PrimaryLog(lambda: self.now)
        self._state = ReplicaState("replica:5432", self._log, LIMIT, lambda: self.now)

    def wrote(self, written: int, **members: Any) -> None:
        self.now += 0.001
        self._log.record(replace(PRIMARY, at=self.now, written=written, **members))

    def replayed(self, written: int, **members: Any) -> State:
        self.now += 0.001
        self._state.measured(replace(STANDBY, at=self.now, written=written, **members))
        return self._state.state

    def forget(self) -> None:
        self._state.forget()

    @property
    def state(self) -> State:
        return self._state.state

    @property
    def lag(self) -> Lag | None:
        lag = self._state.lag
        return lag and Lag(round(lag.seconds, 1), lag.bytes)


@pytest.fixture
def positions() -> Positions:
    return Positions()


def test_a_replica_that_has_everything_has_no_lag_however_long_nothing_is_written(positions: Positions) -> None:
    positions.wrote(500)
    positions.now += 3600
    assert positions.replayed(500) is State.USABLE
    assert positions.lag == Lag(0.0, 0)
    positions.replayed(600)  # it has replayed more since the primary was asked
    assert positions.lag == Lag(0.0, 0)


def test_the_lag_grows_while_nothing_is_replayed(positions: Positions) -> None:
    positions.wrote(500)
    positions.now += 2
    positions.wrote(700)
    assert positions.replayed(500) is State.USABLE
    assert positions.lag == Lag(0.0, 200)
    positions.now += 4.9
    positions.wrote(900)
    assert positions.replayed(500) is State.USABLE
    assert positions.lag == Lag(4.9, 400)
    positions.now += 0.2
    assert positions.replayed(699) is State.LAGGING
    assert positions.lag == Lag(5.1, 201)
    assert positions.replayed(700) is State.USABLE
    assert positions.lag == Lag(0.2, 200)


def test_it_is_unknown_before_the_primary_answered_and_after_its_connection_was_lost(positions: Positions) -> None:
    assert positions.replayed(500) is State.UNKNOWN
    positions.wrote(500)
    assert positions.replayed(500) is State.USABLE
    positions.forget()
    assert (positions.state, positions.lag) == (State.UNKNOWN, None)
    assert positions.replayed(500) is State.USABLE


@pytest.mark.parametrize(
    ("members", "state"),
    [
        ({"is_standby": False, "started_at": PRIMARY.started_at}, State.PRIMARY),
        ({"is_standby": False, "timeline": 4}, State.PROMOTED),
        ({"is_standby": False}, State.SEPARATE),
        ({"database": "8/market"}, State.OTHER_DATABASE),
        ({"is_standby": False, "started_at": PRIMARY.started_at, "database": "7/other"}, State.OTHER_DATABASE),
        ({"is_receiving": False}, State.NOT_FOLLOWING),
        ({"timeline": 2}, State.NOT_FOLLOWING),
        ({"timeline": None}, State.USABLE),
    ],
)
def test_the_states_are_told_apart(
    positions: Positions, members: dict[str, Any], state: State, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    positions.wrote(500)
    for _ in range(2):
        assert positions.replayed(500, **members) is state
    (message,) = [record.getMessage() for record in caplog.records]
    assert message.startswith("the replica replica:5432 is ")
    assert str(state) in message


def test_it_follows_until_the_primary_answered_after_the_end_of_its_log(positions: Positions) -> None:
    """A primary that stops ends the connections of its replicas, which are read meanwhile."""
    positions.wrote(500)
    assert positions.replayed(500) is State.USABLE
    for _ in range(3):
        positions.now += 10
        assert positions.replayed(500, is_receiving=False, timeline=None) is State.USABLE
    positions.wrote(500)
    assert positions.replayed(500, is_receiving=False, timeline=None) is State.NOT_FOLLOWING
    assert positions.replayed(500) is State.USABLE


def test_a_replica_that_has_more_than_the_primary_does_not_follow_it(positions: Positions) -> None:
    positions.wrote(500)
    assert positions.replayed(700) is State.USABLE  # the primary may have written it meanwhile
    positions.wrote(600)
    positions.replayed(700)
    positions.wrote(650)
    assert positions.replayed(700) is State.NOT_FOLLOWING


@pytest.mark.parametrize("members", [{"timeline": 4}, {"written": 400}, {"database": "8/market"}])
def test_another_history_of_the_primary_ends_what_was_known(positions: Positions, members: dict[str, Any]) -> None:
    positions.wrote(500)
    assert positions.replayed(500) is State.USABLE
    positions.wrote(**{"written": 500} | members)
    assert positions.state is State.UNKNOWN
