"""A thread that repeats a step: what wakes it, and how it tries again."""

from __future__ import annotations

import threading

import pytest

from marketdata.errors import StateError
from marketdata.ingest.outbox import OUTBOX_UNUSABLE
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


def test_what_somebody_has_to_mend_is_said_once_and_tried_more_and_more_seldom(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Another error is said at each try."""
    for code, pauses, lines in (
        ("wrong_chain", [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0], 1),
        ("chain_replaced", [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0], 1),
        (OUTBOX_UNUSABLE, [0.25, 0.5, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0], 1),
        ("other", [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 10.0, 10.0], 8),
    ):
        caplog.clear()
        waited: list[float | None] = []

        class Stopping(threading.Event):
            def wait(self, timeout: float | None = None, waited: list[float | None] = waited) -> bool:
                waited.append(timeout)
                if len(waited) == 8:
                    self.set()
                return self.is_set()

        def step(code: str = code) -> float:
            raise StateError("the cause", code=code)

        worker = Worker("test", step, lambda error: None)
        worker.stopping = Stopping()
        worker.start()
        assert threading.Event.wait(worker.stopping, 30)
        assert worker.stop(30)
        assert (waited, caplog.text.count("the cause")) == (pauses, lines)
