"""Foot, trail and dividers: at every stop of the shipped cards the foot is complete, the dividers keep every control on
the screen, and a narrow window works."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page

from tests.browser.conftest import CARDS, OpenPage, Tab, becomes, stage_of
from tests.browser.measures import faults, settles_without_faults

pytestmark = pytest.mark.functional

ASKED = [".question", "input", "#act"]


def longest(items: list[dict[str, Any]], level: str, count: int) -> list[dict[str, Any]]:
    """The positions with the most text."""
    return sorted((item for item in items if item["level"] == level), key=lambda item: len(str(item)))[-count:]


@pytest.mark.parametrize("card", ["arena", "calc"])
def test_code_question_fields_and_button_are_in_sight_at_every_stop(context: BrowserContext, card: str) -> None:
    """The longest stops and titles are tried."""
    with stage_of(CARDS / card) as shipped:
        catalog = shipped.tcp.get("/api/navigation/catalog")["items"]
        keys = [stop["key"] for stop in longest(catalog, "snapshot", 5)]
        opened = OpenPage(context.new_page())
        opened.page.goto(f"http://127.0.0.1:{shipped.service.listener.port}/")
        page = opened.ready().page
        assert faults(page, "foot", [keys, ASKED]) == []
        for block in (item["key"] for item in catalog if item["level"] == "block"):
            opened.go_to(block)
            assert faults(page, "code") == [], block
        assert faults(page, "trail", [step["key"] for step in longest(catalog, "step", 5)]) == []


# -- on a session -----------------------------------------------------------------------------------------------------


def proved(tab: Tab) -> Page:
    """A page with the panel Memory, at a stop to which the program has run after a wrong prediction."""
    opened = tab("#/bump/requests/three-requests/first")
    page = opened.page
    opened.keys("Alt+6")
    page.evaluate("scroller.scrollTo(0, scroller.scrollTop + 40)")
    place = "[scroller.scrollTop, sheets.shadowRoot.querySelector('.here').getBoundingClientRect().top]"
    page.locator("#foot-values input").first.fill("1")
    before = page.evaluate(place)
    opened.keys("F2")
    page.locator("#foot .rows").wait_for()
    assert page.evaluate(place) == before, "the proof leaves the sheet where it is"
    page.locator("#memory .strip").wait_for()
    return page


@pytest.mark.usefixtures("fresh_place")
def test_every_control_is_at_hand_with_dividers_folds_and_in_one_column(tab: Tab) -> None:
    page = proved(tab)
    page.set_viewport_size({"width": 1000, "height": 720})
    for name in ("outline", "side"):
        for end in (0, 1000):
            box = page.locator(f"[data-divider={name}]").bounding_box()
            assert box
            page.mouse.move(box["x"] + box["width"] / 2, 300)
            page.mouse.down()
            page.mouse.move(end, 300, steps=3)
            page.mouse.up()
            settles_without_faults(page, "control", (name, end))
    search = page.get_by_label("Search titles and code")
    for way in ("Fold the outline", "Wide worksheet", "Wide editor"):
        page.get_by_role("button", name=way).click()
        search.wait_for(state="hidden")
        page.keyboard.press("/")
        search.wait_for()
        becomes(page, "document.activeElement.id === 'search'")
        page.keyboard.press("Escape")

    # A narrow window has one column.
    outline = page.get_by_role("navigation", name="Outline")
    for width, height in ((800, 1000), (800, 600), (640, 360)):
        page.set_viewport_size({"width": width, "height": height})
        becomes(page, "(width) => innerWidth === width", width)
        settles_without_faults(page, "column", (width, height))
    page.keyboard.press("/")
    becomes(page, "document.activeElement.id === 'search'")
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    outline.wait_for(state="hidden")
    page.get_by_role("button", name="Fold the outline").click()
    outline.get_by_role("treeitem", name="Neighbours").click()
    outline.wait_for(state="hidden")
    page.locator("#foot", has_text="Step 4 of 60").wait_for()
    settles_without_faults(page, "column")
