"""Requests that fail or hang are sent again, a silent connection counts as lost, and the page says both."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, Page, Route

from tests.browser.market.conftest import SYMBOL, Tab, new_tabs, query
from tests.browser.market.stage import Stage, minutes, now
from tests.browser.tabs import Tabs

pytestmark = pytest.mark.functional

CHART = "**/api/v1/chart?*"

KEEP_CLASSES = """() => {
  window.classes = '';
  new MutationObserver(() => { window.classes += ` ${live.className}`; }).observe(live, { attributes: true });
}"""


@pytest.fixture
def tabs(browser: Browser, stage: Stage) -> Iterator[Tabs]:
    """Of each test its own, because a clock that a test controls is that of all tabs of a context."""
    made = new_tabs(browser, stage)
    yield made
    made.context.close()


@contextmanager
def paused(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def refuse(page: Page, url: str, status: int, **headers: str) -> None:
    body = json.dumps({"title": "Broken", "detail": "A part is broken.", "code": "internal"})
    answer = {"Content-Type": "application/problem+json", **headers}
    page.route(url, lambda route: route.fulfill(status=status, headers=answer, body=body))


def test_an_error_of_the_first_load_is_said_and_the_load_is_tried_again(tab: Tab, stage: Stage) -> None:
    opened = tab()
    page = opened.page
    refuse(page, CHART, 500)
    opened.go(query())
    page.get_by_role("heading", name="The chart cannot be shown").wait_for()
    message = page.locator("#message").text_content() or ""
    assert "A part is broken." in message
    assert "The page tries again by itself." in message
    page.locator("#live.failing", has_text="a request failed, trying again").wait_for()
    page.unroute(CHART)
    opened.drawn()
    page.locator("#message").wait_for(state="hidden")


@pytest.mark.full
def test_a_read_of_older_candles_that_failed_is_repeated_without_a_movement(tab: Tab, stage: Stage) -> None:
    symbol = "DEMO:REPEATED"
    stage.write(*minutes(symbol, now(), 4000))
    opened = tab(query(symbol, bars=400)).drawn()
    page = opened.page
    loaded = "import('/static/feed.js').then((feed) => feed.candles().rows.length)"
    older = f"{CHART}endTime=*"
    refuse(page, older, 429, **{"Retry-After": "2"})
    while not page.locator("#live.failing").count():
        page.keyboard.press("ArrowLeft")
    before = page.evaluate(loaded)
    page.unroute(older)
    opened.becomes(lambda: page.evaluate(loaded) > before)
    page.locator("#live.live").wait_for()


@pytest.mark.full
def test_a_request_that_hangs_ends_at_its_deadline(tab: Tab, stage: Stage) -> None:
    opened = tab()
    page = opened.page
    page.clock.install()
    held: list[Route] = []
    page.route(CHART, lambda route: held.append(route))  # noqa: PLW0108 - Playwright calls no built-in
    opened.go(query())
    opened.becomes(lambda: held or page.evaluate("0"))
    page.clock.fast_forward(16_000)
    page.get_by_text("The service has not answered within 15 seconds.").wait_for()
    page.unroute(CHART)
    page.clock.fast_forward(16_000)
    opened.drawn()


@pytest.mark.full
def test_a_paused_api_does_not_stay_green(tab: Tab, stage: Stage) -> None:
    opened = tab()
    page = opened.page
    page.clock.install()
    opened.go(query()).drawn()
    with paused(stage.api.pid):
        page.clock.fast_forward(36_000)
        page.locator("#live.offline", has_text="trying again").wait_for()
        assert opened.legend()
    opened.drawn()


@pytest.mark.full
@pytest.mark.timeout(240)
def test_an_idle_connection_stays_green_until_a_process_behind_it_stops(tab: Tab, stage: Stage) -> None:
    opened = tab(query(SYMBOL, "1d")).drawn()
    page = opened.page
    page.evaluate(KEEP_CLASSES)
    page.wait_for_timeout(40_000)
    assert "offline" not in page.evaluate("window.classes")
    for pid in (stage.api.pid, stage._frontend.pid):
        with paused(pid):
            page.locator("#live.offline").wait_for(timeout=45_000)
        opened.drawn()
