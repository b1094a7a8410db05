"""What the page shows while it changes its symbol, and which changes of a candle are corrections."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, Route

from tests.browser.market.conftest import SYMBOL, Tab, query, settled
from tests.browser.market.stage import HOUR, MINUTE, Stage, now, tick

pytestmark = pytest.mark.functional

CHANGE = """([before, after]) => import('/static/candles.js').then(({ Candles }) => {
  const candles = new Candles('1m', 'UTC');
  const row = { t: 0, o: '2', h: '4', l: '1', c: '3', v: '9', q: '18', n: 5, vwap: '2', bv: '1', closed: false, finalized: false };
  candles.put({ ...row, ...before });
  return candles.put({ ...row, ...before, ...after })?.isCorrection ?? null;
})"""  # noqa: E501 - JavaScript


def test_candles_never_stand_under_the_name_of_another_symbol(tab: Tab, stage: Stage) -> None:
    stage.write(tick("DEMO:SLOW", now(), "7"))
    opened = tab(query()).drawn()
    page = opened.page
    held: list[Route] = []
    page.route("**/api/v1/chart?symbol=DEMO%3ASLOW*", lambda route: held.append(route))  # noqa: PLW0108
    page.keyboard.type("slow")
    page.keyboard.press("Enter")
    page.get_by_text("Loading …").wait_for()
    assert page.locator("#legend").is_hidden()
    assert "bars=null" not in opened.url
    page.keyboard.press("Alt+c")
    page.get_by_text("There are no candles in sight.").wait_for()
    opened.becomes(lambda: held)
    for route in held:
        route.continue_()
    opened.becomes(lambda: opened.legend().get("C") == "7")


@pytest.mark.full
def test_back_has_the_age_of_the_symbol_before(tab: Tab, stage: Stage) -> None:
    stage.write(tick("DEMO:AGED", now() - 30 * HOUR, "3"), tick("DEMO:FRESH", now(), "4"))
    opened = tab(query("DEMO:AGED", "1h")).drawn()
    page = opened.page
    page.keyboard.type("fresh")
    page.keyboard.press("Enter")
    opened.becomes(lambda: opened.legend().get("C") == "4")
    page.go_back()
    opened.becomes(lambda: opened.legend().get("C") == "3")
    opened.becomes(lambda: page.locator("#live-text").text_content() == "live 30 h")


@pytest.mark.full
def test_the_address_of_an_unknown_symbol_opens_again(tab: Tab) -> None:
    opened = tab(query("DEMO:NOBODY"))
    page = opened.page
    page.get_by_role("heading", name="Unknown symbol").wait_for()
    page.get_by_role("button", name="Choose another symbol").click()
    page.get_by_role("option", name=SYMBOL).click()
    opened.drawn()
    page.go_back()
    page.get_by_role("heading", name="Unknown symbol").wait_for()
    assert page.get_by_role("alert").filter(has_text="bars").count() == 0


@pytest.mark.full
def test_an_indicator_has_its_values_where_trades_are_rare(tab: Tab, stage: Stage) -> None:
    symbol, end = "DEMO:SELDOM", now()
    stage.write(*(tick(symbol, end - at * 20 * MINUTE, str(100 + at % 9)) for at in range(600)))
    opened = tab(query(symbol, "1m", indicators="sma.200")).drawn()
    legend = opened.page.locator("#legend-values")
    opened.becomes(lambda: "SMA 200" in (text := legend.text_content() or "") and "–" not in text)


@pytest.mark.full
def test_a_coarser_interval_that_is_refused_is_said_and_asked_once(tab: Tab) -> None:
    opened = tab(query(bars=300)).drawn()
    page = opened.page
    asked: list[str] = []

    def refuse(route: Route) -> None:
        asked.append(route.request.url)
        route.fulfill(status=409, content_type="application/problem+json", body='{"code": "pruned", "detail": "gone"}')

    page.route(lambda url: "/v1/chart" in url and "interval=1m&" not in url, refuse)
    for _ in range(8):
        page.keyboard.press("-")
        page.wait_for_timeout(60)
    page.get_by_text("cannot be read: gone").wait_for()
    settled(opened)
    for _ in range(5):
        page.keyboard.press("ArrowLeft")
    settled(opened)
    assert len(asked) == len(set(asked)) <= 4, "one for each interval"


@pytest.mark.parametrize(
    ("before", "after", "is_correction"),
    [
        ({}, {"n": 6, "v": "10", "c": "2.5", "l": "0.5", "h": "5"}, False),
        ({}, {"n": 4, "v": "8"}, True),
        ({}, {"l": "1.5"}, True),
        ({"closed": True}, {"c": "2"}, True),
        ({"closed": True}, {"bv": "2"}, True),
        ({"closed": True}, {"finalized": True}, False),
        ({}, {"closed": True}, False),
        ({}, {}, None),
    ],
)
def test_a_correction_is_what_no_new_trade_can_do(
    blank: Page, before: dict[str, object], after: dict[str, object], is_correction: bool | None
) -> None:
    assert blank.evaluate(CHANGE, [before, after]) is is_correction
