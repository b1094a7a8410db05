"""The time axis in the time zone of the view, and the breaks of long times without trades."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from playwright.sync_api import Page

from tests.browser.market.conftest import Tab, drawn_texts, query
from tests.browser.market.stage import HOUR, Stage, now, tick

pytestmark = pytest.mark.functional

# The weights that the library's marks get at these times, as a text of each time on the clocks of the zone.
WEIGHTS = """([zone, times]) => import('/static/local_time_scale.js').then(({ LocalTimeScale }) => {
  const scale = new LocalTimeScale();
  scale.zone = zone;
  const points = times.map((time) => ({ originalTime: time }));
  scale.fillWeightsForPoints(points.slice(0, 5), 0);
  const all = [...points.slice(0, 5), ...points.slice(5)];
  scale.fillWeightsForPoints(all, 5);
  return all.map(({ timeWeight }) => timeWeight);
})"""


def weights(page: Page, zone: str, first: datetime, step: int, count: int) -> list[tuple[str, int]]:
    times = [int(first.timestamp()) + at * step for at in range(count)]
    found: Any = page.evaluate(WEIGHTS, [zone, times])
    return [
        (f"{datetime.fromtimestamp(time, ZoneInfo(zone)):%Y-%m-%d %H:%M}", weight)
        for time, weight in zip(times, found, strict=True)
    ]


def test_days_and_hours_begin_on_the_clocks_of_the_zone(blank: Page) -> None:
    for zone in ("America/New_York", "Asia/Kolkata", "UTC"):
        found = weights(blank, zone, datetime(2034, 12, 29, 12, tzinfo=ZoneInfo(zone)), 1800, 48 * 40)
        by_time = dict(found)
        assert (by_time["2035-01-01 00:00"], by_time["2035-02-01 00:00"]) == (70, 60), zone
        assert {weight for time, weight in found if time.endswith(" 00:00") and "-01 " not in time} == {50}, zone
        assert {weight for time, weight in found if weight >= 50 and not time.endswith(" 00:00")} == set(), zone
        hours = [by_time[f"2035-01-10 {time}"] for time in ("12:00", "06:00", "09:00", "10:00", "10:30")]
        assert hours == [33, 32, 31, 30, 22], zone
    berlin = ZoneInfo("Europe/Berlin")
    autumn = weights(blank, "Europe/Berlin", datetime(2026, 10, 24, 20, tzinfo=berlin), 3600, 12)
    assert " ".join(time[11:13] for time, _ in autumn) == "20 21 22 23 00 01 02 02 03 04 05 06", "a repeated hour"
    assert [weight for _, weight in autumn][4:] == [50, 30, 30, 0, 31, 30, 30, 32]
    spring = dict(weights(blank, "Europe/Berlin", datetime(2027, 3, 28, 0, tzinfo=berlin), 3600, 8))
    assert (spring["2027-03-28 00:00"], spring["2027-03-28 03:00"], spring["2027-03-28 06:00"]) == (50, 31, 32)


def test_a_shortened_time_without_trades_is_a_break_with_its_length(tab: Tab, stage: Stage) -> None:
    symbol, end = "DEMO:BROKEN", now() // HOUR * HOUR
    stage.write(*(tick(symbol, end - at * HOUR, str(100 + at % 7)) for at in (*range(30), *range(1470, 1500))))
    opened = tab(query(symbol, "1h", bars=560)).drawn()
    text = "60 days without trades"
    width = opened.page.evaluate("document.querySelector('#chart td:nth-child(2)').offsetWidth")
    place = drawn_texts(opened)[text]["x"] / width
    line = opened.has_pixels("var(--ink-soft)", place - 0.01, place + 0.01, 100)
    assert line > 300, "a zigzag line from top to bottom"
    stage.cover(symbol, end - 1500 * HOUR, end - 1000 * HOUR)
    stage.cover(symbol, end - 500 * HOUR, end + HOUR)
    opened.page.reload()
    opened.drawn()
    assert "60 days" in drawn_texts(opened), "a part of this time was not indexed, so it may have had trades"
