"""Waits, in the main thread, for what another process or somebody else may mend."""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
MIN_PAUSE_S, MAX_PAUSE_S = 1.0, 60.0
STANDBY_S = 2.0
"""Seconds between two tries to get the lease, which expires 30 seconds after its holder was killed."""

_log = logging.getLogger("marketdata.ingestor")


class Waiting:
    """Says each cause once. The stop signals must be blocked."""

    def __init__(self) -> None:
        self._cause = ""
        self._pause = MIN_PAUSE_S

    def is_stopped(self, cause: str, seconds: float | None = None, say: Callable[[str], None] = _log.warning) -> bool:
        """Wait before the next try, for ``seconds``, or longer each time. Returns True when a stop signal comes."""
        if cause != self._cause:
            self._cause, self._pause = cause, MIN_PAUSE_S
            say(cause)
        pause = seconds or self._pause
        self._pause = min(MAX_PAUSE_S, self._pause * 2)
        return signal.sigtimedwait(STOP_SIGNALS, pause) is not None
