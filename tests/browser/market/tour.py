"""Brings one page into all its states, each with a name. The test of every state and the screenshots use it."""

from __future__ import annotations

from collections.abc import Iterator

from playwright.sync_api import Page

from tests.browser.market.conftest import ChartPage, query
from tests.browser.market.stage import PASSWORD, Stage, minutes, now, tick

SYMBOL = "DEMO:STATES"
PHONE, SMALL = {"width": 390, "height": 844}, {"width": 1280, "height": 720}
DIALOGS = (("?", "Keyboard"), ("e", "Symbol"), ("1", "Interval"), ("Alt+z", "Time zone"))


def states(opened: ChartPage, stage: Stage) -> Iterator[str]:
    """Bring a page of 1280 × 720 pixels from state to state. ``stage`` has no trades of SYMBOL before."""
    stage.write(*minutes(SYMBOL, now(), 400))
    page = opened.page
    yield from _at_rest(opened, stage)
    yield from _on_a_phone(page)
    yield from _with_little(opened, stage)
    yield from _in_trouble(opened, stage)


def _at_rest(opened: ChartPage, stage: Stage) -> Iterator[str]:
    page = opened.page
    opened.go(query(SYMBOL, "7m", panels="watchlist,trades", indicators="vwap,rsi.14")).drawn()
    page.get_by_role("alert").first.wait_for()
    page.locator("#trade-rows tr").first.wait_for()
    page.locator("#watch-rows tr").first.wait_for()
    block = now()
    stage.write(tick(SYMBOL, now(), "99.87", block=block))
    page.locator("#trade-rows tr", has_text="99.87").first.wait_for()
    stage.write({"retract": {"symbol": SYMBOL, "block_hash": f"0x{block:x}"}})
    page.locator("#trade-rows tr.retracted").wait_for()
    page.get_by_role("button", name="1 correction since ").wait_for()
    yield "lists"
    opened.keys("Alt+j")
    page.locator("dialog[open]").wait_for()
    yield "corrections"
    opened.keys("Escape")
    for key, dialog in DIALOGS:
        opened.keys(key)
        page.get_by_role("dialog", name=dialog, exact=True).wait_for()
        yield dialog.lower().replace(" ", "-")
        opened.keys("Escape")
        page.locator("dialog[open]").wait_for(state="detached")
    for key, menu in (("Alt+n", "#indicators-menu"), ("Alt+o", "#more-menu"), ("Alt+g", "#date")):
        opened.keys(key)
        page.locator(menu).wait_for()
        yield menu[1:]
        opened.keys("Escape")
        page.locator(menu).wait_for(state="hidden")


def _on_a_phone(page: Page) -> Iterator[str]:
    page.set_viewport_size(PHONE)  # type: ignore[arg-type]
    page.get_by_role("button", name="View and export").wait_for()
    yield "phone"
    page.get_by_role("button", name="View and export").click()
    page.locator("#controls").wait_for()
    yield "phone-sheet"
    page.get_by_role("button", name="Help").click()
    page.get_by_role("dialog", name="Touch").wait_for()
    yield "phone-help"
    page.keyboard.press("Escape")
    page.set_viewport_size(SMALL)  # type: ignore[arg-type]


def _with_little(opened: ChartPage, stage: Stage) -> Iterator[str]:
    page = opened.page
    opened.go(query(SYMBOL, **{"from": "2020-01-01T00:00:00Z", "to": "2020-01-02T00:00:00Z"}))
    page.get_by_role("heading", name="No trades in this range").wait_for()
    yield "no-trades"
    opened.go(query("NO:SUCH"))
    page.get_by_role("heading", name="Unknown symbol").wait_for()
    yield "unknown-symbol"
    page.goto(f"{stage.address}logout")
    page.get_by_role("link", name="Log in again").wait_for()
    yield "logged-out"
    page.get_by_role("link", name="Log in again").click()
    page.locator("#chart").wait_for()


def _in_trouble(opened: ChartPage, stage: Stage) -> Iterator[str]:
    page = opened.page
    opened.go(query(SYMBOL)).drawn()
    stage.api.stop()
    try:
        page.locator("#live.offline").wait_for()
        yield "offline"
        page.reload()
        page.get_by_role("heading", name="The data API does not answer").wait_for()
        yield "unanswered"
    finally:
        stage.restart_api()
    opened.drawn()
    stage.change_password(f"{PASSWORD} again")
    try:
        page.keyboard.type("5")
        opened.keys("Enter")
        page.get_by_role("dialog", name="Log in again").wait_for()
        yield "login"
    finally:
        stage.change_password(PASSWORD)
