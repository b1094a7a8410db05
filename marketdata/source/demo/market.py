"""Invented prices and volumes: functions of a seed and the time alone, in integers, so equal on every machine.

The price is a sum of random functions (value noise). Each is linear between random values at equal distances in time,
and the next one has four times the distance and twice the size. Over minutes and days the sum moves as a random walk
does, but it stays within bounds, and each moment is computed without those before it.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from hashlib import blake2b

ONE = 1_000_000_000
"""Deviations from the mean price are in this part of it."""
_FINEST = 160_000
"""The largest deviation of the finest function."""
_FINE = tuple((scale, _FINEST << scale // 2) for scale in range(0, 11, 2))
"""The scales and sizes of functions that are larger in busy times. The distance is 2^scale steps of time: at two
seconds for a step, two seconds to half an hour."""
_COARSE = tuple((scale, _FINEST << scale // 2) for scale in range(12, 19, 2))
"""Those of the others: two hours to six days."""
BOUND = 2 * sum(size for _, size in _FINE) + sum(size for _, size in _COARSE)
"""No deviation is larger."""

_SLOW_SCALES = (12, 14)
"""How busy the market is changes within hours, too, by chance."""
_HOURLY = (35, 30, 28, 27, 28, 32, 40, 52, 66, 78, 84, 82, 76, 80, 92, 100, 98, 90, 78, 66, 58, 52, 46, 40)
"""How busy each hour of a day (UTC) is, in percent of the busiest one."""
_ACTIVITY_STEPS = 5
"""The activity is the same for 2^5 steps, since it changes slowly."""
_SLOW = 100
"""Added to the numbers of these random functions, to tell them from those of the price."""


class Market:
    """One invented market; ``step`` counts steps of ``step_s`` seconds since ``start``, in seconds since 1970."""

    def __init__(self, seed: bytes, start: int, step_s: int) -> None:
        self._seed = seed
        self._start = start
        self._step_s = step_s
        # Not caches of the methods, which all markets would share.
        self._row = lru_cache(maxsize=4096)(self._made_row)
        self._activity = lru_cache(maxsize=64)(self._made_activity)

    def activity(self, step: int) -> int:
        """How busy the market is, in percent: 10 to 200, by the time of the day and a slow random change."""
        return self._activity(step >> _ACTIVITY_STEPS << _ACTIVITY_STEPS)

    def deviation(self, step: int) -> int:
        """How far the price is from its mean, in parts of :data:`ONE`; at most :data:`BOUND`."""
        fine = sum([self._noise(scale, scale, step, size) for scale, size in _FINE])
        coarse = sum([self._noise(scale, scale, step, size) for scale, size in _COARSE])
        return fine * self.activity(step) // 100 + coarse

    def _made_activity(self, step: int) -> int:
        hour, second = divmod((self._start + step * self._step_s) % 86_400, 3600)
        daily = (_HOURLY[hour] * (3600 - second) + _HOURLY[(hour + 1) % 24] * second) // 3600
        slow = sum([self._noise(_SLOW + scale, scale, step, 40) for scale in _SLOW_SCALES])
        return min(200, max(10, daily + 20 + slow))

    def _noise(self, number: int, scale: int, step: int, size: int) -> int:
        """The random function with this number: between -size and size, linear between every 2^scale steps."""
        at = step >> scale
        values = self._row(number, at >> 5)
        left = values[at & 31]
        right = values[(at & 31) + 1] if at & 31 != 31 else self._row(number, (at >> 5) + 1)[0]
        return ((left << scale) + (right - left) * (step & ((1 << scale) - 1))) * size >> (scale + 15)

    def _made_row(self, number: int, row: int) -> tuple[int, ...]:
        """32 values of a random function."""
        return struct.unpack("<32h", blake2b(b"%d %d" % (number, row), key=self._seed).digest())
