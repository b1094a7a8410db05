"""The age of the newest trade beside the dot, while connections and services come and go."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.market.conftest import ChartPage, Tab, new_tabs, query
from tests.browser.market.stage import HOUR, MINUTE, Stage, now, paused, tick
from tests.browser.requests import held
from tests.browser.tabs import Tabs

pytestmark = pytest.mark.functional

UNITS = {"s": 1000, "min": MINUTE, "h": HOUR, "days": 24 * HOUR}
SLACK = 2500  # the page estimates the service's clock from times in whole seconds, and draws four times a second

# The dot and the last price of the page at one moment.
SEEN = """() => {
  const amounts = [...document.querySelectorAll('#legend-values .amount')].map((each) => each.textContent);
  return {
    kind: document.querySelector('#live').className.replace('liveness ', ''),
    text: document.querySelector('#live-text').textContent,
    close: amounts.find((each) => each.startsWith('C'))?.slice(1),
  };
}"""


@pytest.fixture
def tabs(browser: Browser, stage: Stage) -> Iterator[Tabs]:
    """Of each test its own, because a clock and a network belong to a context."""
    made = new_tabs(browser, stage)
    yield made
    made.context.close()


class Watched:
    """A page, beside the trades that the API has."""

    def __init__(self, opened: ChartPage, symbol: str) -> None:
        self.opened, self.symbol, self.count = opened, symbol, 1

    def trade(self) -> None:
        self.count += 1
        self.opened.stage.write(tick(self.symbol, now(), str(self.count)))

    def look(self) -> str:
        """The kind of the dot, which is green only with the newest trade of the API."""
        seen = self.opened.page.evaluate(SEEN)
        if seen["kind"] != "live":
            return str(seen["kind"])
        (item,) = self.opened.stage.read(f"/v1/summary?symbol={quote(self.symbol)}")["items"]
        assert seen["close"] == item["last"], f"green over an older candle: {seen}"
        age = re.fullmatch(r"last trade (\d+) (s|min|h|days) ago", seen["text"])
        assert age is not None, seen
        low, unit = int(age[1]) * UNITS[age[2]], UNITS[age[2]]
        assert low - SLACK <= now() - item["ts"] <= low + unit + SLACK, (seen, item)
        return "live"


def test_the_age_is_that_of_the_newest_trade_after_each_outage(tab: Tab, stage: Stage) -> None:
    symbol = "DEMO:AGES"
    stage.write(tick(symbol, now() - 50_000, "1"))
    opened = tab(query(symbol)).drawn()
    page, watched = opened.page, Watched(opened, symbol)
    text = page.locator("#live-text")
    expect(text).to_have_text(re.compile(r"last trade 5\d s ago"))
    opened.becomes(lambda: watched.look() == "live")

    # The API is away, and the candles are read late afterwards.
    stage.api.stop()
    page.locator("#live.offline").wait_for()
    reads = held(page, "**/api/v1/chart?*")
    stage.restart_api()
    watched.trade()
    opened.becomes(lambda: watched.look() in ("catching", "failing") and reads)
    for route in reads:
        route.continue_()
    page.unroute("**/api/v1/chart?*")
    opened.becomes(lambda: watched.look() == "live")

    # The browser has no network.
    page.context.set_offline(True)
    page.locator("#live.silent", has_text="this browser is offline").wait_for()
    watched.trade()
    page.context.set_offline(False)
    opened.becomes(lambda: watched.look() == "live")

    # Without an outage.
    watched.trade()
    opened.closes_at(str(watched.count))
    opened.becomes(lambda: watched.look() == "live")


DOT = """(kind) => import('/static/state.js').then(({ update }) => {
  update({ live: { state: kind, retryAt: 0 } });
  const dot = getComputedStyle(document.querySelector('.dot'));
  return [document.getElementById('live-text').textContent, dot.backgroundColor];
})"""


def test_the_dot_is_green_only_when_the_page_is_live(tab: Tab, stage: Stage) -> None:
    opened = tab(query()).drawn()
    opened.page.locator("#live.live").wait_for()
    (live, green), others = opened.page.evaluate(DOT, "open"), ("connecting", "offline")
    assert live.startswith("last trade")
    for text, colour in (opened.page.evaluate(DOT, kind) for kind in others):
        assert text != live
        assert colour != green, text


def test_a_retracted_trade_gives_the_age_back_to_the_one_before(tab: Tab, stage: Stage) -> None:
    symbol, start = "DEMO:AGE-RETRACTED", now()
    stage.write(tick(symbol, start - 200_000, "1", block=1))
    opened = tab(query(symbol)).drawn()
    text = opened.page.locator("#live-text")
    expect(text).to_have_text("last trade 3 min ago")
    stage.write(tick(symbol, now(), "2", block=2))
    expect(text).to_have_text(re.compile(r"last trade \d s ago"))
    stage.write({"retract": {"symbol": symbol, "block_hash": "0x2"}})
    expect(text).to_have_text("last trade 3 min ago")


def test_a_silent_connection_is_amber_before_it_counts_as_lost(tab: Tab, stage: Stage) -> None:
    symbol = "DEMO:SILENT"
    stage.write(tick(symbol, now(), "1"))
    opened = tab()
    page = opened.page
    page.clock.install()
    opened.go(query(symbol)).drawn()
    page.locator("#live.live").wait_for()  # otherwise the page has nothing to hear yet
    with paused(stage.api.pid):
        page.clock.fast_forward(20_000)
        page.locator("#live.silent", has_text=re.compile(r"nothing heard for 2\d s")).wait_for()
    page.locator("#live.live").wait_for()
