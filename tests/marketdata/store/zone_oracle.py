"""The buckets of a named time zone, worked out from the standard library's clock, one minute after the other."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from functools import cached_property
from itertools import pairwise
from zoneinfo import ZoneInfo

from marketdata.interval import DAY, SECOND, WIDTHS

_EPOCH = date(1970, 1, 1)


class Window:
    """The buckets of a zone in the weeks around a date."""

    def __init__(self, name: str, around: date, weeks: int = 10) -> None:
        self._zone = ZoneInfo(name)
        self._around = datetime.combine(around, datetime.min.time(), UTC)
        self._reach = timedelta(weeks=weeks)

    @cached_property
    def days(self) -> list[tuple[int, date]]:
        """The beginning of each day (microseconds), and its date. A day begins in the first minute in which the clock
        shows its date or a later one. Far from the date, only hours with a new date are read by the minute."""
        found: list[tuple[int, date]] = []
        at, latest = self._around - self._reach, date.max
        while at < self._around + self._reach:
            minutes = range(1, 61)
            if abs(at - self._around) > timedelta(days=3) and self._date(at + timedelta(hours=1)) == latest:
                minutes = range(60, 61)
            for minute in minutes:
                shown = self._date(at + timedelta(minutes=minute))
                if shown > latest:
                    found.append((int((at + timedelta(minutes=minute)).timestamp()) * SECOND, shown))
                    latest = shown
                elif latest == date.max:
                    latest = shown
            at += timedelta(hours=1)
        return found

    def _date(self, at: datetime) -> date:
        return at.astimezone(self._zone).date()

    def buckets(self, interval: str, every: int = 1) -> list[tuple[int, int]]:
        """The buckets near the date, as opening time and end: of five days, or of three weeks, or of three months. Of
        those that are shorter than a day, the first of each day and ``every`` so many."""
        width = WIDTHS[interval]
        if width is not None and width < 86_400:
            middle = int(self._around.timestamp()) * SECOND
            near = [start for start, _ in self.days if abs(start - middle) < 3 * DAY]
            return [
                (opened, min(opened + width * SECOND, end))
                for start, end in pairwise(near)
                for opened in range(start, end, every * width * SECOND)
            ]
        labels: dict[tuple[int, int], int] = {}
        for start, day in self.days:
            labels.setdefault(_label(interval, day), start)
        return list(pairwise(list(labels.values())[1:]))


def _label(interval: str, day: date) -> tuple[int, int]:
    """Equal for all days of a bucket."""
    number = (day - _EPOCH).days
    return {"1d": (number, 0), "3d": (number // 3, 0), "1w": day.isocalendar()[:2], "1M": (day.year, day.month)}[
        interval
    ]
