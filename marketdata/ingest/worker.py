"""A thread that repeats a step until it is stopped.

A failure of the provider, the API or the disk is logged, and the step is tried again after a growing pause. An error
that a new try cannot mend ends the thread.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from marketdata.errors import AlreadyRunning, MarketError, Stopped, UsageError
from marketdata.ingest.outbox import OUTBOX_UNUSABLE

_MIN_PAUSE, _MAX_PAUSE = 0.25, 10.0
_MAX_DISK_PAUSE = 1.0
"""The longest pause after an error of the outbox. Trying a full disk again costs little, and work should resume soon
after space is free."""
_FATAL_CODES = frozenset({"chain_replaced"})

_log = logging.getLogger("marketdata.ingestor")

Step = Callable[[], float]
"""Does one part of the work, and returns the seconds to wait before the next step."""
Fatal = Callable[[MarketError], None]
"""Called with an error that a new try cannot mend."""


class Worker:
    """A thread that repeats a step. ``about`` begins its messages, if it is not empty."""

    def __init__(self, name: str, step: Step, fatal: Fatal, about: str = "") -> None:
        self._step = step
        self._fatal = fatal
        self._about = f"{about}: " if about else ""
        self._wake = threading.Event()
        self.stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        """End the wait between two steps. During a step, end the next wait."""
        self._wake.set()

    def stop(self, timeout: float) -> bool:
        """Stop the thread. Returns whether it has ended within ``timeout`` seconds."""
        self.stopping.set()
        self._wake.set()
        if self._thread.ident is not None:
            self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        pause = _MIN_PAUSE
        while not self.stopping.is_set():
            try:
                wait = self._step()
                pause = _MIN_PAUSE
            except Stopped:
                return
            except MarketError as error:
                if isinstance(error, AlreadyRunning | UsageError) or error.code in _FATAL_CODES:
                    self._fatal(error)
                    return
                if error.code == OUTBOX_UNUSABLE:
                    pause = min(_MAX_DISK_PAUSE, pause)
                wait = max(pause, getattr(error, "retry_after", 0.0))
                if not self.stopping.is_set():
                    _log.warning("%s%s; trying again in %.1f s", self._about, error.detail, wait)
                pause = min(_MAX_PAUSE, pause * 2)
                self.stopping.wait(wait)
                continue
            except Exception as error:
                _log.exception("a defect of this program")
                self._fatal(MarketError(f"a defect of this program: {error}"))
                return
            if wait and not self.stopping.is_set():
                self._wake.wait(wait)
                self._wake.clear()
