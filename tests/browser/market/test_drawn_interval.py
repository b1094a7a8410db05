"""A view with many bars shows a coarser interval than the chosen one, and says so."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.browser.market.conftest import ChartPage, Tab, query, settled, shown
from tests.browser.market.stage import MINUTE, Stage, now, tick
from tests.browser.requests import answer

pytestmark = pytest.mark.functional

LONG = "DEMO:LONG"
COUNT = 6000
"""Candles of a minute of LONG. The chart is 1280 pixels wide."""


@pytest.fixture(scope="module", autouse=True)
def long(stage: Stage) -> None:
    end = now() // MINUTE * MINUTE
    stage.write(*(tick(LONG, end - at * MINUTE, f"{100 + at % 37}") for at in range(COUNT)))


def state(opened: ChartPage) -> Any:
    """The view, the drawn interval, and the number of loaded candles."""
    settled(opened)
    return opened.page.evaluate("""async () => {
      const [feed, chart] = await Promise.all(['feed', 'chart'].map((name) => import(`/static/${name}.js`)));
      return { ...chart.view(), interval: feed.candles()?.interval, kept: feed.candles()?.rows.length };
    }""")


def noted(opened: ChartPage, note: str) -> None:
    """Wait until the page says which interval is drawn."""
    opened.becomes(lambda: opened.page.locator("#coarser").text_content() == note)


def asked_intervals(opened: ChartPage) -> set[str]:
    return {parse_qs(urlsplit(each).query)["interval"][0] for each in opened.chart_requests}


def test_a_link_to_many_bars_loads_a_coarser_interval_at_once_and_says_so(tab: Tab, stage: Stage) -> None:
    opened = tab(query(LONG, bars=50_000)).drawn()
    page = opened.page
    address = shown(opened)
    assert (address["interval"], address["bars"]) == ("1m", "50000")
    assert asked_intervals(opened) == {"1h"}
    noted(opened, "1h candles (1m chosen)")
    assert page.locator("[data-interval='1m']").get_attribute("aria-pressed") == "true"
    assert 800 < state(opened)["bars"] < 850
    last = stage.read(f"/v1/chart?symbol={LONG}&interval=1h&limit=1")["candles"][0]
    assert opened.legend()["V"] == last["v"], "the volume is that of an hour"
    page.get_by_role("button", name="1h", exact=True).click()
    opened.becomes(lambda: "interval=1h" in opened.url)
    assert shown(opened)["bars"].startswith("833.33"), "the number of drawn bars stays"
    noted(opened, "")
    times = {"from": "2000-01-01T00:00:00Z", "to": "2026-01-01T00:00:00Z"}
    other = tab(query(LONG, "1m", **times))
    other.page.get_by_role("heading", name="No trades in this range").wait_for()
    assert asked_intervals(other) <= {"1w", "1M"}
    assert shown(other).items() >= times.items()


def test_zooming_out_and_in_changes_the_drawn_interval_without_a_jump(tab: Tab) -> None:
    opened = tab(query(LONG, bars=900)).drawn()
    opened.keys(*["ArrowLeft"] * 6)
    assert state(opened)["interval"] == "1m"
    noted(opened, "")
    opened.keys("-", "-")
    before = state(opened)
    noted(opened, "3m candles (1m chosen)")
    after = state(opened)
    assert [after[name] for name in ("from", "to", "interval")] == [before["from"], before["to"], "3m"]
    assert shown(opened)["interval"] == "1m"
    opened.keys("+")
    assert state(opened)["interval"] == "3m", "a step back does not change it again"
    opened.keys("+", "+")
    before = state(opened)
    noted(opened, "")
    after = state(opened)
    assert [after[name] for name in ("from", "to", "interval")] == [before["from"], before["to"], "1m"]


def test_the_newest_candles_and_the_read_one_stay_when_the_drawn_interval_changes(tab: Tab, stage: Stage) -> None:
    opened = tab(query(LONG, bars=1200)).drawn()
    page = opened.page
    time, spoken = page.locator("#legend-time"), page.locator("#spoken")
    before = state(opened)
    opened.keys(*["Shift+ArrowLeft"] * 20)
    minute = (time.text_content() or "")[-5:]
    opened.keys("-")
    noted(opened, "3m candles (1m chosen)")
    coarse = f"{minute[:3]}{int(minute[3:]) // 3 * 3:02}"
    opened.becomes(lambda: (time.text_content() or "").endswith(coarse))
    assert spoken.text_content() == "3m candles (1m chosen)"
    after = state(opened)
    assert after["isNewest"]
    assert abs(after["to"] - before["to"]) <= 6 * MINUTE
    assert shown(opened)["bars"] == "1500"
    opened.keys("Escape")
    stage.write(tick(LONG, now(), "444.5"))
    opened.closes_at("444.5")
    page.mouse.move(640, 300)
    opened.becomes(lambda: opened.legend().get("C") not in ("444.5", None))
    assert int((time.text_content() or "")[-2:]) % 3 == 0, "the crosshair is on a drawn candle"
    opened.keys("Shift+ArrowLeft")
    assert "close" in (spoken.text_content() or "")


def test_never_more_bars_are_drawn_than_fit(tab: Tab) -> None:
    opened = tab(query(LONG, "1s", bars=300)).drawn()
    most = 0.0
    for _ in range(20):
        opened.keys("-")
        most = max(most, state(opened)["bars"])
    assert most < 2 * 1280 + 1
    opened.becomes(lambda: state(opened)["bars"] <= 1280)
    assert shown(opened)["interval"] == "1s"
    opened.keys(*["+"] * 20)
    opened.becomes(lambda: state(opened)["interval"] == "1s")


def test_a_coarser_interval_that_is_refused_is_said_and_asked_once(tab: Tab) -> None:
    opened = tab(query(bars=300)).drawn()
    page = opened.page
    gone = {"code": "pruned", "detail": "gone"}
    answer(page, lambda url: "/v1/chart" in url and "interval=1m&" not in url, gone, 409)
    asked: list[str] = []
    page.on("response", lambda found: asked.append(found.url) if found.status == 409 else None)
    for _ in range(8):
        opened.keys("-")
        settled(opened)
    page.get_by_text("cannot be read: gone").wait_for()
    opened.keys(*["ArrowLeft"] * 5)
    settled(opened)
    assert 1 <= len(asked) == len(set(asked)) <= 4, "one for each interval"
