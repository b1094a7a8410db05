"""The intervals of candles, and functions for the bounds of buckets. ``store/sql/candles.sql`` has the same rules.

A bucket is half-open, [open, end). Weeks start on Monday, months on their first day. Three-day buckets are counted from
1970-01-01. All this is in local time, which is UTC plus the shift of a time zone. Times are in microseconds since 1970,
shifts in minutes.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import overload

from marketdata.tick import EARLIEST, LATEST

SECOND = 1_000_000
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

MIN_SHIFT, MAX_SHIFT = -12 * 60, 14 * 60

_ORIGIN = -360 * DAY  # Monday, 1969-01-06
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ZONE = re.compile(r"([+ -]?)([0-9]{1,2})(?::([0-5][0-9]))?")


def bucket_open(ts: int, interval: str, shift: int = 0) -> int:
    """The opening time of the bucket that contains ``ts``."""
    ahead = shift * 60 * SECOND
    width = WIDTHS[interval]
    if width is None:
        local = _EPOCH + timedelta(microseconds=ts + ahead)
        return _since(datetime(local.year, local.month, 1, tzinfo=UTC)) - ahead
    return ts - (ts + ahead - _ORIGIN) % (width * SECOND)


def bucket_end(opened: int, interval: str, shift: int = 0) -> int:
    """The end of the bucket that opens at ``opened``, which is the opening time of the next one."""
    width = WIDTHS[interval]
    if width is None:  # 31 days later is always in the next month
        return bucket_open(opened + 31 * DAY, interval, shift)
    return opened + width * SECOND


def time_zone_shift(text: str) -> int:
    """Parse an offset from UTC like ``+05:30``, ``-8`` or ``0`` to minutes. Raises ValueError for other text. A space
    counts as ``+``, because ``+`` in a URL decodes to a space."""
    found = _ZONE.fullmatch(text)
    if found:
        minutes = int(found[2]) * 60 + int(found[3] or 0)
        minutes = -minutes if found[1] == "-" else minutes
        if MIN_SHIFT <= minutes <= MAX_SHIFT:
            return minutes
    raise ValueError("must be an offset from UTC like +05:30, -12:00 to +14:00; names of time zones are not supported")


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


def _since(moment: datetime) -> int:
    since = moment - _EPOCH
    return (since.days * 86_400 + since.seconds) * SECOND
