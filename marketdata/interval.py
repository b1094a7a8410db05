"""The intervals of candles, and functions for the bounds of buckets. ``store/sql/candles.sql`` has the same rules.

A bucket is half-open, [open, end). Days and longer intervals begin at local midnight. If the clock shows midnight
twice, this is the first time; if it skips midnight, it is the first instant after the gap. Weeks start on Monday,
months on their first day. Three-day buckets are counted from 1970-01-01. Shorter intervals divide the day from its
beginning, in real time, so the last bucket of a day of 23 or 25 hours may be shorter than its interval. Times are in
microseconds since 1970, offsets from UTC in minutes.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from math import gcd
from typing import Self, overload

from marketdata.tick import EARLIEST, LATEST

SECOND = 1_000_000
MINUTE = 60 * SECOND
DAY = 86_400 * SECOND

WIDTHS: dict[str, int | None] = {
    "1s": 1, "1m": 60, "3m": 180, "5m": 300, "15m": 900, "30m": 1800,
    "1h": 3600, "2h": 7200, "4h": 14_400, "6h": 21_600, "8h": 28_800, "12h": 43_200,
    "1d": 86_400, "3d": 259_200, "1w": 604_800, "1M": None,
}  # fmt: skip
"""Seconds of each interval; None for a month, whose length varies."""

LEVELS: dict[str, int] = {"1m": 60, "15m": 900, "30m": 1800, "1h": 3600, "4h": 14_400, "1d": 86_400}
"""The intervals whose candles are stored. The level is the width in seconds: the column ``res`` of the stored rows."""

RESOLUTIONS: dict[str, str] = {
    "1S": "1s", "1": "1m", "3": "3m", "5": "5m", "15": "15m", "30": "30m",
    "60": "1h", "120": "2h", "240": "4h", "360": "6h", "480": "8h", "720": "12h",
    "D": "1d", "1D": "1d", "3D": "3d", "W": "1w", "1W": "1w", "M": "1M", "1M": "1M",
}  # fmt: skip
"""The interval of each TradingView resolution. As in the intervals, ``1M`` is a month; ``1`` is a minute."""

MIN_OFFSET, MAX_OFFSET = -12 * 60, 14 * 60
TIME_ZONE_FORMS = "an offset from UTC like +05:30, from -12:00 to +14:00, or a name like Europe/Berlin"

_ORIGIN = -360 * DAY  # Monday, 1969-01-06
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_OFFSET = re.compile(r"([+ -]?)([0-9]{1,2})(?::([0-5][0-9]))?")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_+ /-]{0,63}")


def is_zone_name(text: str) -> bool:
    """Whether ``text`` has the form of a time zone's name. A space stands for ``+``, because ``+`` in a URL decodes to
    a space."""
    return _NAME.fullmatch(text) is not None


@dataclass(frozen=True)
class Zone:
    """A time zone. ``name`` is ``+05:30`` or a name like ``Europe/Berlin``. ``offsets`` are those of all times that
    ticks can have, and ``changes`` the times at which the second and the further ones begin."""

    name: str
    offsets: tuple[int, ...] = field(default=(0,), compare=False)
    changes: tuple[int, ...] = field(default=(), compare=False, repr=False)

    @classmethod
    def fixed(cls, offset: int) -> Self:
        """The zone with one offset from UTC."""
        hours, minutes = divmod(abs(offset), 60)
        return cls(f"{'-' if offset < 0 else '+'}{hours:02}:{minutes:02}", (offset,))

    @classmethod
    def of_offset(cls, text: str) -> Self:
        """Parse an offset from UTC like ``+05:30``, ``-8`` or ``0``. Raises ValueError for other text. A space counts
        as ``+``, because ``+`` in a URL decodes to a space."""
        found = _OFFSET.fullmatch(text)
        if found:
            minutes = int(found[2]) * 60 + int(found[3] or 0)
            minutes = -minutes if found[1] == "-" else minutes
            if MIN_OFFSET <= minutes <= MAX_OFFSET:
                return cls.fixed(minutes)
        raise ValueError(f"must be {TIME_ZONE_FORMS}")

    @property
    def is_fixed(self) -> bool:
        """Whether the offset never changes."""
        return not self.changes

    def offset_at(self, ts: int) -> int:
        return self.offsets[bisect_right(self.changes, ts)]

    def for_buckets(self, interval: str) -> Zone:
        """The simplest zone whose buckets of this interval are the same: one with a fixed offset, if there is one."""
        width = WIDTHS[interval]
        if width is not None and width < 86_400 and self._divisor * 60 % width == 0:
            return UTC_ZONE
        return Zone.fixed(self.offsets[0]) if self.is_fixed else self

    @cached_property
    def _divisor(self) -> int:
        return gcd(*self.offsets)

    def day_start(self, midnight: int) -> int:
        """The time at which the day begins whose local midnight is ``midnight``, as if it were a time in UTC."""
        before, after = self.offset_at(midnight - DAY), self.offset_at(midnight + DAY)
        first, second = midnight - before * MINUTE, midnight - after * MINUTE
        if self.offset_at(first) == before:
            return first
        if self.offset_at(second) == after:
            return second
        return self.changes[bisect_right(self.changes, first) - 1]  # the clock skips midnight

    def local_day(self, ts: int) -> int:
        """The local midnight, as if it were a time in UTC, of the day that contains ``ts``."""
        local = ts + self.offset_at(ts) * MINUTE
        following = local - local % DAY + DAY
        return following if self.day_start(following) <= ts else following - DAY


UTC_ZONE = Zone.fixed(0)


def bucket_open(ts: int, interval: str, zone: Zone = UTC_ZONE) -> int:
    """The opening time of the bucket that contains ``ts``."""
    width, zone = WIDTHS[interval], zone.for_buckets(interval)
    day = zone.local_day(ts)
    if width is not None and width * SECOND < DAY:
        return ts - (ts - zone.day_start(day)) % (width * SECOND)
    return zone.day_start(_first_day(day, width))


def bucket_end(opened: int, interval: str, zone: Zone = UTC_ZONE) -> int:
    """The end of the bucket that opens at ``opened``, which is the opening time of the next one."""
    width, zone = WIDTHS[interval], zone.for_buckets(interval)
    day = zone.local_day(opened)
    if width is not None and width * SECOND < DAY:
        return min(opened + width * SECOND, zone.day_start(day + DAY))
    first = _first_day(day, width)
    # 31 days later is always in the next month
    return zone.day_start(_first_day(first + 31 * DAY, None) if width is None else first + width * SECOND)


def _first_day(day: int, width: int | None) -> int:
    """The local midnight at which the bucket of whole days begins that contains ``day``. ``width`` is in seconds."""
    if width is not None:
        return day - (day - _ORIGIN) % (width * SECOND)
    month = (_EPOCH + timedelta(microseconds=day)).replace(day=1) - _EPOCH
    return month.days * DAY


@overload
def clamped(bound: int) -> int: ...
@overload
def clamped(bound: None) -> None: ...
@overload
def clamped(bound: int | None) -> int | None: ...
def clamped(bound: int | None) -> int | None:
    """Limit a bound (microseconds) to the times that ticks can have, plus 40 days on both sides. The result selects the
    same ticks and candles, and is in the range of PostgreSQL's timestamps."""
    return None if bound is None else max(EARLIEST - 40 * DAY, min(bound, LATEST + 40 * DAY))
