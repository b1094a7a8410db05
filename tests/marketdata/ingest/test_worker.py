"""A thread that repeats a step: what wakes it."""

from __future__ import annotations

import threading

from marketdata.ingest.worker import Worker


def test_a_wake_during_a_step_ends_the_next_wait_although_another_step_comes_first() -> None:
    """The reader asks for the newest block only in a step after a wait."""
    waits = [0.0, 600.0, 600.0, 600.0]
    third, fourth = threading.Event(), threading.Event()

    def step() -> float:
        if len(waits) == 4:
            worker.wake()
        elif len(waits) < 3:
            (third if len(waits) == 2 else fourth).set()
        return waits.pop(0)

    worker = Worker("test", step, lambda error: None)
    worker.start()
    assert third.wait(30)
    assert not fourth.wait(0.1)
    assert worker.stop(30)
