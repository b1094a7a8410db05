"""Repeating the passes of a copy until it has caught up, or until it is stopped."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from time import monotonic

from marketdata.errors import Stopped
from marketdata.operations.changed_days import Day
from marketdata.operations.copy import BATCH, Carried, Copy
from marketdata.operations.database import Say
from marketdata.operations.version_pair import Pair
from marketdata.store.pool import Connection

_PROGRESS_S = 5.0
_IDLE_S = 0.5


class CopyLoop:
    """``stopping`` ends a copy that follows: after one more pass, or at once where it has not caught up yet."""

    def __init__(self, connection: Connection, pair: Pair, stopping: threading.Event, say: Say) -> None:
        self._copy = Copy(connection, pair, self._progress)
        self._source, self._target = pair.source.n, pair.target.n
        self._stopping = stopping
        self._say = say
        self._has_caught_up = False
        self._said_at = monotonic()
        self.total = Carried()

    def run(self, *, follows: bool) -> None:
        """Stopped, when it was stopped before it had caught up."""
        while True:
            is_last = self._stopping.is_set() or not follows
            at = datetime.now(UTC)
            done = self._copy.carry()
            self.total = self.total.plus(done)
            is_behind = done.ticks > BATCH
            if not is_behind and not self._has_caught_up:
                self._say(
                    f"caught up: version {self._target} has what version {self._source} had at {at:%H:%M:%S} UTC; "
                    f"carried {self.described()}"
                )
            self._has_caught_up = not is_behind
            if is_last and not is_behind:
                return
            if not is_behind:
                self._stopping.wait(_IDLE_S)

    def described(self) -> str:
        """What was carried in all."""
        ticks, retracted, restored = self.total
        return f"{ticks} ticks, {retracted} retracted and {restored} restored blocks"

    def _progress(self, done: Carried, day: Day) -> None:
        if self._stopping.is_set() and not self._has_caught_up:
            raise Stopped(
                f"stopped before it had caught up, nothing is lost: "
                f"bin/marketdata-copy {self._source} {self._target} goes on"
            )
        if monotonic() - self._said_at > _PROGRESS_S:
            self._said_at = monotonic()
            self._say(f"{self.total.ticks + done.ticks} ticks so far; at {day.symbol}, {day.start:%Y-%m-%d}")
