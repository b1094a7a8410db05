"""Wrong tries are slowed: each address and each user has a few in hand, and gets further ones slowly."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from time import monotonic

BURST = 10
"""Wrong tries that are not slowed."""
SECONDS_EACH = 6.0
"""After those, one further try becomes available in so many seconds."""
KEYS_MAX = 10_000


class Throttle:
    """The tries of each key. Of more keys than ``KEYS_MAX`` the one that was used longest ago is forgotten."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        # When all tries of a key will be in hand again; each try moves it by SECONDS_EACH.
        self._whole_at: OrderedDict[Hashable, float] = OrderedDict()

    def take(self, *keys: Hashable) -> float:
        """Take a try of every key and return 0; or take none and return in how many seconds there is one."""
        with self._lock:
            now = self._clock()
            wait = max(self._whole_at.get(key, now) for key in keys) - now - (BURST - 1) * SECONDS_EACH
            if wait > 0:
                return wait
            for key in keys:
                self._whole_at[key] = max(self._whole_at.pop(key, now), now) + SECONDS_EACH
            while len(self._whole_at) > KEYS_MAX:
                self._whole_at.popitem(last=False)
            return 0.0

    def give_back(self, *keys: Hashable) -> None:
        """Return a try that was not a wrong one."""
        with self._lock:
            for key in keys:
                if key in self._whole_at:
                    self._whole_at[key] -= SECONDS_EACH
