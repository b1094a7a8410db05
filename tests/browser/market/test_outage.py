"""What the page says when it cannot show the chart, and how it goes on afterwards."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Browser

from tests.browser.market.conftest import SIZE, SYMBOL, ChartPage
from tests.browser.market.stage import Stage, now, running_stage, tick

pytestmark = pytest.mark.functional


def test_the_api_goes_down_and_comes_back(tab: Callable[..., ChartPage], stage: Stage) -> None:
    opened = tab(f"?symbol={SYMBOL}&interval=1d").drawn()
    page = opened.page
    before = opened.legend()
    stage.api.stop()
    page.locator("#live.offline", has_text="offline, last").wait_for()
    assert opened.legend() == before
    page.keyboard.type("15")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="The data API does not answer").wait_for()
    stage.restart_api()
    stage.write(tick(SYMBOL, now(), "777.25"))
    opened.becomes(lambda: opened.legend().get("C") == "777.25")
    page.locator("#live.live").wait_for()
    assert page.locator("#message").is_hidden()


def test_what_changed_while_the_connection_was_down_is_drawn(tab: Callable[..., ChartPage], stage: Stage) -> None:
    """Also a candle that is older than the newest, which the live stream does not send again."""
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


def test_a_login_that_expired_is_asked_for_on_top_of_the_view(browser: Browser, stage: Stage) -> None:
    """The credentials come with the address, so that the browser itself keeps them and no tool answers for it."""
    context = browser.new_context(viewport=SIZE)
    opened = ChartPage(context.new_page(), stage)
    opened.page.goto(stage.address.replace("//", f"//{stage.user}:{stage.password.replace(' ', '%20')}@") + f"?symbol={SYMBOL}&interval=1m")
    page = opened.drawn().page
    before = opened.legend()
    stage.change_password("another one entirely")
    page.keyboard.type("5")
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="Log in again")
    dialog.wait_for()
    assert opened.legend().keys() == before.keys(), "the view stays"
    dialog.get_by_label("Password").fill("a wrong one")
    page.keyboard.press("Enter")
    dialog.get_by_text("Wrong user name or password.").wait_for()
    dialog.get_by_label("Password").fill(stage.password)
    page.keyboard.press("Enter")
    dialog.wait_for(state="hidden")
    opened.drawn()
    opened.becomes(lambda: "interval=5m" in opened.url)
    stage.write(tick(SYMBOL, now(), "555.5"))
    opened.becomes(lambda: opened.legend()["C"] == "555.5")
    assert opened.faults == []
    context.close()


def test_nobody_gets_in_without_a_login_and_logout_is_the_end(browser: Browser, tab: Callable[..., ChartPage], stage: Stage) -> None:
    stranger = browser.new_context()
    response = stranger.new_page().goto(stage.address)
    assert response is not None
    assert response.status == 401
    stranger.close()
    opened = tab(f"?symbol={SYMBOL}&interval=1m").drawn()
    with opened.page.expect_response("**/logout") as leaving:
        opened.page.get_by_role("link", name="Log out").click()
    assert leaving.value.status == 401
    opened.page.get_by_text("You are logged out").wait_for()


def test_without_a_trade_the_page_says_so_until_there_is_one(browser: Browser, loops: Callable[..., int]) -> None:
    if not loops(quick=0, full=1):
        pytest.skip("only with --full: it starts a database of its own")
    with running_stage() as empty:
        credentials = {"username": empty.user, "password": empty.password}
        context = browser.new_context(viewport=SIZE, http_credentials=credentials)  # type: ignore[arg-type]
        opened = ChartPage(context.new_page(), empty).go()
        opened.page.get_by_role("heading", name="No trades yet").wait_for()
        empty.write(tick(SYMBOL, now(), "12.5"))
        opened.drawn()
        assert opened.legend()["C"] == "12.5"
        context.close()


def test_a_symbol_that_does_not_exist(tab: Callable[..., ChartPage]) -> None:
    page = tab("?symbol=NO:SUCH&interval=1m").page
    page.get_by_role("heading", name="Unknown symbol").wait_for()
    page.get_by_role("button", name="Choose another symbol").click()
    page.get_by_role("option", name=SYMBOL).click()
    page.locator("#legend-values .digits").first.wait_for()
