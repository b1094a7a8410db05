"""A thread that repeats a step: what wakes it."""

from __future__ import annotations

import time
from contextlib import suppress

from marketdata.ingest.worker import Worker
from tests.functional.serving import until


def test_a_wake_during_a_step_ends_the_next_wait_although_another_step_comes_first() -> None:
    """The reader asks for the newest block only in a step after a wait."""
    times: list[float] = []

    def step() -> float:
        times.append(time.monotonic())
        if len(times) == 1:
            worker.wake()
            return 0.0  # the next step follows at once
        return 60.0

    worker = Worker("test", step, lambda error: None)
    worker.start()
    with suppress(AssertionError):
        until(lambda: len(times) == 3, 5)
    assert len(times) == 3
    time.sleep(0.1)
    assert len(times) == 3
    assert worker.stop(5)
