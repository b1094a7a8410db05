"""A view with many bars shows a coarser interval than the chosen one, and says so."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.browser.market.conftest import ChartPage, Tab, query, settled, shown
from tests.browser.market.stage import MINUTE, Stage, now, tick

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
