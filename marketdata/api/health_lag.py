"""How far the replica is behind the primary, in seconds and bytes.

The positions of both in the write-ahead log are compared: the replica is as old as the newest position of the primary
that it has replayed. The time of the last replayed transaction would not do: it also ages while nothing is written.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from time import monotonic

from marketdata.store.replication import LogPosition

_SAMPLES = 1800
"""Positions of the primary that are kept, one each check. A replica further behind is older than the reported lag."""


@dataclass(frozen=True)
class Lag:
    """``is_standby`` is False when DATABASE_READ_URL leads to a database that writes, like the primary itself."""

    is_standby: bool
    seconds: float
    bytes: int


class ReplicaLag:
    """``wrote`` is called with each position of the primary, ``replayed`` with each of the replica."""

    def __init__(self) -> None:
        self._primary: deque[tuple[float, int]] = deque(maxlen=_SAMPLES)
        self.current: Lag | None = None
        """As of the last check of the replica; None before."""

    def wrote(self, position: LogPosition) -> None:
        self._primary.append((monotonic(), position.written))

    def replayed(self, position: LogPosition) -> None:
        samples = list(self._primary)
        if not position.is_standby or not samples:
            self.current = Lag(position.is_standby, 0.0, 0)
            return
        missing = [at for at, written in samples if written > position.written]
        # What was written by the first missing sample is younger than the sample before.
        seconds = monotonic() - missing[0] if missing else 0.0
        self.current = Lag(True, round(seconds, 3), max(samples[-1][1] - position.written, 0))
