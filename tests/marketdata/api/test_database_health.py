"""The lag of a replica from positions in the write-ahead log."""

from __future__ import annotations

import pytest

from marketdata.api import database_health
from marketdata.api.database_health import Lag, LogPosition, ReplicaLag


class Positions:
    """Positions of a primary and its standby at a time that the test sets."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        self._lag = ReplicaLag()
        monkeypatch.setattr(database_health, "monotonic", lambda: self.now)

    def wrote(self, written: int) -> None:
        self._lag.wrote(LogPosition(False, written))

    def replayed(self, written: int, *, is_standby: bool = True) -> Lag | None:
        self._lag.replayed(LogPosition(is_standby, written))
        return self._lag.current


@pytest.fixture
def positions(monkeypatch: pytest.MonkeyPatch) -> Positions:
    return Positions(monkeypatch)


def test_a_replica_that_has_everything_has_no_lag_however_long_nothing_is_written(positions: Positions) -> None:
    positions.wrote(500)
    positions.now += 3600
    assert positions.replayed(500) == Lag(True, 0.0, 0)
    assert positions.replayed(600) == Lag(True, 0.0, 0)  # it got further since the primary was asked


def test_the_lag_grows_while_nothing_is_replayed(positions: Positions) -> None:
    positions.wrote(500)
    positions.now += 2
    positions.wrote(700)
    assert positions.replayed(500) == Lag(True, 0.0, 200)
    positions.now += 10
    positions.wrote(900)
    assert positions.replayed(500) == Lag(True, 10.0, 400)
    assert positions.replayed(699) == Lag(True, 10.0, 201)
    assert positions.replayed(700) == Lag(True, 0.0, 200)
    positions.now += 1
    assert positions.replayed(700) == Lag(True, 1.0, 200)


def test_the_primary_itself_has_no_lag(positions: Positions) -> None:
    positions.wrote(500)
    assert positions.replayed(400, is_standby=False) == Lag(False, 0.0, 0)


def test_without_a_position_of_the_primary_nothing_is_known_to_be_missing(positions: Positions) -> None:
    assert positions.replayed(500) == Lag(True, 0.0, 0)
