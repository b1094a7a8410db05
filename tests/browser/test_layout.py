"""The page's layout: the foot is visible, every control can be reached, no name is broken, and one narrow column
works."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page

from cardapp.settings import ROOT
from tests.browser.conftest import OpenPage, becomes
from tests.browser.measures import faults
from tests.functional.serving import Stage

pytestmark = pytest.mark.functional

Tab = Callable[..., OpenPage]
LONG = "STATUS_OPERAND_EXPECTED"
"""The prediction for every value. It is as long as the longest value of a shipped card."""
ASKED = [".question", "input", "#act"]
JUDGED = [".question", ".explanation", "[role=row].wrong", "#act"]


# -- the foot, at every stop of the shipped cards ---------------------------------------------------------------------


@pytest.fixture(scope="module", params=["arena", pytest.param("calc", marks=pytest.mark.full)])
def shipped(request: pytest.FixtureRequest) -> Iterator[Stage]:
    """The application on a shipped card, without a session. Predictions are compared with the card's values."""
    with tempfile.TemporaryDirectory(prefix="card-", dir="/tmp") as folder:
        stage = Stage(Path(folder) / "state", ROOT / "etc" / "cards" / request.param)
        yield stage
        stage.close()


def test_question_fields_button_and_rows_are_in_sight_at_every_stop(
    context: BrowserContext, shipped: Stage, loops: Callable[..., int]
) -> None:
    """The quick run tries the stops with the most text."""
    catalog = shipped.tcp.get("/api/navigation/catalog")["items"]
    stops = [item for item in catalog if item["level"] == "snapshot"]
    stops = sorted(stops, key=lambda stop: len(str(stop)))[-loops(quick=12, full=len(stops)) :]
    keys = [stop["key"] for stop in stops]
    opened = OpenPage(context.new_page())
    opened.page.goto(f"http://127.0.0.1:{shipped.service.listener.port}/")
    page = opened.ready().page
    assert faults(page, "foot", [keys, ASKED]) == []

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


@pytest.mark.full
def test_the_title_of_the_step_is_in_full_and_its_ancestors_are_numbers(
    context: BrowserContext, shipped: Stage
) -> None:
    steps = [item["key"] for item in shipped.tcp.get("/api/navigation/catalog")["items"] if item["level"] == "step"]
    opened = OpenPage(context.new_page())
    opened.page.goto(f"http://127.0.0.1:{shipped.service.listener.port}/")
    assert faults(opened.ready().page, "trail", steps) == []


def record(stage: Stage, kind: str, key: str, data: dict[str, Any]) -> None:
    body = {"kind": kind, "actor": "page", "text": "as the page records it", "key": key, "data": data}
    assert stage.tcp.post("/api/events", body).status == 201


def reload_with_a_failure(page: Page) -> None:
    """Without a session a sync fails, and the page shows the failure over the sheets."""
    page.reload()
    page.locator("#memory .panel-head").wait_for()
    page.keyboard.press("F2")
    page.locator("#result", has_text="Not synced").wait_for()


# -- on a session -----------------------------------------------------------------------------------------------------


@pytest.fixture
def proved(tab: Tab, fresh_place: None) -> Page:
    """A page with the panel Memory, at a stop to which the program has run after a wrong prediction."""
    page = tab("#/bump/requests/three-requests/first").page
    page.keyboard.press("Alt+6")
    again = page.get_by_role("button", name="Predict again")
    inputs = page.locator("#foot-values input")
    again.or_(inputs.first).wait_for()
    if again.count():
        again.click()
    inputs.first.fill("1")
    page.keyboard.press("F2")
    page.locator("#foot .rows").wait_for()
    page.locator("#memory .strip").wait_for()
    return page


@pytest.mark.full
@pytest.mark.usefixtures("fresh_place")
def test_the_proof_leaves_the_sheet_where_it_is(tab: Tab) -> None:
    page = tab("#/alignment/padding/types/char-double").page
    page.evaluate("scroller.scrollTo(0, scroller.scrollTop + 40)")
    place = "[scroller.scrollTop, sheets.shadowRoot.querySelector('.here').getBoundingClientRect().top]"
    before = page.evaluate(place)
    page.locator("#foot-values input").first.fill("1")
    page.keyboard.press("F2")
    page.locator("#foot .rows").wait_for()
    assert page.evaluate(place) == before


@pytest.mark.full
@pytest.mark.parametrize("width", [1280, 1000])
def test_dividers_keep_every_control_on_screen(proved: Page, width: int) -> None:
    proved.set_viewport_size({"width": width, "height": 720})
    found = {}
    for name in ("outline", "side"):
        for end in (0, width):
            box = proved.locator(f"[data-divider={name}]").bounding_box()
            assert box
            proved.mouse.move(box["x"] + box["width"] / 2, 300)
            proved.mouse.down()
            proved.mouse.move(end, 300, steps=3)
            proved.mouse.up()
            found[name, end] = faults(proved, "control")
    assert found == {place: [] for place in found}


@pytest.mark.full
def test_the_search_opens_a_folded_outline(proved: Page) -> None:
    search = proved.get_by_label("Search titles and code")
    for way in ("Fold the outline", "Wide worksheet", "Wide editor"):
        proved.get_by_role("button", name=way).click()
        search.wait_for(state="hidden")
        proved.keyboard.press("/")
        search.wait_for()
        becomes(proved, "document.activeElement.id === 'search'")
        proved.keyboard.press("Escape")


@pytest.mark.parametrize(
    "size", [(640, 360), *(pytest.param(each, marks=pytest.mark.full) for each in ((800, 600), (800, 1000)))]
)
def test_a_narrow_window_has_one_column_and_its_foot_at_hand(proved: Page, size: tuple[int, int]) -> None:
    page = proved
    page.set_viewport_size({"width": size[0], "height": size[1]})
    assert faults(page, "column") == []
    outline = page.get_by_role("navigation", name="Outline")
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
