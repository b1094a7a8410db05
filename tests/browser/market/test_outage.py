"""The page's message when it cannot show the chart, and how it continues afterwards."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Browser

from tests.browser.market.conftest import SIZE, SYMBOL, ChartPage
from tests.browser.market.stage import Stage, now, running_stage, tick

pytestmark = [pytest.mark.functional, pytest.mark.full]

CORRECTIONS = "import('/static/feed.js').then((feed) => feed.corrections())"


def test_changes_during_a_lost_connection_are_drawn_afterwards(tab: Callable[..., ChartPage], stage: Stage) -> None:
    """This also holds for candles before the newest, which the live stream does not send again."""
    symbol, start = "DEMO:MISSED", now()
    stage.write(tick(symbol, start - 7_200_000, "10", block=1), tick(symbol, start, "20", block=2))
    opened = tab(f"?symbol={symbol}&interval=1h").drawn()
    opened.page.keyboard.press("Shift+ArrowLeft")
    opened.page.keyboard.press("Shift+ArrowLeft")
    opened.becomes(lambda: opened.legend()["C"] == "10")
    stage.api.stop()
    opened.page.locator("#live.offline").wait_for()
    stage.restart_api()
    stage.write(tick(symbol, start - 7_200_000, "11", at=1, block=3))
    opened.becomes(lambda: opened.legend().get("C") == "11")
    (correction,) = opened.page.evaluate(CORRECTIONS)
    assert (correction["before"]["c"], correction["after"]["c"]) == ("10", "11")
    assert start <= correction["at"] <= now() + 1000
    for interval, count in (("1d", 0), ("1h", 1)):
        opened.page.get_by_role("button", name=interval, exact=True).click()
        opened.becomes(lambda interval=interval: f"interval={interval}" in opened.url)
        assert len(opened.page.evaluate(CORRECTIONS)) == count, "they are kept for the interval"


def test_the_page_needs_a_login_and_a_logout_ends_it(
    browser: Browser,
    tab: Callable[..., ChartPage],
    stage: Stage,
) -> None:
    stranger = browser.new_context()
    assert stranger.request.get(stage.address).status == 401
    stranger.close()
    opened = tab(f"?symbol={SYMBOL}&interval=1m").drawn()
    with opened.page.expect_response("**/logout") as leaving:
        opened.page.get_by_role("link", name="Log out").click()
    assert leaving.value.status == 401
    opened.page.get_by_text("You are logged out").wait_for()


def test_without_a_trade_the_page_says_so_until_a_trade_is_stored(browser: Browser) -> None:
    with running_stage() as empty:
        credentials = {"username": empty.user, "password": empty.password}
        context = browser.new_context(viewport=SIZE, http_credentials=credentials)  # type: ignore[arg-type]
        opened = ChartPage(context.new_page(), empty).go()
        opened.page.get_by_role("heading", name="No trades yet").wait_for()
        for key in ("End", "ArrowLeft", "Shift+ArrowRight", "+", "Alt+c", "Alt+s"):
            opened.page.keyboard.press(key)  # keys must do nothing while no candles are loaded
        empty.write(tick(SYMBOL, now(), "12.5"))
        opened.drawn()
        assert opened.legend()["C"] == "12.5"
        assert opened.faults == []
        context.close()


def test_a_symbol_that_does_not_exist_is_named_as_unknown(tab: Callable[..., ChartPage]) -> None:
    page = tab("?symbol=NO:SUCH&interval=1m").page
    page.get_by_role("heading", name="Unknown symbol").wait_for()
    page.get_by_role("button", name="Choose another symbol").click()
    page.get_by_role("option", name=SYMBOL).click()
    page.locator("#legend-values .digits").first.wait_for()
