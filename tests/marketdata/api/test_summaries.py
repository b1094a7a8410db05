"""Which summaries are read for live connections, and when."""

from __future__ import annotations

from collections.abc import Callable, Collection
from types import SimpleNamespace
from typing import Any

from marketdata.api.live.summaries import REFRESH_SECONDS, Summaries
from marketdata.errors import DatabaseUnavailable
from marketdata.store.notifications import Change


class Reader:
    """Notes the submitted reading, and carries it out when the test asks for it."""

    def __init__(self) -> None:
        self.stored = {"A": b"1", "B": b"1"}
        self.missing: list[str] = []
        self._jobs: list[tuple[Callable[[Any], None], Callable[[Any], None]]] = []
        self._asked: list[list[str]] = []

    def submit(self, job: Callable[[Any], None], failed: Callable[[Any], None]) -> None:
        self._jobs.append((job, failed))

    def read_available(self, names: Collection[str], _read: object) -> tuple[list[Any], list[str]]:
        self._asked.append(sorted(names))
        found = {name: self.stored[name] for name in names if name not in self.missing}
        return [SimpleNamespace(items=found)], self.missing

    def asked(self) -> list[list[str]]:
        """Carry out what was submitted. Returns the symbols of each reading."""
        jobs, self._jobs, self._asked = self._jobs, [], []
        for job, _ in jobs:
            job(self)
        return self._asked

    def fail(self) -> None:
        jobs, self._jobs = self._jobs, []
        for _, failed in jobs:
            failed(DatabaseUnavailable("down"))


def test_what_changed_or_was_missed_is_read_and_everything_once_a_minute_while_it_is_followed() -> None:
    reader, pushed = Reader(), []
    summaries = Summaries(reader, pushed.append)  # type: ignore[arg-type]
    summaries.watch({"A": b"1", "B": b"1"})
    summaries.watch({"A": b"1"})
    now = 1000.0
    summaries.sweep(now)
    reader.stored["B"] = b"2"
    assert reader.asked() == [["A", "B"]], "a change before the subscription was not noted"
    assert pushed == [{"B": b"2"}]
    summaries.sweep(now + REFRESH_SECONDS - 0.1)
    assert reader.asked() == []
    summaries.changed([Change('"t"', name, 0, 0, "stored") for name in ("A", "C")])
    summaries.sweep(now + 1)
    reader.fail()
    summaries.sweep(now + 2)
    reader.missing = ["A"]
    assert reader.asked() == [["A"]], "it is read again"
    reader.missing = []
    summaries.sweep(now + 3)
    assert reader.asked() == [["A"]], "its node did not answer"
    summaries.sweep(now + REFRESH_SECONDS)
    assert reader.asked() == [["A", "B"]]
    summaries.unwatch(["A", "B"])
    summaries.resync()
    summaries.sweep(now + REFRESH_SECONDS + 1)
    assert reader.asked() == [["A"]]
    summaries.unwatch(["A"])
    summaries.sweep(now + 3 * REFRESH_SECONDS)
    assert reader.asked() == []
