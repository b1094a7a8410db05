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
_LASTING_CODES = frozenset({"wrong_chain", "no_pool", "not_as_listed", "chain_replaced"})
"""Codes of faults that somebody has to mend. They are tried again more and more seldom."""
_MIN_LASTING_PAUSE, _MAX_LASTING_PAUSE = 1.0, 60.0

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
        self._said = ""
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
        pause = 0.0
        while not self.stopping.is_set():
            try:
                wait = self._step()
                pause, self._said = 0.0, ""
            except Stopped:
                return
            except MarketError as error:
                if isinstance(error, AlreadyRunning | UsageError):
                    self._fatal(error)
                    return
                pause = _next_pause(error.code, pause)
                wait = max(pause, getattr(error, "retry_after", 0.0))
                if not self.stopping.is_set():
                    self._say(error, wait)
                self.stopping.wait(wait)
                continue
            except Exception as error:
                _log.exception("a defect of this program")
                self._fatal(MarketError(f"a defect of this program: {error}"))
                return
            if wait and not self.stopping.is_set():
                self._wake.wait(wait)
                self._wake.clear()

    def _say(self, error: MarketError, wait: float) -> None:
        """Log an error that lasts once, and any other at each try."""
        if error.code not in (OUTBOX_UNUSABLE, *_LASTING_CODES):
            _log.warning("%s%s; trying again in %.1f s", self._about, error.detail, wait)
        elif error.detail != self._said:
            self._said = error.detail
            _log.warning("%s%s; trying again until it is mended", self._about, error.detail)


def _next_pause(code: str, last: float) -> float:
    """The pause after an error, in seconds. ``last`` is the pause before; 0 after a success."""
    if code in _LASTING_CODES:
        return min(_MAX_LASTING_PAUSE, max(_MIN_LASTING_PAUSE, last * 2))
    most = _MAX_DISK_PAUSE if code == OUTBOX_UNUSABLE else _MAX_PAUSE
    return min(most, max(_MIN_PAUSE, last * 2))
