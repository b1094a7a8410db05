"""axe-core finds no serious and no critical fault in any state of the chart page, in light and in dark colours."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.browser.market.conftest import SYMBOL, ChartPage, Tab
from tests.browser.market.stage import Stage, minutes, now, tick
from tests.browser.test_accessibility import CHECK

pytestmark = pytest.mark.functional


Faults = Callable[[ChartPage], list[str]]


@pytest.fixture(params=["light", "dark"])
def faults(axe: str, request: pytest.FixtureRequest) -> Faults:
    def check(opened: ChartPage) -> list[str]:
        opened.page.emulate_media(color_scheme=request.param, reduced_motion="reduce")
        opened.page.evaluate(axe)
        found: list[str] = opened.page.evaluate(CHECK, [{"include": ["html"]}, {}])
        return found

    return check


MAIN = (
    ("Alt+n", "#indicators-menu"), ("Alt+o", "#more-menu"), ("e", "dialog[open] [role=option]"), ("Alt+g", "#date"),
)  # fmt: skip


def test_the_main_states_of_the_page_are_accessible(
    faults: Faults, tab: Tab, request: pytest.FixtureRequest, loops: Callable[..., int]
) -> None:
    """In the quick run each state is looked at in light or in dark, and the one without a dialog in both."""
    opened = tab(f"?symbol={SYMBOL}&interval=1m&panels=watchlist,trades&indicators=vwap,rsi.14").drawn()
    page = opened.page
    page.locator("#trade-rows tr").first.wait_for()
    page.locator("#watch-rows tr").first.wait_for()
    found = []
    half = MAIN[: len(MAIN) // 2] if request.node.callspec.params["faults"] == "light" else MAIN[len(MAIN) // 2 :]
    for key, state in MAIN if loops(quick=0, full=1) else half:
        page.keyboard.press(key)
        page.locator(state).first.wait_for()
        found += faults(opened)
        page.keyboard.press("Escape")
        page.locator(state).first.wait_for(state="hidden")
    assert found + faults(opened) == []


@pytest.mark.full
def test_every_state_of_the_page_is_accessible(
    faults: Faults, tab: Tab, stage: Stage, request: pytest.FixtureRequest
) -> None:
    symbol = f"DEMO:STATES-{request.node.callspec.params['faults']}"  # its ticks cannot be written again
    stage.write(*minutes(symbol, now(), 400))
    opened = tab(f"?symbol={symbol}&interval=7m").drawn()
    page = opened.page
    page.get_by_role("alert").wait_for()
    page.keyboard.press("Alt+t")
    page.locator("#trade-rows tr").first.wait_for()
    page.keyboard.press("Alt+w")
    page.locator("#watch-rows tr").first.wait_for()
    block = now()  # a retracted block cannot be written again
    stage.write(tick(symbol, now(), "100", block=block))
    page.locator("#trade-rows tr", has_text="100").first.wait_for()
    stage.write({"retract": {"symbol": symbol, "block_hash": f"0x{block:x}"}})
    page.locator("#trade-rows tr.retracted").wait_for()
    found = faults(opened)
    page.get_by_role("button", name="1 correction since ").wait_for()
    page.keyboard.press("Alt+j")
    found += faults(opened)
    page.keyboard.press("Escape")
    for key, dialog in (("?", "Keyboard"), ("e", "Symbol"), ("1", "Interval"), ("Alt+z", "Time zone")):
        page.keyboard.press(key)
        page.get_by_role("dialog", name=dialog, exact=True).wait_for()
        found += faults(opened)
        page.keyboard.press("Escape")
        page.locator("dialog[open]").wait_for(state="detached")
    page.set_viewport_size({"width": 390, "height": 844})
    found += faults(opened)
    page.get_by_role("button", name="View and export").click()
    found += faults(opened)
    page.get_by_role("button", name="Help").click()
    page.get_by_role("dialog", name="Touch").wait_for()
    found += faults(opened)
    page.keyboard.press("Escape")
    page.set_viewport_size({"width": 1280, "height": 720})
    page.goto(f"{stage.address}?symbol={symbol}&from=2020-01-01T00:00:00Z&to=2020-01-02T00:00:00Z")
    page.get_by_role("heading", name="No trades in this range").wait_for()
    found += faults(opened)
    page.goto(f"{stage.address}logout")
    page.get_by_role("link", name="Log in again").wait_for()
    found += faults(opened)
    page.get_by_role("link", name="Log in again").click()
    opened.go(f"?symbol={symbol}&interval=1m").drawn()
    stage.api.stop()
    page.locator("#live.offline").wait_for()
    found += faults(opened)
    page.reload()
    page.get_by_role("heading", name="The data API does not answer").wait_for()
    found += faults(opened)
    stage.restart_api()
    opened.drawn()
    stage.change_password(f"{stage.password} again")
    page.keyboard.type("5")
    page.keyboard.press("Enter")
    page.get_by_role("dialog", name="Log in again").wait_for()
    assert found + faults(opened) == []
