"""A view with many bars shows a coarser interval than the chosen one, and says so."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.browser.market.conftest import ChartPage, Tab, query, settled
from tests.browser.market.stage import MINUTE, Stage, now, tick

pytestmark = pytest.mark.functional

LONG = "DEMO:LONG"
COUNT = 6000
"""Candles of a minute of LONG. The chart is 1280 pixels wide."""


@pytest.fixture(scope="module", autouse=True)
def long(stage: Stage) -> Iterator[None]:
    end = now() // MINUTE * MINUTE
    stage.write(*(tick(LONG, end - at * MINUTE, f"{100 + at % 37}") for at in range(COUNT)))
    return


def state(opened: ChartPage) -> Any:
    """The view, the drawn interval, and the number of loaded candles."""
    return opened.page.evaluate("""async () => {
      const [feed, chart] = await Promise.all(['feed', 'chart'].map((name) => import(`/static/${name}.js`)));
      return { ...chart.view(), interval: feed.candles()?.interval, kept: feed.candles()?.rows.length };
    }""")


def note(opened: ChartPage) -> str:
    return opened.page.locator("#coarser").text_content() or ""


def asked_intervals(opened: ChartPage) -> set[str]:
    return {parse_qs(urlsplit(each).query)["interval"][0] for each in opened.chart_requests}


@pytest.mark.full
def test_a_link_to_many_bars_loads_a_coarser_interval_at_once_and_says_so(tab: Tab, stage: Stage) -> None:
    opened = tab(query(LONG, bars=50_000)).drawn()
    address = settled(opened)
    assert ("interval=1m&" in address, "bars=50000" in address) == (True, True), address
    assert asked_intervals(opened) == {"1h"}
    assert note(opened) == "1h candles (1m chosen)"
    assert opened.page.locator("[data-interval='1m']").get_attribute("aria-pressed") == "true"
    assert 800 < state(opened)["bars"] < 850
    last = stage.read(f"/v1/chart?symbol={LONG}&interval=1h&limit=1")["candles"][0]
    assert opened.legend()["V"] == last["v"], "the volume is that of an hour"


def test_zooming_out_and_in_changes_the_drawn_interval_without_a_jump(tab: Tab) -> None:
    opened = tab(query(LONG, bars=900)).drawn()
    page = opened.page
    for _ in range(6):
        page.keyboard.press("ArrowLeft")
    assert (state(opened)["interval"], note(opened)) == ("1m", "")
    page.keyboard.press("-")
    page.keyboard.press("-")
    before = state(opened)
    opened.becomes(lambda: note(opened) == "3m candles (1m chosen)")
    after = state(opened)
    assert [after[name] for name in ("from", "to", "interval")] == [before["from"], before["to"], "3m"]
    assert "interval=1m&" in settled(opened)
    page.keyboard.press("+")
    opened.page.wait_for_timeout(300)
    assert note(opened) == "3m candles (1m chosen)", "a step back does not change it again"
    page.keyboard.press("+")
    page.keyboard.press("+")
    before = state(opened)
    opened.becomes(lambda: note(opened) == "")
    after = state(opened)
    assert [after[name] for name in ("from", "to", "interval")] == [before["from"], before["to"], "1m"]


@pytest.mark.full
def test_the_newest_candles_stay_in_place_when_the_drawn_interval_changes(tab: Tab, stage: Stage) -> None:
    opened = tab(query(LONG, bars=1200)).drawn()
    page = opened.page
    page.keyboard.press("-")
    before = state(opened)
    opened.becomes(lambda: note(opened) == "3m candles (1m chosen)")
    after = state(opened)
    assert after["isNewest"]
    assert abs(after["to"] - before["to"]) <= 6 * MINUTE
    assert "bars=1500" in settled(opened)
    stage.write(tick(LONG, now(), "444.5"))
    opened.becomes(lambda: opened.legend()["C"] == "444.5")
    page.mouse.move(640, 300)
    pointed = page.locator("#legend-time").text_content()
    assert pointed
    assert int(pointed[-2:]) % 3 == 0, "the crosshair is on a drawn candle"
    opened.page.keyboard.press("Shift+ArrowLeft")
    assert "close" in (page.locator("#spoken").text_content() or "")


@pytest.mark.full
def test_never_more_bars_are_drawn_than_fit(tab: Tab, loops: Callable[..., int]) -> None:
    opened = tab(query(LONG, "1s", bars=300)).drawn()
    most = 0.0
    for _ in range(loops(quick=20, full=60)):
        opened.page.keyboard.press("-")
        opened.page.wait_for_timeout(30)
        most = max(most, state(opened)["bars"])
    assert most < 2 * 1280 + 1
    opened.becomes(lambda: state(opened)["bars"] <= 1280)
    assert "interval=1s&" in settled(opened)
    for _ in range(loops(quick=20, full=60)):
        opened.page.keyboard.press("+")
        opened.page.wait_for_timeout(30)
    opened.becomes(lambda: state(opened)["interval"] == "1s")


@pytest.mark.full
def test_a_range_of_the_address_is_drawn_in_the_interval_that_fits(tab: Tab) -> None:
    times = {"from": "2000-01-01T00:00:00Z", "to": "2026-01-01T00:00:00Z"}
    opened = tab(query(LONG, "1m", **times))
    opened.page.get_by_role("heading", name="No trades in this range").wait_for()
    assert asked_intervals(opened) <= {"1w", "1M"}
    shown = settled(opened)
    assert all(f"{name}={time}" in shown for name, time in times.items()), shown


@pytest.mark.full
def test_choosing_an_interval_keeps_the_number_of_drawn_bars(tab: Tab) -> None:
    opened = tab(query(LONG, bars=50_000)).drawn()
    opened.page.get_by_role("button", name="1h", exact=True).click()
    opened.becomes(lambda: "interval=1h" in opened.url)
    assert "bars=833.33" in settled(opened)
    assert note(opened) == ""


@pytest.mark.full
def test_the_candle_that_the_keys_read_stays_when_the_drawn_interval_changes(tab: Tab) -> None:
    opened = tab(query(LONG, bars=1200)).drawn()
    page = opened.page
    for _ in range(20):
        page.keyboard.press("Shift+ArrowLeft")
    time = page.locator("#legend-time")
    minute = (time.text_content() or "")[-5:]
    page.keyboard.press("-")
    opened.becomes(lambda: note(opened) == "3m candles (1m chosen)")
    coarse = f"{minute[:3]}{int(minute[3:]) // 3 * 3:02}"
    opened.becomes(lambda: (time.text_content() or "").endswith(coarse))
    assert page.locator("#spoken").text_content() == "3m candles (1m chosen)"
