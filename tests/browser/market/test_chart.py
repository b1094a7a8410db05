"""The chart: live candles, older candles, coverage, and the logout."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, quote, urlsplit

import pytest
from playwright.sync_api import Browser, Route, expect

from tests.browser.market.conftest import SYMBOL, ChartPage, Tab, iso, query, settled, shown
from tests.browser.market.stage import HOUR, MINUTE, Stage, now, tick

pytestmark = pytest.mark.functional

KEPT = "import('/static/feed.js').then((feed) => feed.candles().rows.length)"


def test_the_page_shows_candles_with_every_digit_and_the_user(tab: Tab, stage: Stage) -> None:
    symbol = "DEMO:LONG-DIGITS"
    price = "2503.123456789012345678901234567891"
    stage.write(tick(symbol, now() - HOUR, "0.000000000000000001"), tick(symbol, now(), price, "0.000000000000000007"))
    opened = tab(query(symbol, "1h", indicators="vwap")).drawn()
    page = opened.page
    last = stage.read(f"/v1/chart?symbol={quote(symbol)}&interval=1h&limit=1&open=previous")["candles"][0]
    assert opened.legend() == {name.upper(): last[name] for name in "ohlcv"} | {"first": price, "n": "1"}
    assert last["c"] == price
    vwap = page.locator("#legend-values .indicator")
    opened.becomes(lambda: "".join(vwap.inner_text().split()) == f"VWAPofthecandle{last['vwap']}")
    assert page.locator("#user").text_content() == stage.user
    assert page.locator("#demo").is_visible()
    assert page.get_by_role("link", name="Apache License 2.0").is_visible()
    assert page.locator("#chart a[href*='tradingview.com']").is_visible(), "the library's own attribution"


def test_a_candle_opens_at_the_close_before_unless_connected_is_switched_off(tab: Tab, stage: Stage) -> None:
    symbol, end = "DEMO:SPARSE", now() // HOUR * HOUR - 24 * HOUR
    prices = enumerate(("100", "104", "104", "90"), 1)
    stage.write(*(tick(symbol, end + at * HOUR, price, block=at) for at, price in prices))
    stage.write({"finalize": {"symbol": symbol, "block": 4}})
    opened = tab(query(symbol, "1h")).drawn()
    page, legend = opened.page, opened.page.locator("#legend")
    amounts = opened.legend()
    assert (amounts["O"], amounts["first"], amounts["H"], amounts["L"]) == ("104", "90", "104", "90")
    expect(legend.locator(".change")).to_have_text("−13.46 %")
    assert opened.has_pixels("var(--up)", 0.1, 0.8)
    assert opened.has_pixels("var(--same)", 0.1, 0.8), "an equal close is neither up nor down"
    opened.keys("Shift+ArrowLeft", "Shift+ArrowLeft")
    expect(legend).not_to_have_class(re.compile("up|down"))
    page.get_by_label("Connected").click()
    assert shown(opened)["connected"] == "0"
    opened.keys("End", "Escape")
    opened.becomes(lambda: opened.legend().get("O") == "90" and "first" not in opened.legend())
    page.reload()
    opened.drawn()
    expect(page.get_by_label("Connected")).not_to_be_checked()
    assert opened.legend()["O"] == "90"


def test_a_trade_appears_live_and_its_retraction_corrects_the_candle(tab: Tab, stage: Stage) -> None:
    symbol = "DEMO:LIVE"
    start = now()
    stage.write(tick(symbol, start - 1000, "100", block=1))
    opened = tab(query(symbol, "1d")).drawn()
    rows = opened.page.locator("#trade-rows tr")
    opened.keys("Alt+t")
    rows.wait_for()
    before = opened.legend()
    stage.write(tick(symbol, start, "120.5", "2", block=2))
    opened.closes_at("120.5")
    assert (opened.legend()["n"], opened.legend()["V"]) == ("2", "3")
    # The trade arrives in a message of its own, which may be later than that of the candle.
    rows.first.filter(has_text="120.52").wait_for()
    stage.write({"retract": {"symbol": symbol, "block_hash": "0x2"}})
    opened.becomes(lambda: opened.legend() == before)
    opened.page.locator("#legend .corrected").wait_for()
    opened.page.locator("#trade-rows tr.retracted").wait_for()
    assert rows.count() == 2


def test_more_candles_than_the_page_keeps_are_scrolled_and_read_once(tab: Tab) -> None:
    """The answers are simulated, because that many candles take long to store."""
    second, end = 1000, now() // 1000 * 1000
    oldest = end - 62_000 * second
    row = {"o": "100", "h": "112", "l": "89", "c": "101", "v": "3", "bv": "1", "vwap": "100", "n": 1, "q": "300"}

    def serve(route: Route) -> None:
        asked = {name: int(each[0]) for name, each in parse_qs(urlsplit(route.request.url).query).items()
                 if name in ("startTime", "endTime", "limit")}  # fmt: skip
        last = min(asked.get("endTime", end), end) // second * second
        first = max(last - (asked["limit"] - 1) * second, asked.get("startTime", oldest), oldest)
        candles = [row | {"t": time, "T": time + 999, "closed": True, "finalized": True}
                   for time in range(first, last + 1, second)]  # fmt: skip
        body = {"symbol": SYMBOL, "interval": "1s", "candles": candles, "more": first > oldest}
        route.fulfill(json=body, headers={"ETag": '"one"'})

    opened = tab()
    page = opened.page
    page.route("**/api/v1/chart?*", serve)
    opened.go(query(SYMBOL, "1s", bars=1200)).drawn()
    kept: list[int] = []
    while len(kept) < 60 and kept[-3:] != [50_000] * 3:
        page.evaluate("import('/static/chart.js').then((chart) => chart.scrollBy(-9000))")
        settled(opened)
        kept.append(page.evaluate(KEPT))
    assert max(kept) == kept[-1] == 50_000
    ends = [each for each in opened.chart_requests if "endTime" in each]
    assert len(ends) == len(set(ends)) >= 5, "the page asked again for candles that it has"


def test_a_candle_that_can_still_change_is_lighter(tab: Tab, stage: Stage) -> None:
    symbol, start = "DEMO:FINALITY", now() // MINUTE * MINUTE - 200 * MINUTE
    stage.write(
        *(tick(symbol, start + at * MINUTE + part, str(100 + at % 7 + part), block=at + 1, at=part)
          for at in range(200) for part in (0, 1)),
        {"finalize": {"symbol": symbol, "block": 100}},
    )  # fmt: skip
    opened = tab(query(symbol, bars=220)).drawn()
    final, open_ones = (0.05, 0.4), (0.55, 0.9)
    assert opened.has_pixels("var(--up)", *final)
    assert opened.pixels("var(--up)", *open_ones) == 0, "nothing there is final"
    stage.write({"finalize": {"symbol": symbol, "block": 190}})
    assert opened.has_pixels("var(--up)", *open_ones), "finality arrives live"


def test_times_that_were_not_indexed_are_hatched_but_times_without_trades_are_not(tab: Tab, stage: Stage) -> None:
    symbol, end = "DEMO:GAPS", now() // MINUTE * MINUTE
    start = end - 200 * MINUTE
    traded = [*range(40), *range(80, 120), *range(160, 200)]
    stage.write(*(tick(symbol, start + at * MINUTE, str(100 + at % 5)) for at in traded))
    stage.cover(symbol, start, start + 120 * MINUTE)
    stage.cover(symbol, start + 160 * MINUTE, end + HOUR)
    opened = tab(query(symbol, **{"from": iso(start), "to": iso(end)})).drawn()
    page = opened.page

    def hatched(start: float, end: float) -> int:
        return opened.pixels("color-mix(in srgb, var(--ink-soft) 30%, var(--paper))", start, end, 40)

    opened.becomes(lambda: hatched(0.62, 0.78) > 500 and hatched(0.24, 0.36) < hatched(0.62, 0.78) / 4)
    chart = page.locator("#chart").bounding_box()
    assert chart
    for place, text in ((0.28, "no trades"), (0.66, "not indexed")):
        page.mouse.move(chart["width"] * place, 300)
        page.locator("#legend", has_text=text).wait_for()


def test_a_late_ingestor_is_announced(tab: Tab, stage: Stage) -> None:
    symbol, end = "DEMO:LATE", now() // MINUTE * MINUTE - 12 * MINUTE
    stage.write(*(tick(symbol, end - at * MINUTE, "100") for at in range(60)))
    stage.cover(symbol, end - HOUR, end)
    opened = tab(query(symbol, bars=40)).drawn()
    opened.page.locator("#live.behind", has_text=re.compile(r"behind 1\d min")).wait_for()
    opened.page.locator("#said", has_text="The ingestor is behind.").wait_for()
    stage.cover(symbol, end, now() + HOUR)
    opened.page.reload()
    opened.page.locator("#live.live").wait_for()


def test_the_page_needs_a_login_and_a_logout_ends_it(browser: Browser, tab: Tab, stage: Stage) -> None:
    stranger = browser.new_context()
    assert stranger.request.get(stage.address).status == 401
    stranger.close()
    opened: ChartPage = tab(query()).drawn()
    page = opened.page
    with page.expect_response("**/logout") as leaving:
        page.get_by_role("link", name="Log out").click()
    assert leaving.value.status == 401
    page.get_by_text("You are logged out").wait_for()
    page.get_by_role("link", name="Log in again").click()
    opened.drawn()
