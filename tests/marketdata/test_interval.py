"""Buckets against the calendar of the standard library."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from marketdata.interval import DAY, RESOLUTIONS, SECOND, WIDTHS, Zone, bucket_end, bucket_open

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
times = st.integers(0, 32_503_680_000_000_000 - 1)
shifts = st.integers(-720, 840)


def local(us: int, shift: int) -> datetime:
    return (EPOCH + timedelta(microseconds=us)).astimezone(timezone(timedelta(minutes=shift)))


@given(times, st.sampled_from(list(WIDTHS)), shifts)
def test_buckets_hold_their_times_and_touch_without_gap(us: int, interval: str, shift: int) -> None:
    opened = bucket_open(us, interval, Zone.fixed(shift))
    end = bucket_end(opened, interval, Zone.fixed(shift))
    assert opened <= us < end
    assert (
        bucket_open(opened, interval, Zone.fixed(shift)) == opened == bucket_open(end - 1, interval, Zone.fixed(shift))
    )
    assert bucket_open(end, interval, Zone.fixed(shift)) == end


@given(times, shifts)
def test_wide_buckets_follow_the_calendar_of_the_zone(us: int, shift: int) -> None:
    midnight = local(us, shift).replace(hour=0, minute=0, second=0, microsecond=0)
    assert local(bucket_open(us, "1d", Zone.fixed(shift)), shift) == midnight
    assert local(bucket_open(us, "1w", Zone.fixed(shift)), shift) == midnight - timedelta(days=midnight.weekday())
    assert local(bucket_open(us, "1M", Zone.fixed(shift)), shift) == midnight.replace(day=1)
    three = local(bucket_open(us, "3d", Zone.fixed(shift)), shift)
    assert (three.date() - EPOCH.date()).days % 3 == 0
    assert (three.hour, three.minute, three.second) == (0, 0, 0)


@given(times, shifts, st.sampled_from(["2h", "4h", "6h", "8h", "12h"]))
def test_hours_count_from_the_midnight_of_the_zone(us: int, shift: int, interval: str) -> None:
    opened = local(bucket_open(us, interval, Zone.fixed(shift)), shift)
    assert opened.hour % int(interval[:-1]) == 0
    assert (opened.minute, opened.second, opened.microsecond) == (0, 0, 0)


@given(times, st.sampled_from(["1s", "1m", "3m", "5m", "15m", "30m", "1h"]), st.integers(-12, 14))
def test_whole_hours_of_shift_leave_short_buckets_alone(us: int, interval: str, hours: int) -> None:
    assert bucket_open(us, interval, Zone.fixed(hours * 60)) == bucket_open(us, interval)


def test_offsets_are_read() -> None:
    for text, minutes in (
        ("0", 0), ("+0", 0), ("-00:00", 0), ("+05:30", 330), (" 05:30", 330), ("5:45", 345), ("-8", -480),
        ("-12:00", -720), ("+14:00", 840), ("14", 840),
    ):  # fmt: skip
        assert Zone.of_offset(text) == Zone.fixed(minutes)


def test_a_text_that_is_no_offset_is_refused() -> None:
    for text in ("", "+", "-12:01", "+14:01", "15", "1:60", "1:5", "UTC", "+5:30:00", "--5", "٣", "5\n"):
        with pytest.raises(ValueError, match=r"-12:00 to \+14:00"):
            Zone.of_offset(text)


def test_the_words_of_tradingview_cover_every_interval() -> None:
    assert set(RESOLUTIONS.values()) == set(WIDTHS)
    assert all(WIDTHS[RESOLUTIONS[minutes]] == int(minutes) * 60 for minutes in RESOLUTIONS if minutes.isdigit())


def test_months_have_their_lengths() -> None:
    opened = bucket_open(1_704_067_200 * SECOND, "1M")
    lengths = []
    for _ in range(14):
        end = bucket_end(opened, "1M")
        lengths.append((end - opened) // DAY)
        opened = end
    assert lengths == [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31, 31, 28]
