"""Annotations on the sheets, drawn by mouse and by keyboard, and strategies in their panel."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect

from tests.browser.conftest import CARDS, FIRST, OpenPage, Tab, becomes, stage_of
from tests.functional.serving import Stage, until

pytestmark = [pytest.mark.functional, pytest.mark.usefixtures("fresh_place", "no_explanations")]

CODE, TITLE = f"{FIRST}:code", f"{FIRST}:step_title"
STOP = f"{FIRST}/initialised"
SPLIT_STEP = "operands/brackets/group/open"
SPLIT = f"{SPLIT_STEP}:code"
"""A part of the card calc that two sheets of karta-classic show."""
KINDS = ("box", "arrow", "underline", "callout", "freehand")
"""A marker is drawn like a box."""
LINES = """(id) => {
  const shape = sheets.shadowRoot.querySelector(`.annotation[data-id="${id}"] line`);
  const { top, bottom } = shape.getBoundingClientRect();
  const middle = (top + bottom) / 2;
  return [...shape.closest('.part').querySelectorAll('.line')].filter((line) => {
    const box = line.getBoundingClientRect();
    return box.top < middle && middle < box.bottom;
  }).map((line) => line.dataset.number);
}"""
"""The numbers of the lines of code over which a line is drawn."""


@pytest.fixture
def no_explanations(stage: Stage) -> Iterator[None]:
    yield
    for kind in ("strategies", "annotations"):
        for each in stage.tcp.get(f"/api/{kind}")[kind]:
            stage.tcp.request("DELETE", f"/api/{kind}/{each['id']}")


def box(stage: Stage, **changes: Any) -> dict[str, Any]:
    body = {
        "key": STOP,
        "target": {"part": CODE, "x": 0.2, "y": 0.2, "w": 0.4, "h": 0.4},
        "geometry": {"points": [[0.2, 0.2], [0.6, 0.6]]},
        "style": {"kind": "box"},
        "text": "Look",
        **changes,
    }
    answer = stage.tcp.post("/api/annotations", body)
    assert answer.status == 201, answer.body
    record: dict[str, Any] = answer.json
    return record


def between(value: float, start: list[float], to: list[float]) -> float:
    """Map ``value`` from the scale ``start`` to the scale ``to`` by linear interpolation."""
    at = max(1, sum(each <= value for each in start[:-1]))
    return to[at - 1] + (value - start[at - 1]) / (start[at] - start[at - 1]) * (to[at] - to[at - 1])


def shares(part: Locator) -> tuple[list[float], list[float]]:
    """Positions in the whole part, and the matching positions in this piece of the part; both as fractions of the
    height."""
    found = part.evaluate("({ dataset }) => [dataset.shares, dataset.heights].map((all) => all ?? '0 1')")
    return [float(each) for each in found[0].split()], [float(each) for each in found[1].split()]


def drawn(stage: Stage, count: int = 1) -> list[dict[str, Any]]:
    """Wait until there are ``count`` annotations, and return them."""

    def found() -> list[dict[str, Any]]:
        listed: list[dict[str, Any]] = stage.tcp.get("/api/annotations")["annotations"]
        return listed if len(listed) == count else []

    return until(found)  # type: ignore[no-any-return]


def part(page: Page, name: str) -> Locator:
    return page.locator(f"[data-part='{name}']")


def shapes(page: Page) -> Locator:
    return page.locator("#sheets .annotation")


def panel(tab: Tab) -> Page:
    page = tab().page
    page.keyboard.press("Alt+8")
    expect(page.get_by_role("region", name="Annotations and strategies")).to_be_visible()
    return page


def draw(page: Page, kind: str, text: str) -> None:
    page.get_by_label("Kind", exact=True).select_option(kind)
    page.get_by_label("Text", exact=True).fill(text)
    page.get_by_role("button", name="Draw", exact=True).press("Enter")
    page.locator("#explain [role=status]", has_text="Enter draws").wait_for()


def drag(page: Page, start: tuple[float, float], end: tuple[float, float]) -> None:
    page.mouse.move(*start)
    page.mouse.down()
    page.mouse.move(*end, steps=5)
    page.mouse.up()


def test_the_mouse_draws_on_a_part(tab: Tab, stage: Stage) -> None:
    page = panel(tab)
    for count, kind in enumerate(("box", "callout", "freehand"), 1):
        draw(page, kind, f"The {kind}")
        part(page, CODE).scroll_into_view_if_needed()
        place = part(page, CODE).bounding_box()
        assert place is not None
        left, top = place["x"] + place["width"] / 4, place["y"] + 30
        drag(page, (left, top), (left + place["width"] / 2, top + 20))
        record = drawn(stage, count)[-1]
        points = record["geometry"]["points"]
        assert (record["target"]["part"], record["text"], record["key"]) == (CODE, f"The {kind}", STOP)
        ends = [points[-1], points[0]] if kind == "callout" else [points[0], points[-1]]
        assert [round(x, 2) for x, _ in ends] == [0.25, 0.75], kind
        assert round(record["target"]["w"], 2) == 0.5, kind
        assert len(points) == (6 if kind == "freehand" else 2)
        expect(shapes(page)).to_have_count(count)
        expect(page.locator("#sheets .said").last).to_have_text(f"The {kind}")
    assert stage.tcp.get("/api/navigation/current")["key"] == FIRST  # the click on the sheet moved nothing


def test_the_keyboard_draws_and_escape_draws_nothing(tab: Tab, stage: Stage) -> None:
    page = panel(tab)
    draw(page, "box", "Not this")
    expect(shapes(page)).to_have_count(1)  # the preview
    page.keyboard.press("Escape")
    expect(shapes(page)).to_have_count(0)
    expect(page.get_by_label("Text", exact=True)).to_have_value("Not this")
    assert stage.tcp.get("/api/annotations")["annotations"] == []
    for count, kind in enumerate(KINDS, 1):
        draw(page, kind, f"A {kind}")
        expect(page.locator("#sheets .part.aimed")).to_have_attribute("data-part", TITLE)
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowDown")
        expect(page.locator("#explain [role=status]")).to_contain_text("Code of 1.1.1.1 The fields")
        for key in ("Control+ArrowLeft", "Control+ArrowUp", "Shift+ArrowRight", "Enter"):
            page.keyboard.press(key)
        record = drawn(stage, count)[-1]
        assert (record["style"]["kind"], record["text"], record["target"]["part"]) == (kind, f"A {kind}", CODE)
        expect(shapes(page)).to_have_count(count)
        if kind == "box":
            found, heights = shares(part(page, CODE))
            end = pytest.approx(between(0.95, heights, found), abs=1e-5)
            assert record["target"] == {"part": CODE, "x": 0.05, "y": 0, "w": 0.95, "h": end}
    assert page.evaluate("document.activeElement.textContent") == "Draw"
    page.keyboard.press("ArrowRight")
    page.locator("#trail", has_text="1.1.1.2").wait_for()


def open_split(context: BrowserContext, stage: Stage) -> Page:
    """The page of the step with the long code."""
    task, block, phase, step = SPLIT_STEP.split("/")
    place = {"task_id": task, "block_id": block, "phase_id": phase, "step_id": step, "focus_level": "step"}
    assert stage.tcp.put("/api/navigation/current", place).status == 200
    page = OpenPage(context.new_page()).page
    page.goto(f"http://127.0.0.1:{stage.service.listener.port}/")
    part(page, SPLIT).first.wait_for()
    return page


def test_annotations_lie_over_their_code_on_two_sheets(context: BrowserContext) -> None:
    with stage_of(CARDS / "calc") as calc:
        page = open_split(context, calc)
        expect(part(page, SPLIT)).to_have_count(2)  # in karta-classic the code is on two sheets
        page.keyboard.press("Alt+8")
        draw(page, "underline", "This line")
        line = part(page, SPLIT).nth(1).locator(".line[data-number='130']")
        line.scroll_into_view_if_needed()
        place = line.bounding_box()
        assert place is not None
        middle = place["y"] + place["height"] / 2
        drag(page, (place["x"] + 60, middle), (place["x"] + 160, middle))
        (record,) = drawn(calc)
        assert record["target"]["part"] == SPLIT
        assert 0.6 < record["target"]["y"] < 0.75  # it is line 18 of 26
        page.locator(f"#sheets .annotation[data-id='{record['id']}'] line").first.wait_for(state="attached")
        assert page.evaluate(LINES, record["id"]) == ["130"]
        calc.tcp.request("DELETE", f"/api/annotations/{record['id']}")
        target = {"part": SPLIT, "x": 0.1, "y": 0.06, "w": 0.8, "h": 0.34}
        box(calc, key=f"{SPLIT_STEP}/opened", target=target, geometry={"points": [[0.1, 0.06], [0.9, 0.4]]})
        page = open_split(context, calc)
        expect(shapes(page)).to_have_count(2)
        expect(part(page, SPLIT).nth(1).locator(".said")).to_have_text("Look")
        expect(page.locator("#sheets .said")).to_have_count(1)


def test_the_list_chooses_hides_shows_and_removes(tab: Tab, stage: Stage) -> None:
    for text in ("one", "two", "three"):
        box(stage, text=text)
    page = panel(tab)
    rows = page.locator("#annotation-list > li")
    expect(rows).to_have_count(3)
    rows.nth(0).get_by_role("button", name="Box “one”", exact=False).first.press("Enter")
    expect(page.locator("#sheets .annotation.chosen")).to_have_count(1)
    expect(page.locator("#sheets .annotation.chosen rect")).to_be_in_viewport()
    for key in ("ArrowDown", "Tab", "Enter"):
        page.keyboard.press(key)
    expect(shapes(page)).to_have_count(2)
    expect(page.locator("#sheets .said")).to_have_text(["one", "three"])
    assert [each["visible"] for each in drawn(stage, 3)] == [True, False, True]
    becomes(page, "document.activeElement.ariaLabel?.endsWith('Box “two”')")
    becomes(page, "document.activeElement.ariaPressed === 'false'")
    page.keyboard.press("Enter")
    expect(shapes(page)).to_have_count(3)
    becomes(page, "document.activeElement.ariaLabel?.endsWith('Box “two”')")
    page.keyboard.press("Delete")
    expect(rows).to_have_count(2)
    becomes(page, "document.activeElement.textContent.startsWith('Box “three”')")
    page.keyboard.press("Alt+7")
    expect(shapes(page)).to_have_count(0)
    expect(rows).to_have_count(2)
    page.get_by_role("button", name="Show all").click()
    expect(page.locator("#sheets .said")).to_have_text(["one", "three"])


def test_an_annotation_on_the_sheet_is_chosen_hidden_and_covered(tab: Tab, stage: Stage) -> None:
    record = box(stage, target={"part": TITLE, "x": 0, "y": 0, "w": 1, "h": 1}, text="The title")
    page = tab().page
    said = page.locator("#sheets .said", has_text="The title")
    events = "(each) => getComputedStyle(each).pointerEvents"
    assert said.evaluate(events) == "none"
    page.keyboard.press("Alt+8")
    said.click()
    expect(page.locator("#annotation-list [aria-pressed=true].link")).to_contain_text("The title")
    expect(page.locator(f"#sheets .annotation.chosen[data-id='{record['id']}']")).to_have_count(1)
    assert stage.tcp.get("/api/navigation/current")["key"] == FIRST
    page.keyboard.press("Alt+8")
    assert said.evaluate(events) == "none"
    stage.unix.post(f"/api/annotations/{record['id']}/hide", {})  # another client hides it
    expect(shapes(page)).to_have_count(0)
    box(stage, target={"part": f"{STOP}:machine", "x": 0, "y": 0, "w": 1, "h": 1}, text="64 bytes")
    values = page.locator("#sheets .said", has_text="64 bytes")
    expect(values).to_have_count(1)
    expect(values).to_be_hidden()
    part(page, f"{STOP}:machine").get_by_role("button", name="Show values").click()
    expect(values).to_be_visible()


def test_a_strategy_is_added_run_and_its_run_gone_back_from(tab: Tab) -> None:
    page = panel(tab)
    page.locator("summary", has_text="New strategy").click()
    page.get_by_label("Name of the strategy").fill("Step over")
    page.get_by_label("gdb command").fill("print a->used")
    page.get_by_label("Expected to print").fill("1")
    page.get_by_role("button", name="One more command").click()
    page.keyboard.type("shell true")
    page.get_by_role("button", name="Add the strategy").click()
    expect(page.locator("#result")).to_contain_text("'shell true' begins with 'shell', which is not allowed")
    page.get_by_label("gdb command").nth(1).fill("next")
    page.get_by_role("button", name="Add the strategy").click()
    expect(page.locator("#result")).to_be_hidden()
    page.get_by_role("button", name="Run Step over").click()
    rows = page.locator("#strategy-list .outcome tbody tr")
    expect(rows).to_have_count(2)
    expect(rows.nth(0)).to_contain_text("✗ different")
    expect(rows.nth(1)).to_contain_text("arena.c:38")
    page.locator("#sync-state", has_text="SYNC OFF · the program ran on").wait_for()
    page.get_by_role("button", name="Back to the stop").click()
    page.locator("#sync-state", has_text="SYNC ON · at this").wait_for()
    page.get_by_role("button", name="Remove Step over").click()
    expect(page.locator("#strategy-list > li")).to_have_count(0)
