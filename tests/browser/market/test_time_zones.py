"""Named time zones: their offsets and days, the choice of one, and what a link leaves as it was."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from playwright.sync_api import Browser, Page, expect

from marketdata.postgres.cluster import conninfo
from marketdata.store.pool import connect
from tests.browser.market.conftest import ChartPage, new_tabs, query
from tests.browser.market.conftest import clock as local_text
from tests.browser.market.stage import HOUR, MINUTE, Stage, now, tick
from tests.browser.tabs import Tabs

pytestmark = pytest.mark.functional

DAY = 24 * HOUR

# A zone and a day near its change of offset.
CHANGES = {
    "spring in Berlin": ("Europe/Berlin", "2024-03-31"),
    "autumn in Berlin": ("Europe/Berlin", "2024-10-27"),
    "autumn in New York": ("America/New_York", "2023-11-05"),
    "half an hour in Lord Howe": ("Australia/Lord_Howe", "2024-04-07"),
    "quarters of an hour in Chatham": ("Pacific/Chatham", "2023-09-24"),
    "a skipped day in Apia": ("Pacific/Apia", "2011-12-30"),
    "a day twice in Kwajalein": ("Pacific/Kwajalein", "1993-08-21"),
    "a skipped midnight in Sao Paulo": ("America/Sao_Paulo", "2018-11-04"),
    "a repeated midnight in Havana": ("America/Havana", "2024-11-03"),
    "a minute after midnight in St. John's": ("America/St_Johns", "2010-11-07"),
    "a new offset in Pyongyang": ("Asia/Pyongyang", "2018-05-05"),
    "short summers in Casablanca": ("Africa/Casablanca", "2012-07-20"),
}
OFFSETS = """async ([zone, times]) => {
  const { offsetAt } = await import('/static/time_zones.js');
  return times.map((time) => offsetAt(time, zone));
}"""
TIMES = """async ([zone, locals]) => {
  const { timeOf } = await import('/static/time_zones.js');
  return locals.map((local) => timeOf(local, zone));
}"""


def clock(time: int, zone: str) -> int:
    """What the clocks of a zone show, as milliseconds since 1970-01-01 00:00 on them."""
    shown = datetime.fromtimestamp(time / 1000, ZoneInfo(zone)).replace(tzinfo=UTC)
    return int(shown.timestamp()) * 1000


def midnight(day: str) -> int:
    return int(datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp()) * 1000


def test_each_local_time_begins_when_the_clocks_first_show_it(blank: Page) -> None:
    for change, (zone, day) in CHANGES.items():
        start = midnight(day) - 2 * DAY
        times = range(start, start + 4 * DAY, MINUTE if "minute" in change else 15 * MINUTE)
        shown = [clock(time, zone) for time in times]
        offsets = [local - time for local, time in zip(shown, times, strict=True)]
        assert blank.evaluate(OFFSETS, [zone, list(times)]) == offsets, change
        locals_ = range(start + DAY, start + 3 * DAY, 15 * MINUTE)
        expected = [begin(local, shown, times) for local in locals_]
        assert blank.evaluate(TIMES, [zone, list(locals_)]) == expected, change


def begin(local: int, shown: list[int], times: range) -> int:
    """The first time at which the clocks show ``local``, or the end of the gap that skips it."""
    if local in shown:
        return times[shown.index(local)]
    return next(
        time for (before, after), time in zip(pairwise(shown), times[1:], strict=True) if before < local < after
    )


# Compares the buckets of the page with opening times that follow each other. Returns what is wrong.
BUCKETS = """async (cases) => {
  const { bucketOpen, nextOpen } = await import('/static/intervals.js');
  const wrong = [];
  for (const [interval, zone, opens] of cases) for (let at = 0; at + 1 < opens.length; at += 1) {
    const [open, next] = [opens[at], opens[at + 1]];
    if (nextOpen(open, interval, zone) !== next) wrong.push([interval, open, next, nextOpen(open, interval, zone)]);
    for (const time of [open, Math.floor((open + next) / 2), next - 1]) {
      if (bucketOpen(time, interval, zone) !== open) wrong.push([interval, time, open]);
    }
  }
  return wrong;
}"""
DAYS = {"15m": 2, "30m": 2, "1h": 2, "4h": 4, "12h": 6, "1d": 10, "3d": 20, "1w": 60, "1M": 200}


def test_the_buckets_are_those_of_the_api(blank: Page, stage: Stage) -> None:
    stage.write(*(tick(f"DEMO:{day}", midnight(day) - 400 * DAY, "1") for _, day in CHANGES.values()))
    for change, (zone, day) in CHANGES.items():
        cases = []
        for interval, days in DAYS.items():
            bounds = f"startTime={midnight(day) - days * DAY}&endTime={midnight(day) + days * DAY}"
            path = f"/v1/chart?symbol=DEMO:{day}&interval={interval}&timeZone={zone}&fill=previous&limit=5000&{bounds}"
            cases.append([interval, zone, [candle["t"] for candle in stage.read(path)["candles"]]])
            assert len(cases[-1][2]) > 8
        assert blank.evaluate(BUCKETS, cases) == [], change


def test_the_api_knows_every_zone_of_the_list(blank: Page, stage: Stage) -> None:
    listed = blank.evaluate("import('/static/time_zones.js').then((zones) => zones.names())")
    assert len(listed) > 400
    with connect(conninfo(stage.state_dir)) as connection:
        known = {name for (name,) in connection.execute("SELECT name FROM pg_timezone_names").fetchall()}
    assert set(listed) <= known


@pytest.fixture(scope="module")
def calcutta_tabs(browser: Browser, stage: Stage) -> Iterator[Tabs]:
    """A browser whose zone is Asia/Kolkata, which Chromium calls by its old name Asia/Calcutta."""
    made = new_tabs(browser, stage, timezone_id="Asia/Calcutta")
    yield made
    made.context.close()


@pytest.fixture
def calcutta(calcutta_tabs: Tabs, stage: Stage) -> Iterator[ChartPage]:
    """A tab in that browser."""
    opened = ChartPage(calcutta_tabs.new(), stage).go(query()).drawn()
    yield opened
    calcutta_tabs.forget()
    assert opened.faults == []


def rows(page: Page) -> list[str]:
    return page.get_by_role("listbox", name="Time zones").locator("[role=option] b").all_text_contents()


def test_a_time_zone_is_found_by_city_name_and_offset(calcutta: ChartPage) -> None:
    page = calcutta.page
    page.keyboard.press("Alt+z")
    dialog = page.get_by_role("dialog", name="Time zone", exact=True)
    dialog.wait_for()
    assert rows(page)[:3] == ["UTC", "Asia/Kolkata", "Africa/Abidjan"]
    assert len(rows(page)) == 50
    option = page.get_by_role("option", name="Asia/Kolkata")
    for text in ("this browser", "UTC+05:30", page.evaluate("new Date().toTimeString().slice(0, 3)")):
        assert text in (option.text_content() or "")
    for typed, found in {
        "kolk": ["Asia/Kolkata"],
        "new york": ["America/New York"],
        "new_york": ["America/New York"],
        "europe/ber": ["Europe/Berlin"],
        "ber": ["Atlantic/Bermuda", "Europe/Berlin"],
        "kyiv": ["Europe/Kyiv"],
        "+5:30": ["UTC+05:30", "Asia/Kolkata", "Asia/Colombo"],
        "utc -11": ["UTC−11:00", "Pacific/Midway", "Pacific/Niue"],
        "+99": [],
    }.items():
        page.locator("#zone-search").fill(typed)
        assert rows(page)[: len(found) or 1] == found, typed
    page.get_by_text("No time zone has that in its name").wait_for()


def test_a_chosen_time_zone_is_in_every_label_and_near_the_top_afterwards(calcutta: ChartPage, stage: Stage) -> None:
    symbol, end = "DEMO:ZONED", now() // HOUR * HOUR
    stage.write(*(tick(symbol, end - at * MINUTE, "100") for at in range(200)))
    calcutta.go(query(symbol, panels="trades")).drawn()
    page = calcutta.page
    button = page.get_by_role("button", name="Time zone")
    for typed, label, ahead in (("+5:45", "UTC+05:45", 345), ("-3:30", "UTC−03:30", -210)):
        button.click()
        page.keyboard.type(typed)
        page.keyboard.press("Enter")
        calcutta.becomes(lambda label=label: button.inner_text() == label)
        time = local_text(end, ahead)
        expect(page.locator("#legend-time")).to_have_text(time[:16])
        expect(page.locator("#trade-rows tr td").first).to_have_text(re.compile(f"{time[11:]}$"))
    calcutta.becomes(lambda: "zone=-03:30" in calcutta.url)
    page.reload()
    calcutta.drawn()
    page.keyboard.press("Alt+z")
    assert rows(page)[:5] == ["UTC", "Asia/Kolkata", "UTC−03:30", "UTC+05:45", "Africa/Abidjan"]
