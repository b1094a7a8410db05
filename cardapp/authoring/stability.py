"""Finds the values that depend on more than the program: those that an ordinary and a varied replay do not share."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from cardapp.authoring.proving import Reading, TemporarySession
from cardapp.authoring.shortened import difference
from cardapp.card import proof
from cardapp.card.model import Snapshot
from cardapp.errors import CardAppError, SessionUnavailable

STOP = "stop"
"""Stands for the expression where the varied replay did not reach the stop."""
ELSEWHERE = "/elsewhere"
"""Stands for the folder of another session."""
CLOCK_SECONDS = 1.1
"""The time between the two replays of a snapshot, so that a clock that counts seconds shows another time."""


@dataclass(frozen=True)
class Unstable:
    """An expression of the snapshot ``key`` with its values in the two replays. ``expression`` is :data:`STOP` if
    the varied replay did not reach the stop; ``second`` then says why. If the difference is hidden, a ``*`` of the card
    stands for it, so that the card holds in both."""

    key: str
    expression: str
    first: str
    second: str
    is_hidden: bool = False

    def __str__(self) -> str:
        return f"unstable {self.key} {self.expression}: {' | '.join(difference(self.first, self.second))}"


@dataclass(frozen=True)
class FirstReading:
    """What an ordinary replay of ``snapshot`` read. ``ended`` is the monotonic time of its end in seconds."""

    snapshot: Snapshot
    reading: Reading
    ended: float


def unstable_values(
    session: TemporarySession, readings: Mapping[str, FirstReading], report: Callable[[str], None]
) -> list[Unstable]:
    """Replay the snapshots of ``readings`` again, varied, and compare. ``report`` is called with each key.

    :raises CardAppError: the session cannot be used any more, or the build failed.
    """
    found: list[Unstable] = []
    pause = threading.Event()
    for key, first in readings.items():
        pause.wait(max(0.0, first.ended + CLOCK_SECONDS - time.monotonic()))
        try:
            again = session.replay(key, first.snapshot, varied=True)
        except CardAppError as error:
            if isinstance(error, SessionUnavailable) or error.code == "build_failed":
                raise
            found.append(Unstable(key, STOP, "reached", f"{error.code}: {error.detail}"))
        else:
            found += differences(key, first.snapshot, first.reading, again, str(session.folder))
        report(key)
    return found


def differences(key: str, snapshot: Snapshot, first: Reading, second: Reading, folder: str) -> Iterator[Unstable]:
    """The compared values that can be read in the first replay, and are not the same in the second one: at the stop, or
    after its other threads have gone on. A value with the name of the ``folder`` in which the program was built differs
    in another session."""
    readings = [second["values"], *filter(None, [second.get("held")])]
    for expected in snapshot.expect:
        value = first["values"].get(expected.expression, {}).get("value")
        if expected.undefined or value is None:
            continue
        recorded = proof.recordable(value)
        elsewhere = {"value": value.replace(folder, ELSEWHERE)}
        for other in (*(reading.get(expected.expression, {}) for reading in readings), elsewhere):
            seen = other.get("value")
            if seen is not None and proof.same_value(replace(expected, value=recorded), seen):
                continue
            holds = seen is not None and proof.same_value(expected, value) and proof.same_value(expected, seen)
            if not holds or proof.hides(expected, value):
                shown = f"<{other.get('error')}>" if seen is None else proof.recordable(seen)
                yield Unstable(key, expected.expression, recorded, shown, is_hidden=holds)
                break
