"""Decides whether a replica may be read, from its positions in the log and from those of the primary."""

from __future__ import annotations

import logging
from collections.abc import Callable
from enum import StrEnum
from math import inf
from time import monotonic

from marketdata.api.log_position import Lag, LogPosition, PrimaryLog

_log = logging.getLogger(__name__)


class State(StrEnum):
    """The state of a replica. Only a usable replica is read."""

    USABLE = "usable"
    UNKNOWN = "unknown"
    PRIMARY = "primary"
    LAGGING = "lagging"
    NOT_FOLLOWING = "not_following"
    PROMOTED = "promoted"
    SEPARATE = "separate"
    OTHER_DATABASE = "other_database"


REASONS = {
    State.UNKNOWN: "it was not compared with the primary yet",
    State.PRIMARY: "it is the primary itself",
    State.LAGGING: "its data are older than MARKET_READ_LAG_S",
    State.NOT_FOLLOWING: "it does not receive the log of the primary, or it has log that the primary does not have",
    State.PROMOTED: "it was promoted: it accepts writes, on another timeline than the primary",
    State.SEPARATE: "it accepts writes of its own: it was promoted, or started without standby.signal",
    State.OTHER_DATABASE: "its data are of another cluster or database than those of the primary",
}
"""Why a replica in this state is not read."""


class ReplicaState:
    """The state of one replica. ``name`` is its host and port, ``limit`` the greatest lag in seconds."""

    def __init__(self, name: str, primary: PrimaryLog, limit: float, clock: Callable[[], float] = monotonic) -> None:
        self._name = name
        self._clock = clock
        self._primary = primary
        self._limit = limit
        self.forget()

    def forget(self) -> None:
        """Call this when the connection is lost. The next one may lead to a server with other data."""
        self._state, self._history = State.UNKNOWN, self._primary.history
        self.lag: Lag | None = None
        """The lag of a standby of this primary."""
        self._replayed, self._replayed_at = 0, inf
        self._missed_at: float | None = 0.0
        """Since when it was seen not to follow the primary; None if it follows."""

    @property
    def state(self) -> State:
        return self._state if self._history == self._primary.history else State.UNKNOWN

    def measured(self, position: LogPosition) -> None:
        """Compare a position of the replica with those of the primary."""
        history, primary, before = self._primary.history, self._primary.last, self._state
        if primary is None:
            return
        state, lag = self._other(position, primary), None
        if state is None:
            lag = self._primary.lag(position.written)
            state = self._of_standby(position, primary, lag)
        self._state, self.lag, self._history = state, lag, history
        if self._state is not before:
            self._tell()

    @staticmethod
    def _other(position: LogPosition, primary: LogPosition) -> State | None:
        if position.database != primary.database:
            return State.OTHER_DATABASE
        if position.is_standby:
            return None
        if position.started_at == primary.started_at:
            return State.PRIMARY
        return State.SEPARATE if position.timeline == primary.timeline else State.PROMOTED

    def _of_standby(self, position: LogPosition, primary: LogPosition, lag: Lag) -> State:
        is_ahead = primary.at > self._replayed_at and primary.written < self._replayed
        self._replayed, self._replayed_at = position.written, self._clock()
        if position.is_receiving and position.timeline in (None, primary.timeline) and not is_ahead:
            self._missed_at = None
        elif self._missed_at is None:
            self._missed_at = self._clock()
        # When the primary has stopped, its replicas receive nothing. So this counts only if the primary answered later.
        if self._missed_at is not None and primary.at > self._missed_at:
            return State.NOT_FOLLOWING
        return State.LAGGING if lag.seconds > self._limit else State.USABLE

    def _tell(self) -> None:
        state = self._state
        if state in (State.USABLE, State.PRIMARY):
            _log.info("the replica %s is %s", self._name, state)
        else:
            _log.error("the replica %s is not read: %s: %s", self._name, state, REASONS[state])
