"""Foot, trail, dividers and texts: at every stop of the shipped cards the foot is complete, the dividers keep every
control on the screen, a narrow window works, and every blank of code is shown with its width."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page

from tests.browser.conftest import CARDS, OpenPage, Tab, becomes, stage_of
from tests.browser.measures import faults
from tests.browser.tour import switch_teacher
from tests.functional.serving import Stage

pytestmark = pytest.mark.functional

LONG = "STATUS_OPERAND_EXPECTED"
"""The prediction for every value. It is as long as the longest value of a shipped card."""
ASKED = [".question", "input", "#act"]
JUDGED = [".question", ".explanation", "[role=row].wrong", "#act"]
CODE = "  12+345 *6"
WIDTHS = """(code) => {
  const root = document.getElementById('sheets')?.shadowRoot ?? document;
  const found = [...root.querySelectorAll('code, text.code'), document.body.appendChild(made(code))];
  const shown = found.map((each) => [each, textOf(each)]).filter(([, text]) => text?.data.includes(code));
  return shown.map(([each, text]) => {
    const width = (from, to) => {
      const range = document.createRange();
      range.setStart(text, from);
      range.setEnd(text, to);
      return range.getBoundingClientRect().width;
    };
    const at = text.data.indexOf(code);
    return [each.closest('.part')?.dataset.kind ?? 'page', width(at, at + code.length) / width(at + 2, at + 3)];
  });
  function made(text) { const code = document.createElement('code'); code.append(text); return code; }
  function textOf(element) { return document.createTreeWalker(element, NodeFilter.SHOW_TEXT).nextNode(); }
}"""


def longest(items: list[dict[str, Any]], level: str, count: int) -> list[dict[str, Any]]:
    """The positions with the most text."""
    return sorted((item for item in items if item["level"] == level), key=lambda item: len(str(item)))[-count:]


@pytest.mark.parametrize("card", ["arena", "calc"])
def test_question_fields_button_and_rows_are_in_sight_at_every_stop(context: BrowserContext, card: str) -> None:
    """Without a session; predictions are compared with the card's values. The longest stops and titles are tried."""
    with stage_of(CARDS / card) as shipped:
        catalog = shipped.tcp.get("/api/navigation/catalog")["items"]
        stops = longest(catalog, "snapshot", 12)
        keys = [stop["key"] for stop in stops]
        opened = OpenPage(context.new_page())
        opened.page.goto(f"http://127.0.0.1:{shipped.service.listener.port}/")
        page = opened.ready().page
        assert faults(page, "foot", [keys, ASKED]) == []
        assert faults(page, "trail", [step["key"] for step in longest(catalog, "step", 12)]) == []

        for stop in stops:
            for number in range(1, len(stop["hints_html"]) + 1):
                record(shipped, "x-hint", stop["key"], {"hint": number})
        assert shipped.tcp.put("/api/viewer/state", {"viewer": {"allocator": {"visible": True}}}).status == 200
        reload_with_a_failure(page)
        assert faults(page, "foot", [keys, [*ASKED, ".hint"]]) == []

        for stop in stops:
            record(shipped, "x-prediction", stop["key"], {"values": dict.fromkeys(stop["ask"], LONG)})
        reload_with_a_failure(page)
        assert faults(page, "foot", [keys, JUDGED]) == []


def record(stage: Stage, kind: str, key: str, data: dict[str, Any]) -> None:
    body = {"kind": kind, "actor": "page", "text": "as the page records it", "key": key, "data": data}
    assert stage.tcp.post("/api/events", body).status == 201


def reload_with_a_failure(page: Page) -> None:
    """Without a session a sync fails, and the page shows the failure over the sheets."""
    page.reload()
    page.locator("#memory .panel-head").wait_for()
    page.keyboard.press("F2")
    page.locator("#result", has_text="Not synced").wait_for()


def test_every_blank_of_code_is_there(context: BrowserContext) -> None:
    with stage_of(CARDS / "calc") as calc:  # its texts have code that begins with two blanks
        opened = OpenPage(context.new_page())
        page = opened.page
        page.set_viewport_size({"width": 1920, "height": 1080})  # in a narrow column a value may be on two lines
        page.goto(f"http://127.0.0.1:{calc.service.listener.port}/")
        page.locator("#sheets .holder:not(.flow)").wait_for()
        switch_teacher(page, on=True)
        found: list[tuple[str, float]] = page.evaluate(WIDTHS, CODE)
        assert {kind for kind, _cells in found} >= {"page", "intro", "machine"}
        note = {"kind": "note", "actor": "me", "text": f"It cuts `{CODE}`."}
        assert calc.tcp.post("/api/events", note).status == 201
        page.goto(f"http://127.0.0.1:{calc.service.listener.port}/api/report/lesson.html")
        found += page.evaluate(WIDTHS, CODE)
        for kind, cells in found:
            assert cells == pytest.approx(len(CODE), abs=0.2), f"{kind} shows {cells} columns of {len(CODE)}"


# -- on a session -----------------------------------------------------------------------------------------------------


@pytest.fixture
def proved(tab: Tab, fresh_place: None) -> Page:
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


def test_dividers_and_folds_keep_every_control_at_hand(proved: Page) -> None:
    page = proved
    for width in (1280, 1000):
        page.set_viewport_size({"width": width, "height": 720})
        for name in ("outline", "side"):
            for end in (0, width):
                box = page.locator(f"[data-divider={name}]").bounding_box()
                assert box
                page.mouse.move(box["x"] + box["width"] / 2, 300)
                page.mouse.down()
                page.mouse.move(end, 300, steps=3)
                page.mouse.up()
                assert faults(page, "control") == [], (width, name, end)
    search = page.get_by_label("Search titles and code")
    for way in ("Fold the outline", "Wide worksheet", "Wide editor"):
        page.get_by_role("button", name=way).click()
        search.wait_for(state="hidden")
        page.keyboard.press("/")
        search.wait_for()
        becomes(page, "document.activeElement.id === 'search'")
        page.keyboard.press("Escape")


def test_a_narrow_window_has_one_column_and_its_foot_at_hand(proved: Page) -> None:
    page = proved
    outline = page.get_by_role("navigation", name="Outline")
    for width, height in ((800, 1000), (800, 600), (640, 360)):
        page.set_viewport_size({"width": width, "height": height})
        becomes(page, "innerWidth === document.querySelector('.reading').offsetWidth")
        assert faults(page, "column") == [], (width, height)
    page.keyboard.press("/")
    becomes(page, "document.activeElement.id === 'search'")
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    outline.wait_for(state="hidden")
    page.get_by_role("button", name="Fold the outline").click()
    outline.get_by_role("treeitem", name="Neighbours").click()
    outline.wait_for(state="hidden")
    page.locator("#foot", has_text="Step 4 of 60").wait_for()
    assert faults(page, "column") == []
