"""The page when requests fail or hang, when the API is away or silent, and when the login has expired: what it says,
what it keeps, and how it continues."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from playwright.sync_api import Browser

from marketdata.api.serve import Times
from marketdata.frontend.pages import FOLDER
from tests.browser.market.conftest import ChartPage, Tab, new_tabs, query
from tests.browser.market.stage import PASSWORD, Stage, minutes, now, paused, tick
from tests.browser.requests import answer, held
from tests.browser.tabs import Tabs

pytestmark = pytest.mark.functional

CHART = "**/api/v1/chart?*"
CORRECTIONS = "import('/static/feed.js').then((feed) => feed.corrections())"
LOADED = "import('/static/feed.js').then((feed) => feed.candles().rows.length)"
BROKEN = {"title": "Broken", "detail": "A part is broken.", "code": "internal"}


@pytest.fixture
def tabs(browser: Browser, stage: Stage) -> Iterator[Tabs]:
    """Of each test its own: a clock that a test controls and a login are those of all tabs of a context."""
    made = new_tabs(browser, stage)
    yield made
    made.context.close()


@contextmanager
def api_away(opened: ChartPage) -> Iterator[None]:
    opened.stage.api.stop()
    try:
        opened.page.locator("#live.offline", has_text="offline, last").wait_for()
        yield
    finally:
        opened.stage.restart_api()


def test_failed_loads_are_said_and_tried_again(tab: Tab, stage: Stage) -> None:
    symbol = "DEMO:REPEATED"
    stage.write(*minutes(symbol, now(), 2000))
    opened = tab()
    page = opened.page
    answer(page, CHART, BROKEN, 500)
    opened.go(query(symbol, bars=200))
    page.get_by_role("heading", name="The chart cannot be shown").wait_for()
    message = page.locator("#message").text_content() or ""
    assert "A part is broken." in message
    assert "The page tries again by itself." in message
    page.locator("#live.failing", has_text="a request failed, trying again").wait_for()
    page.unroute(CHART)
    opened.drawn()
    page.locator("#message").wait_for(state="hidden")
    older = f"{CHART}endTime=*"
    answer(page, older, BROKEN, 429, **{"Retry-After": "1"})

    def is_refused() -> bool:
        opened.keys("ArrowLeft")
        return page.locator("#live.failing").count() > 0

    opened.becomes(is_refused)
    before = page.evaluate(LOADED)
    page.unroute(older)
    opened.becomes(lambda: page.evaluate(LOADED) > before)  # without a movement
    page.locator("#live.live").wait_for()


def test_a_request_that_hangs_ends_at_its_deadline_and_silence_is_a_lost_connection(tab: Tab, stage: Stage) -> None:
    opened = tab()
    page = opened.page
    page.clock.install()
    held(page, CHART)
    opened.go(query())

    def is_told() -> bool:
        page.clock.fast_forward(16_000)  # the request may begin only afterwards
        return page.get_by_text("The service has not answered within 15 seconds.").is_visible()

    opened.becomes(is_told)
    page.unroute(CHART)
    page.clock.fast_forward(16_000)
    opened.drawn()
    for pid in (stage.api.pid, stage.frontend_pid):
        page.locator("#live.live").wait_for()
        with paused(pid):
            page.clock.fast_forward(36_000)
            page.locator("#live.offline", has_text="trying again").wait_for()
            assert opened.legend()
        opened.drawn()


def test_the_page_takes_only_more_than_two_missing_heartbeats_for_silence() -> None:
    found = re.search(r"SILENCE_MS = ([\d_]+);", (FOLDER / "live.js").read_text())
    assert found is not None
    assert 2000 * Times().heartbeat < int(found[1]) < 3000 * Times().heartbeat


def test_changes_while_the_api_is_away_are_drawn_afterwards(tab: Tab, stage: Stage) -> None:
    """This also holds for candles before the newest, which the live stream does not send again."""
    symbol, start = "DEMO:MISSED", now()
    stage.write(tick(symbol, start - 7_200_000, "10", block=1), tick(symbol, start, "20", block=2))
    opened, other = tab(query(symbol, "1h")).drawn(), tab(query(symbol)).drawn()
    page = opened.page
    opened.keys("Shift+ArrowLeft", "Shift+ArrowLeft")
    opened.closes_at("10")
    before = opened.legend()
    with api_away(opened):
        page.locator("#said", has_text="Offline.").wait_for()
        assert opened.legend() == before
        other.choose("15")
        other.page.get_by_role("heading", name="The data API does not answer").wait_for()
    stage.write(tick(symbol, start - 7_200_000, "11", at=1, block=3))
    opened.closes_at("11")
    (correction,) = page.evaluate(CORRECTIONS)
    assert (correction["before"]["c"], correction["after"]["c"]) == ("10", "11")
    assert start <= correction["at"] <= now() + 1000
    stage.write(tick(symbol, now(), "777.25"))
    other.closes_at("777.25")
    other.page.locator("#live.live").wait_for()
    assert other.page.locator("#message").is_hidden()


def test_without_a_trade_the_page_says_so_until_a_trade_is_stored(tab: Tab, stage: Stage) -> None:
    """The list of symbols is simulated, because a service without trades takes long to start."""
    symbol = "DEMO:FIRST"
    opened, listed = tab(), {"symbols": list[Any]()}
    answer(opened.page, "**/api/v1/symbols", listed)
    opened.go().page.get_by_role("heading", name="No trades yet").wait_for()
    opened.keys("End", "ArrowLeft", "Shift+ArrowRight", "+", "Alt+c", "Alt+s")  # without candles they do nothing
    opened.page.locator("#live.live").wait_for()
    listed["symbols"].append({"symbol": symbol, "aliases": [], "first": 0, "last": now(), "finalized_block": None})
    stage.write(tick(symbol, now(), "12.5"))
    opened.closes_at("12.5")


def test_after_the_login_expired_a_dialog_opens_over_the_chart(tab: Tab, stage: Stage) -> None:
    symbol = "DEMO:EXPIRED"
    stage.write(tick(symbol, now(), "100"))
    opened = tab(query(symbol, zone="+05:30", scale="log")).drawn()
    page = opened.page
    before, address = opened.legend(), opened.url
    stage.change_password("another one entirely")
    try:
        opened.choose("5")
        dialog = page.get_by_role("dialog", name="Log in again")
        dialog.wait_for()
        assert opened.legend().keys() == before.keys(), "the view stays"
        dialog.get_by_label("Password").fill("a wrong one")
        opened.keys("Enter")
        dialog.get_by_text("Wrong user name or password.").wait_for()

        def is_logged_in() -> bool:
            """After many failed logins, those of the page's own requests too, the next one has to wait some seconds."""
            dialog.get_by_label("Password").fill(stage.password)
            opened.keys("Enter")
            opened.becomes(lambda: page.evaluate("!document.querySelector('#login[open] .primary:disabled')"))
            return dialog.is_hidden()

        opened.becomes(is_logged_in)
        opened.drawn()
        opened.becomes(lambda: opened.url == address.replace("interval=1m", "interval=5m"))
        stage.write(tick(symbol, now(), "555.5"))
        opened.closes_at("555.5")
    finally:
        stage.change_password(PASSWORD)
