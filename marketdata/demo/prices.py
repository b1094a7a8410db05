"""The demo's invented prices and activity. They depend on a seed and the time alone, so every machine gets the same.

The price is a sum of random functions (value noise). Each function is linear between random values at equal distances
in time; each further function has four times the distance and twice the size. The sum looks like a random walk over
minutes and days. Unlike a random walk it stays within bounds, and any moment can be computed without the moments before
it. All calculations use integers.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from hashlib import blake2b

ONE = 1_000_000_000
"""Deviations from the mean price are in parts per 1 000 000 000."""
_FINEST = 160_000
"""The largest deviation of the finest function, in parts of ``ONE``."""
_FINE = tuple((scale, _FINEST << scale // 2) for scale in range(0, 11, 2))
"""The functions that grow with the activity, as (scale, size). The random values of a function are 2^scale steps apart.
A step has two seconds, so these are two seconds to half an hour."""
_COARSE = tuple((scale, _FINEST << scale // 2) for scale in range(12, 19, 2))
"""The functions that do not depend on the activity. Their random values are two hours to six days apart."""
BOUND = 2 * sum(size for _, size in _FINE) + sum(size for _, size in _COARSE)
"""The largest possible deviation."""

_SLOW_SCALES = (12, 14)
"""The activity also changes at random, over hours."""
_HOURLY = (35, 30, 28, 27, 28, 32, 40, 52, 66, 78, 84, 82, 76, 80, 92, 100, 98, 90, 78, 66, 58, 52, 46, 40)
"""The activity at each hour of a day (UTC), in percent of the busiest hour."""
_ACTIVITY_STEPS = 5
"""The activity is computed once for 2^5 steps, because it changes slowly."""
_SLOW = 100
"""This is added to the numbers of the activity's random functions, so that the price uses other random functions."""


class Market:
    """One invented market. ``start`` is in seconds since 1970. Steps of ``step_s`` seconds are counted from it."""

    def __init__(self, seed: bytes, start: int, step_s: int) -> None:
        self._seed = seed
        self._start = start
        self._step_s = step_s
        # Caches on the methods would be shared by all markets.
        self._row = lru_cache(maxsize=4096)(self._compute_row)
        self._activity = lru_cache(maxsize=64)(self._compute_activity)

    def activity(self, step: int) -> int:
        """The activity in percent, 10 to 200. It depends on the hour of the day and a slow random function."""
        return self._activity(step >> _ACTIVITY_STEPS << _ACTIVITY_STEPS)

    def deviation(self, step: int) -> int:
        """The price's deviation from its mean, in parts of :data:`ONE`, at most :data:`BOUND`."""
        fine = sum([self._noise(scale, scale, step, size) for scale, size in _FINE])
        coarse = sum([self._noise(scale, scale, step, size) for scale, size in _COARSE])
        return fine * self.activity(step) // 100 + coarse

    def _compute_activity(self, step: int) -> int:
        hour, second = divmod((self._start + step * self._step_s) % 86_400, 3600)
        daily = (_HOURLY[hour] * (3600 - second) + _HOURLY[(hour + 1) % 24] * second) // 3600
        slow = sum([self._noise(_SLOW + scale, scale, step, 40) for scale in _SLOW_SCALES])
        return min(200, max(10, daily + 20 + slow))

    def _noise(self, number: int, scale: int, step: int, size: int) -> int:
        """The random function ``number`` at ``step``: from -size to size, linear between values 2^scale steps apart."""
        at = step >> scale
        values = self._row(number, at >> 5)
        left = values[at & 31]
        right = values[(at & 31) + 1] if at & 31 != 31 else self._row(number, (at >> 5) + 1)[0]
        return ((left << scale) + (right - left) * (step & ((1 << scale) - 1))) * size >> (scale + 15)

    def _compute_row(self, number: int, row: int) -> tuple[int, ...]:
        """32 successive values of the random function ``number``."""
        return struct.unpack("<32h", blake2b(b"%d %d" % (number, row), key=self._seed).digest())
