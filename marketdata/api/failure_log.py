"""Logs and counts the failures that the database causes. The log has the driver's reasons; clients do not get them."""

from __future__ import annotations

import logging
import threading
from collections import defaultdict
from collections.abc import Callable
from time import monotonic

from marketdata.errors import DatabaseUnavailable, DiskFull, MarketError, TooSlow, VersionMissing, reason

PERIOD_SECONDS = 5.0
"""In this time, at most one line is logged for each kind of failure, because during an outage every request fails.
While the request log is on, every failure is logged."""
NO_SQLSTATE = "none"
"""Stands for the SQLSTATE of a failure that PostgreSQL did not report, like a lost connection."""

_KINDS = (DatabaseUnavailable, TooSlow, VersionMissing)

_log = logging.getLogger("marketdata.api")


class FailureLog:
    """Logs and counts failures. ``count`` is called with the code and the SQLSTATE of each failure. Thread-safe."""

    def __init__(self, count: Callable[[str, str], None], clock: Callable[[], float] = monotonic) -> None:
        self._count = count
        self._clock = clock
        self._lock = threading.Lock()
        self._logged_at: dict[tuple[str, str], float] = {}
        self._unlogged: defaultdict[tuple[str, str], int] = defaultdict(int)

    def note(self, what: str, error: Exception, *, is_limited: bool = True) -> None:
        """Log and count ``error`` if the database caused it. ``what`` names the request. With ``is_limited``, at most
        one line of this kind is logged in ``PERIOD_SECONDS``."""
        if not isinstance(error, _KINDS):
            return
        code, state, why = described(error)
        kind = (code, state)
        self._count(*kind)
        others = self._unlogged_before(kind) if is_limited else 0
        if others is not None:
            _log.warning(
                "%s failed: %s, SQLSTATE %s: %s%s",
                what,
                code,
                state,
                why,
                f" ({others} more of this kind since the last line)" if others else "",
            )

    def _unlogged_before(self, kind: tuple[str, str]) -> int | None:
        """Returns how many failures of this kind were not logged since the last line, or None if this one must not be
        logged either."""
        now = self._clock()
        with self._lock:
            if now - self._logged_at.get(kind, -PERIOD_SECONDS) < PERIOD_SECONDS:
                self._unlogged[kind] += 1
                return None
            self._logged_at[kind] = now
            return self._unlogged.pop(kind, 0)


def described(error: MarketError) -> tuple[str, str, str]:
    """Returns the code, the SQLSTATE and the driver's reason of an error. The reason of a full disk names the file
    system."""
    cause: BaseException | None = error
    while isinstance(cause, MarketError):
        cause = cause.__cause__
    state = getattr(cause, "sqlstate", None) or NO_SQLSTATE
    why = reason(error)
    return error.code, state, f"{error.detail} ({why})" if error.code == DiskFull.code else why
