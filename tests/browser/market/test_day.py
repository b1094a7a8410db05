"""A trader's jumps and choices: dates, ranges, types and scales, Back, the link and the picture, full screen."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.browser.market.conftest import SYMBOL, ChartPage, Tab, query, settled
from tests.browser.market.stage import HOUR, Stage, now, tick

pytestmark = pytest.mark.functional


def parts(address: str) -> dict[str, str]:
    return {name: found[0] for name, found in parse_qs(urlsplit(address.replace("+", "%2B")).query).items()}


def test_a_date_is_found_on_the_clocks_of_the_zone(tab: Tab, stage: Stage) -> None:
    symbol, end = "DEMO:DATED", now() // HOUR * HOUR
    stage.write(*(tick(symbol, end - at * HOUR, str(100 + at)) for at in range(400)))
    wanted = end - 250 * HOUR
    opened = tab(query(symbol, "1h", zone="+05:30")).drawn()
    page = opened.page
    page.keyboard.press("Alt+g")
    local = page.evaluate("(ms) => new Date(ms + 5.5 * 3600000).toISOString().slice(0, 16).replace('T', ' ')", wanted)
    page.get_by_label("Date", exact=True).fill("nonsense")
    page.keyboard.press("Enter")
    page.get_by_text("Write a date like 2026-01-31").wait_for()
    page.get_by_label("Date", exact=True).fill(local)
    page.keyboard.press("Enter")
    opened.becomes(lambda: opened.legend().get("C") == "350")
    assert page.locator("#legend-time").text_content() == local.replace(":30", ":00"), "its bucket"
    shown = parts(settled(opened))
    at = page.evaluate("(name) => Date.parse(name)", shown["from"])
    assert at < wanted < page.evaluate("(name) => Date.parse(name)", shown["to"])


@pytest.mark.full
def test_a_date_at_the_end_of_time_is_shown_or_refused_in_words(tab: Tab) -> None:
    opened = tab(query(interval="1d")).drawn()
    page = opened.page
    page.keyboard.press("Alt+g")
    for year in ("5000", "0050", "1969"):
        page.get_by_label("Date", exact=True).fill(f"{year}-01-01")
        page.keyboard.press("Enter")
        page.get_by_text("The year is from 1970 to 2999.").wait_for()
        page.get_by_label("Date", exact=True).fill("")
        page.keyboard.press("Enter")
        page.get_by_text("Write a date like").wait_for()
    for date, end in (("1970-01-01", "from=1970-01-01T00:00:00Z"), ("2999-12-31", "to=2999-12-31T23:59:59.999Z")):
        page.get_by_label("Date", exact=True).fill(date)
        page.keyboard.press("Enter")
        opened.becomes(lambda end=end: end in opened.url)
        page.get_by_role("heading", name="No trades in this range").wait_for()
        assert end in settled(opened), "the view does not go to the candles"


@pytest.mark.full
def test_a_day_of_1972_is_shown_although_its_milliseconds_look_like_seconds(tab: Tab, stage: Stage) -> None:
    symbol, first = "DEMO:OLD", datetime(1972, 1, 1, tzinfo=UTC)
    moments = [first + timedelta(hours=at) for at in range(3000)]
    stage.write(*(tick(symbol, each.isoformat(), str(100 + at)) for at, each in enumerate(moments)))
    opened = tab(query(symbol, "1h")).drawn()
    opened.page.keyboard.press("Alt+g")
    opened.page.get_by_label("Date", exact=True).fill("1972-01-10 00:00")
    opened.page.keyboard.press("Enter")
    opened.becomes(lambda: opened.legend().get("C") == str(100 + 9 * 24))


@pytest.mark.full
def test_a_range_button_says_so_while_the_symbols_are_unread(tab: Tab) -> None:
    opened = tab()
    page = opened.page
    page.route("**/api/v1/symbols", lambda route: route.abort())
    opened.go(query()).drawn()
    page.get_by_role("button", name="1D", exact=True).click()
    page.get_by_text("It is not known yet from when to when this symbol was traded.").wait_for()


@pytest.mark.parametrize(
    ("name", "interval", "days"), [("1D", "5m", 1), pytest.param("1M", "4h", 30, marks=pytest.mark.full)]
)
def test_a_range_shows_its_days_in_a_fitting_interval(
    tab: Tab, stage: Stage, name: str, interval: str, days: int
) -> None:
    symbol, end = f"DEMO:RANGE-{name}", now()
    stage.write(*(tick(symbol, end - at * HOUR, "100") for at in range(24 * 40)))
    opened = tab(query(symbol, "1h")).drawn()
    opened.page.get_by_role("button", name=name, exact=True).click()
    opened.becomes(lambda: f"interval={interval}&" in opened.url)
    shown = parts(settled(opened))
    length = opened.page.evaluate("([from, to]) => Date.parse(to) - Date.parse(from)", [shown["from"], shown["to"]])
    assert days * 24 * HOUR <= length <= (days * 24 + 4) * HOUR


@pytest.mark.full
def test_everything_is_shown_by_all(tab: Tab, stage: Stage) -> None:
    symbol, end = "DEMO:ALL", now()
    stage.write(*(tick(symbol, end - at * 24 * HOUR, "100") for at in (0, 10, 300)))
    opened = tab(query(symbol, "1m")).drawn()
    opened.page.keyboard.press("Alt+6")
    opened.becomes(lambda: "interval=12h&" in opened.url)
    first = opened.page.evaluate("(name) => Date.parse(name)", parts(settled(opened))["from"])
    assert first <= end - 300 * 24 * HOUR


@pytest.mark.full
def test_back_returns_to_the_symbol_before(tab: Tab, stage: Stage) -> None:
    stage.write(tick("DEMO:LATER", now(), "7"))
    opened = tab(query()).drawn()
    page = opened.page
    before = settled(opened)
    page.keyboard.type("later")
    page.keyboard.press("Enter")
    opened.becomes(lambda: opened.legend().get("C") == "7")
    page.go_back()
    opened.becomes(lambda: opened.url == before)
    opened.becomes(lambda: opened.legend().get("C") not in (None, "7"))
    page.go_forward()
    opened.becomes(lambda: opened.legend().get("C") == "7")


@pytest.mark.full
def test_types_and_scales_are_in_the_address_and_back_from_it(tab: Tab) -> None:
    opened = tab(query()).drawn()
    page = opened.page
    for key in ("Alt+y", "Alt+y", "Alt+p", "Alt+i"):
        page.keyboard.press(key)
    shown = parts(settled(opened))
    assert (shown["type"], shown["scale"], shown["inverted"]) == ("bars", "percent", "1")
    page.reload()
    opened.drawn()
    assert page.locator("#type").input_value() == "bars"
    assert [page.locator(name).get_attribute("aria-pressed") for name in ("#percent", "#log", "#invert")] == [
        "true", "false", "true",
    ]  # fmt: skip
    page.keyboard.press("Alt+p")
    assert "scale" not in parts(settled(opened))


@pytest.mark.full
def test_link_and_picture_are_copied(tab: Tab) -> None:
    opened = tab(query()).drawn()
    page = opened.page
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    address = settled(opened)
    page.keyboard.press("Alt+k")
    page.get_by_text("The link is copied.").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == address
    page.get_by_role("button", name="More").click()
    page.get_by_role("button", name="Copy image").click()
    page.get_by_text("The picture is copied.").wait_for()
    assert page.evaluate("navigator.clipboard.read().then(([each]) => each.types)") == ["image/png"]
    assert page.locator("#more-menu").is_hidden()


@pytest.mark.full
def test_full_screen_begins_and_ends(tab: Tab) -> None:
    opened = tab(query()).drawn()
    opened.page.keyboard.press("Alt+Enter")
    opened.becomes(lambda: opened.page.evaluate("document.fullscreenElement !== null"))
    opened.page.keyboard.press("Alt+Enter")
    opened.becomes(lambda: opened.page.evaluate("document.fullscreenElement === null"))


@pytest.mark.full
def test_an_opened_link_changes_no_remembered_choice(tab: Tab, stage: Stage) -> None:
    stage.write(tick("DEMO:FOREIGN", now(), "7"))
    opened = tab(query()).drawn()
    opened.page.keyboard.type("5")
    opened.page.keyboard.press("Enter")
    opened.becomes(lambda: "interval=5m" in settled(opened))
    kept = opened.page.evaluate("JSON.stringify({...localStorage})")
    ChartPage(opened.page, stage).go(query("DEMO:FOREIGN", "1d", zone="+03:00", panels="trades")).drawn()
    settled(opened)
    assert opened.page.evaluate("JSON.stringify({...localStorage})") == kept
    opened.go("?symbol=" + SYMBOL).drawn()
    assert "interval=5m" in settled(opened)


@pytest.mark.full
def test_every_jump_works_in_a_named_zone(tab: Tab, stage: Stage) -> None:
    symbol, end = "DEMO:JUMPED", now() // HOUR * HOUR
    stage.write(*(tick(symbol, end - at * HOUR, str(100 + at)) for at in range(24 * 60)))
    opened = tab(query(symbol, "1h", zone="America/New_York")).drawn()
    page = opened.page
    for key, interval in (("Alt+2", "1h"), ("Alt+4", "12h"), ("Alt+6", "2h"), ("Alt+1", "5m")):
        page.keyboard.press(key)
        opened.becomes(lambda interval=interval: f"interval={interval}&" in settled(opened))
        assert page.locator("#message").is_hidden()
    page.keyboard.press("Alt+g")
    page.keyboard.type(page.evaluate("(ms) => new Date(ms).toISOString().slice(0, 10)", end - 300 * HOUR))
    page.keyboard.press("Enter")
    opened.becomes(lambda: (page.locator("#legend-time").text_content() or "").endswith("00:00"))


@pytest.mark.full
def test_a_panel_beside_the_chart_keeps_the_range(tab: Tab, loops: Callable[..., int]) -> None:
    opened = tab(query()).drawn()
    page = opened.page
    for _ in range(3):
        page.keyboard.press("ArrowLeft")
    before = parts(settled(opened))
    page.keyboard.press("Alt+w")
    page.locator("#watchlist").wait_for()
    after = parts(settled(opened))
    assert after["panels"] == "watchlist"
    assert (after["from"], after["to"]) == (before["from"], before["to"])
    for _ in range(loops(quick=1, full=3)):
        page.reload()
        opened.drawn()
        assert parts(settled(opened)) == after


@pytest.mark.full
def test_a_telephone_goes_to_a_date_and_changes_an_indicator(tab: Tab) -> None:
    opened = tab(query()).drawn()
    page = opened.page
    page.set_viewport_size({"width": 390, "height": 844})
    page.get_by_role("button", name="View and export").click()
    page.get_by_role("button", name="Go to date").click()
    page.get_by_label("Date", exact=True).fill(
        page.evaluate("new Date(Date.now() - 3600000).toISOString().slice(0, 16)")
    )
    page.keyboard.press("Enter")
    page.locator("#controls").wait_for(state="hidden")
    opened.becomes(lambda: "from=" in opened.url)
    page.get_by_role("button", name="View and export").click()
    page.get_by_role("button", name="Indicators").click()
    period = page.get_by_label("EMA period")
    period.fill("0")
    period.press("Enter")
    page.get_by_text("EMA period: 2 to 500, a whole number.").wait_for()
    assert "ema" not in settled(opened)
    period.fill("50")
    period.press("Enter")
    opened.becomes(lambda: "indicators=ema.50" in opened.url)
    page.locator("#indicators-menu").get_by_role("button", name="Done").click()
    page.locator("#indicators-menu").wait_for(state="hidden")
