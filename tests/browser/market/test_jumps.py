"""A trader's jumps: dates, ranges, Back, and what a link leaves as it was."""

from __future__ import annotations

import pytest

from tests.browser.market.conftest import SYMBOL, Tab, choose_zone, clock, query, settled, shown, time_of
from tests.browser.market.stage import HOUR, Stage, now, tick

pytestmark = pytest.mark.functional

DAY = 24 * HOUR


def test_a_date_is_found_on_the_clocks_of_the_zone(tab: Tab, stage: Stage) -> None:
    symbol, end = "DEMO:DATED", now() // HOUR * HOUR
    stage.write(*(tick(symbol, end - at * HOUR, str(100 + at)) for at in range(400)))
    wanted = end - 250 * HOUR
    opened = tab(query(symbol, "1h", zone="+05:30")).drawn()
    page = opened.page
    date = page.get_by_label("Date", exact=True)
    opened.keys("Alt+g")
    date.fill("nonsense")
    opened.keys("Enter")
    page.get_by_text("Write a date like 2026-01-31").wait_for()
    date.fill(clock(wanted, 330)[:16])
    opened.keys("Enter")
    opened.closes_at("350")
    assert page.locator("#legend-time").text_content() == clock(wanted, 300)[:16], "its bucket"
    view = shown(opened)
    assert time_of(view["from"]) < wanted < time_of(view["to"])


def test_a_date_at_the_end_of_time_is_shown_or_refused_in_words(tab: Tab) -> None:
    opened = tab(query(interval="1d")).drawn()
    page = opened.page
    date = page.get_by_label("Date", exact=True)
    opened.keys("Alt+g")
    for year in ("5000", "0050", "1969"):
        date.fill(f"{year}-01-01")
        opened.keys("Enter")
        page.get_by_text("The year is from 1970 to 2999.").wait_for()
        date.fill("")
        opened.keys("Enter")
        page.get_by_text("Write a date like").wait_for()
    for day, end in (("1970-01-01", "from=1970-01-01T00:00:00Z"), ("2999-12-31", "to=2999-12-31T23:59:59.999Z")):
        date.fill(day)
        opened.keys("Enter")
        opened.becomes(lambda end=end: end in opened.url)
        page.get_by_role("heading", name="No trades in this range").wait_for()
        assert end in settled(opened), "the view does not go to the candles"


def test_a_range_shows_its_days_in_a_fitting_interval(tab: Tab, stage: Stage) -> None:
    symbol, end = "DEMO:RANGED", now()
    stage.write(*(tick(symbol, end - at * HOUR, "100") for at in range(24 * 40)))
    opened = tab(query(symbol, "1h")).drawn()
    page = opened.page
    for name, interval, days in (("1D", "5m", 1), ("1M", "4h", 30)):
        page.get_by_role("button", name=name, exact=True).click()
        opened.becomes(lambda interval=interval: f"interval={interval}&" in opened.url)
        view = shown(opened)
        length = time_of(view["to"]) - time_of(view["from"])
        assert days * DAY <= length <= days * DAY + 4 * HOUR, name
    stage.write(*(tick("DEMO:ALL", end - at * DAY, "100") for at in (0, 10, 300)))
    opened.go(query("DEMO:ALL", "1m")).drawn()
    opened.keys("Alt+6")
    opened.becomes(lambda: "interval=12h&" in opened.url)
    assert time_of(shown(opened)["from"]) <= end - 300 * DAY


def test_back_returns_to_the_symbol_before_with_its_age(tab: Tab, stage: Stage) -> None:
    stage.write(tick("DEMO:AGED", now() - 30 * HOUR, "3"), tick("DEMO:LATER", now(), "7"))
    opened = tab(query("DEMO:AGED", "1h")).drawn()
    page = opened.page
    before = settled(opened)
    opened.choose("later")
    opened.closes_at("7")
    page.go_back()
    opened.closes_at("3")
    opened.becomes(lambda: opened.url == before)
    opened.becomes(lambda: page.locator("#live-text").text_content() == "last trade 30 h ago")
    page.go_forward()
    opened.closes_at("7")


def test_a_link_changes_no_remembered_choice(tab: Tab, stage: Stage) -> None:
    stage.write(tick("DEMO:ELSEWHERE", now(), "1"))
    opened = tab(query("DEMO:ELSEWHERE", "5m")).drawn()
    page = opened.page
    opened.choose(SYMBOL)
    opened.becomes(lambda: f"symbol={SYMBOL}&" in opened.url)
    choose_zone(page, "+2")
    page.get_by_role("button", name="1m", exact=True).click()
    opened.keys("Alt+t")
    opened.becomes(lambda: "interval=1m&zone=+02:00" in opened.url and "panels=trades" in opened.url)
    stored = "JSON.stringify(Object.entries(localStorage).sort())"
    before = page.evaluate(stored)
    assert "+02:00" in before
    opened.go(query("DEMO:ELSEWHERE", "15m", zone="-05:00", panels="watchlist", type="line", bars=50)).drawn()
    assert page.locator("#zone").inner_text() == "UTC−05:00"
    settled(opened)
    assert page.evaluate(stored) == before
    opened.go().drawn()
    opened.becomes(lambda: f"symbol={SYMBOL}&interval=1m" in opened.url)
    assert page.locator("#zone").inner_text() == "UTC+02:00"
    assert page.locator("#trades").is_visible()
