"""What people do on the page, in real Chromium on a real session."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.browser.conftest import FIRST, OpenPage, becomes
from tests.functional.serving import Stage, until

pytestmark = [pytest.mark.functional, pytest.mark.usefixtures("fresh_place")]

Tab = Callable[..., OpenPage]


def test_enter_on_the_page_and_f2_in_the_editor_lead_to_the_same_stop(tab: Tab, stage: Stage) -> None:
    opened = tab()
    opened.page.keyboard.press("Enter")
    opened.shows("SYNC ON · at this step")
    by_page = stage.tcp.get("/api/checkpoint/status")["last"]
    opened.page.keyboard.press("ArrowRight")
    opened.shows("elsewhere")
    opened.page.keyboard.press("ArrowLeft")
    opened.page.get_by_role("button", name="Keyboard F8").click()
    until(lambda: stage.tcp.get("/api/viewer/state")["viewer"]["editor"]["control"])
    opened.page.keyboard.press("F2")
    until(lambda: stage.tcp.get("/api/checkpoint/status")["last"]["generation"] > by_page["generation"])
    by_editor = stage.tcp.get("/api/checkpoint/status")["last"]
    assert by_editor["state"] == "ready"
    assert [by_editor["observed"][name] for name in ("file", "line", "values")] == [
        by_page["observed"][name] for name in ("file", "line", "values")
    ]
    opened.shows("SYNC ON · at this step")


def test_typing_in_the_panel_lands_in_the_buffer(tab: Tab, stage: Stage) -> None:
    opened = tab()
    opened.page.keyboard.press("F8")
    until(lambda: stage.tcp.get("/api/viewer/state")["viewer"]["editor"]["control"])
    opened.page.locator("#editor textarea").wait_for(state="attached")
    opened.page.keyboard.press("Escape")
    opened.page.keyboard.type(":enew!")
    opened.page.keyboard.press("Enter")
    opened.page.keyboard.type("ia < b, ü 語")
    opened.page.keyboard.insert_text("é")  # a text that an input method or a dead key composes
    opened.page.keyboard.press("Escape")
    until(lambda: "a < b, ü 語é" in opened.grid())
    opened.page.keyboard.type(":buffer 1")
    opened.page.keyboard.press("Enter")
    until(lambda: stage.tcp.get("/api/editor/state")["buffer"]["number"] == 1)  # the next test checks it
    opened.page.keyboard.press("F8")
    until(lambda: not stage.tcp.get("/api/viewer/state")["viewer"]["editor"]["control"])


def test_keys_reach_the_editor_only_while_it_has_control(tab: Tab, stage: Stage) -> None:
    opened = tab().control(stage)
    opened.page.keyboard.press("F8")
    until(lambda: not stage.tcp.get("/api/viewer/state")["viewer"]["editor"]["control"])
    opened.page.keyboard.type("ggdG")
    assert stage.tcp.get("/api/editor/state")["buffer"]["modified"] is False


def test_a_reload_comes_back_to_the_same_view(tab: Tab, stage: Stage) -> None:
    opened = tab()
    opened.page.keyboard.press("Alt+6")
    opened.page.get_by_role("button", name="Next page", exact=True).click()
    opened.page.get_by_role("button", name="Zoom in", exact=True).click()
    opened.page.locator("#scroller").evaluate("(element) => element.scrollTo(0, 300)")
    until(lambda: stage.tcp.get("/api/viewer/state")["scroll"]["sheet_scroll_top"] > 0)
    shown = "scroller.scrollTop, zoom.textContent, memory.hidden, document.getElementById('page-number').textContent"
    place = f"(() => [{shown}])()"
    before = opened.page.evaluate(place)
    opened.page.reload()
    opened.ready()
    until(lambda: opened.page.evaluate(place) == before, 5)


@pytest.mark.full
def test_a_reload_comes_back_to_the_place_that_a_position_was_scrolled_to(tab: Tab, stage: Stage) -> None:
    opened = tab()
    opened.page.evaluate("location.hash = '#/bump/requests/three-requests/first'")
    becomes(opened.page, "scroller.scrollTop > 0")
    until(lambda: stage.tcp.get("/api/viewer/state")["scroll"]["sheet_scroll_top"] > 0)
    before = opened.page.evaluate("scroller.scrollTop")
    opened.page.reload()
    opened.ready()
    until(lambda: opened.page.evaluate("scroller.scrollTop") == before, 5)


@pytest.mark.full
def test_a_second_tab_follows_position_flags_and_page_but_not_the_scroll(tab: Tab, stage: Stage) -> None:
    first, second = tab(), tab()
    first.page.get_by_role("treeitem", name="Alignment").click()
    second.page.locator("#trail", has_text="Alignment").wait_for(timeout=2000)
    first.page.keyboard.press("Alt+6")
    second.page.locator("#memory").wait_for(timeout=2000)
    first.page.locator("#scroller").evaluate("(element) => element.scrollTo(0, 400)")
    scrolled = first.page.evaluate("scroller.scrollTop")
    until(lambda: stage.tcp.get("/api/viewer/state")["scroll"]["y"] == scrolled)
    revision = stage.tcp.get("/api/viewer/state")["revision"]
    second.page.wait_for_timeout(700)
    assert second.page.evaluate("scroller.scrollTop") != first.page.evaluate("scroller.scrollTop")
    assert stage.tcp.get("/api/viewer/state")["revision"] == revision, "the tabs do not react to each other's changes"


def test_values_are_covered_until_they_are_shown_and_stay_open_after_a_reload(tab: Tab, stage: Stage) -> None:
    opened = tab("#/bump/requests/three-requests/first")
    machine = opened.page.locator(".part[data-kind=machine].covered").first
    machine.wait_for()
    assert machine.locator("td").first.is_visible() is False
    covered = opened.page.locator(".part.covered").count()
    machine.get_by_role("button", name="Show values").click()
    becomes(opened.page, "(count) => sheets.shadowRoot.querySelectorAll('.part.covered').length < count", arg=covered)
    until(lambda: stage.tcp.get("/api/events?kind=x-revealed")["events"])
    left = opened.page.locator(".part.covered").count()
    opened.page.reload()
    opened.ready()
    becomes(opened.page, "(count) => sheets.shadowRoot.querySelectorAll('.part.covered').length === count", arg=left)


def test_the_landmarks_carry_their_names(tab: Tab) -> None:
    page = tab().page
    for role, name in (("navigation", "Outline"), ("main", "Worksheet"), ("region", "Editor"), ("status", "Sync")):
        page.get_by_role(role, name=name, exact=True).wait_for()
    page.get_by_role("button", name="Sync", exact=True).wait_for()
    page.keyboard.press("?")
    page.get_by_role("dialog", name="Keyboard").wait_for()
    page.keyboard.press("Escape")
    page.get_by_role("dialog", name="Keyboard").wait_for(state="hidden")


@pytest.mark.full
def test_the_code_stays_in_sight_at_the_second_stop_of_a_step(tab: Tab) -> None:
    page = tab("#/bump/requests/three-requests/neighbours").page
    for name in ("Next stop", "Previous stop", "Next stop"):
        page.get_by_role("button", name=name, exact=True).click()
        becomes(page, IN_SIGHT)


IN_SIGHT = """() => {
  const view = scroller.getBoundingClientRect();
  const step = '.part[data-key="bump/requests/three-requests/neighbours"]';
  return ['.here', `${step} .source .at`].every((name) => {
    const box = sheets.shadowRoot.querySelector(name)?.getBoundingClientRect();
    return box && box.top >= view.top && box.bottom <= view.bottom;
  });
}"""


@pytest.mark.full
def test_the_memory_opens_by_the_mouse_too(tab: Tab) -> None:
    page = tab().page
    page.get_by_role("button", name="Memory", exact=True).click()
    page.get_by_role("region", name="Memory").wait_for()
    assert page.get_by_role("button", name="Memory", exact=True).is_hidden()
    page.get_by_role("button", name="Hide the memory (Alt+6)").click()
    page.get_by_role("button", name="Memory", exact=True).wait_for()


def test_a_step_is_approved_with_its_note(tab: Tab, stage: Stage) -> None:
    opened = tab()
    opened.page.get_by_label("Note on this step").fill("The cursor moves by 8.")
    opened.page.get_by_role("button", name="Approve", exact=True).click()
    opened.page.locator("#tally", has_text="1 of").wait_for()
    item = next(item for item in stage.tcp.get("/api/progress")["items"] if item["key"] == FIRST)
    assert (item["status"], item["note"], item["actor"]) == ("approved", "The cursor moves by 8.", "page")


@pytest.mark.full
def test_a_page_turned_away_from_the_position_only_offers_the_way_back(tab: Tab, stage: Stage) -> None:
    opened = tab()
    before = stage.tcp.get("/api/checkpoint/status")["generation"]
    status = {item["key"]: item["status"] for item in stage.tcp.get("/api/progress")["items"]}
    title = next(item["title"] for item in stage.tcp.get("/api/navigation/catalog")["items"] if item["key"] == FIRST)
    back = opened.page.get_by_role("button", name=f"Back to 1.1.1.1 {title}")
    for way in ("Enter", "F2", "click"):
        opened.page.get_by_role("button", name="Next page", exact=True).click()
        opened.page.locator("#away", has_text="You are looking at page 2.").wait_for()
        back.wait_for()
        assert opened.page.get_by_role("button", name="Sync", exact=True).is_disabled()
        assert opened.page.get_by_role("button", name="Approve", exact=True).is_hidden()
        opened.page.locator("#scroller").focus()
        opened.page.keyboard.press("a")
        if way == "click":
            back.click()
        else:
            opened.page.keyboard.press(way)
        opened.page.locator("#page-number", has_text="Page 1 ").wait_for()
        opened.page.locator("#sheets .here").wait_for()
        back.wait_for(state="hidden")
    assert stage.tcp.get("/api/checkpoint/status")["generation"] == before
    assert {item["key"]: item["status"] for item in stage.tcp.get("/api/progress")["items"]} == status
    opened.page.locator("#scroller").focus()
    opened.page.keyboard.press("Enter")
    opened.shows("SYNC ON · at this step")


@pytest.mark.full
def test_search_finds_titles_and_code(tab: Tab) -> None:
    page = tab().page
    page.keyboard.press("/")
    page.keyboard.type("round_up")
    page.locator("#matches mark", has_text="round_up").first.wait_for()
    found = page.locator("#matches button.code").first
    assert found.locator(".number").first.inner_text().strip() != ""
    assert found.locator(".title").inner_text() != "", "a line of code stands below the title of its step"
    assert found.locator(".excerpt mark").first.inner_text() == "round_up"
    found.click()
    page.locator("#sheets .here").wait_for()
    page.get_by_label("Search titles and code").fill("no such text anywhere")
    page.get_by_text("Nothing in this card contains").wait_for()


@pytest.mark.full
def test_the_map_is_over_the_worksheet_and_readable(tab: Tab, stage: Stage) -> None:
    opened = tab()
    page = opened.page
    page.get_by_role("tab", name="Map").click()
    diagram = page.locator("#map svg")
    diagram.wait_for()
    least = """() => Math.min(...[...document.querySelectorAll('#map text')].map((text) =>
      parseFloat(getComputedStyle(text).fontSize) * text.getScreenCTM().a))"""
    for width, height in ((1280, 720), (1920, 1080), (800, 900)):
        page.set_viewport_size({"width": width, "height": height})
        for _ in range(4):
            assert page.evaluate(least) >= 11
            page.get_by_role("button", name="Zoom out of the map").click()
    page.set_viewport_size({"width": 1280, "height": 720})
    panel, sheet = page.locator("#map-panel").bounding_box(), page.locator("#scroller").bounding_box()
    assert panel
    assert sheet
    assert panel["x"] <= sheet["x"]
    assert panel["y"] <= sheet["y"]
    assert panel["x"] + panel["width"] >= sheet["x"] + sheet["width"]
    assert panel["y"] + panel["height"] >= sheet["y"] + sheet["height"]
    page.get_by_role("treeitem", name="Alignment").wait_for()
    page.locator("#away", has_text="You are looking at the map.").wait_for()
    assert page.get_by_role("button", name="Sync", exact=True).is_disabled()
    assert page.locator(".foot").is_hidden()
    page.keyboard.press("Escape")
    diagram.wait_for(state="hidden")
    page.get_by_role("tab", name="Map").click()
    page.get_by_role("button", name="This block").click()
    page.locator('#map [data-key="bump/anatomy/empty/fields"]').wait_for()
    page.get_by_role("button", name="Whole card").click()
    page.locator('#map a[href="#alignment/padding"]').click()
    diagram.wait_for(state="hidden")
    until(lambda: stage.tcp.get("/api/navigation/current")["key"] == "alignment/padding")
    page.locator("#sheets .here").wait_for()


@pytest.mark.full
def test_forced_colours_mark_the_current_row_covered_values_and_the_state_of_sync(tab: Tab) -> None:
    opened = tab("#/bump/requests/three-requests/first")
    page = opened.page
    page.emulate_media(forced_colors="active")
    colour = "(each) => getComputedStyle(each).backgroundColor"
    rows = page.locator("#tree [role=treeitem]")
    current = page.locator("#tree [aria-current]")
    assert current.evaluate(colour) not in {
        row.evaluate(colour) for row in rows.all() if row.get_attribute("aria-current") is None
    }
    cover = page.locator("#sheets .cover").first
    assert cover.evaluate(
        "(each) => [getComputedStyle(each).borderTopStyle, getComputedStyle(each).borderTopWidth]"
    ) == [
        "dashed",
        "2px",
    ]
    off = page.locator("#sync-state").evaluate(colour)
    page.keyboard.press("Enter")
    opened.shows("SYNC ON · at this step")
    assert page.locator("#sync-state").evaluate(colour) != off
    page.keyboard.press("ArrowRight")
    opened.shows("elsewhere")
    assert page.locator("#sync-state").evaluate("(each) => getComputedStyle(each).borderTopStyle") == "dashed"


@pytest.mark.full
def test_f2_and_f1_leave_the_focus_where_it_was(tab: Tab, stage: Stage) -> None:
    opened = tab("#/bump/requests/three-requests/first")
    page = opened.page
    page.keyboard.press("Alt+6")
    focused = "() => { const on = document.activeElement; return [on.localName, on.id, on.ariaLabel, on.dataset.key]; }"
    for place in (
        page.locator("#scroller"),
        page.get_by_role("button", name="Sync", exact=True),
        page.get_by_role("button", name="Hide the memory"),
        page.get_by_label("Search titles and code"),
        page.get_by_role("treeitem", name="The first block"),
        page.get_by_label("Zoom in", exact=True),
    ):
        place.focus()
        before = page.evaluate(focused)
        generation = stage.tcp.get("/api/checkpoint/status")["generation"]
        page.keyboard.press("F2")
        until(lambda last=generation: stage.tcp.get("/api/checkpoint/status")["generation"] > last)
        opened.shows("SYNC ON · at this step")
        until(lambda: page.locator("#memory .strip").count())
        assert page.evaluate(focused) == before
        page.keyboard.press("F1")
        opened.shows("the program was reset")
        assert page.evaluate(focused) == before


def test_each_control_has_a_name_of_its_own(tab: Tab) -> None:
    page = tab().page
    page.keyboard.press("Alt+6")
    page.locator("#memory .panel-head").wait_for()
    names = """() => [...document.querySelectorAll('button, input, [role=tab]')]
      .filter((each) => each.checkVisibility())
      .map((each) => [each.ariaLabel ?? (each.labels?.[0] ?? each).textContent.trim(), each.textContent.trim()])"""
    found = page.evaluate(names)
    own = [name for name, _text in found]
    assert sorted(own) == sorted(set(own))
    words = [text for _name, text in found if text not in ("", "−", "+", "×")]
    assert sorted(words) == sorted(set(words))
    assert "flowing" not in page.locator("body").inner_text()


@pytest.mark.full
def test_a_memory_picture_that_leaves_bytes_out_draws_the_break(tab: Tab) -> None:
    opened = tab("#/bump/requests/three-requests/first")
    page = opened.page
    page.keyboard.press("Alt+6")
    page.keyboard.press("Enter")
    opened.shows("SYNC ON · at this step")
    gap = page.locator("#memory .break")
    gap.wait_for()
    boxes = """() => ['strip', 'break', 'strip-end'].map((name) => document.querySelector(`#memory .${name}`))
      .map((each) => each.getBoundingClientRect().toJSON())"""
    left, middle, right = page.evaluate(boxes)
    assert left["x"] + left["width"] - middle["x"] == pytest.approx(middle["x"] + middle["width"] - right["x"], abs=1)
    assert (middle["y"], middle["height"]) < (left["y"], left["height"] + 20)
    assert middle["height"] > left["height"], "the strokes reach over the strip's border"
    size = page.locator("#memory .figures dd").first.inner_text().split()[2]
    assert page.locator("#memory .scale").last.inner_text() == size
    page.get_by_role("button", name="Whole arena").click()
    gap.wait_for(state="hidden")
    page.get_by_role("button", name="Used part only").click()
    gap.wait_for()


@pytest.mark.full
def test_enter_goes_to_a_match_and_the_next_enter_does_what_the_page_says(tab: Tab, stage: Stage) -> None:
    opened = tab()
    page = opened.page
    page.keyboard.press("/")
    page.keyboard.type("THREE  blocks")
    page.keyboard.press("Enter")
    chosen = page.locator("#matches [aria-current]")
    chosen.wait_for()
    assert chosen.locator("mark").first.inner_text().lower() == "three blocks"
    until(lambda: stage.tcp.get("/api/navigation/current")["key"] != FIRST)
    page.keyboard.press("/")
    page.keyboard.type("The first bl")
    page.locator("#matches mark", has_text="The first bl").first.wait_for()
    assert page.get_by_label("Search titles and code").input_value() == "The first bl", "a search starts anew"
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    until(lambda: stage.tcp.get("/api/navigation/current")["key"] == "bump/requests/three-requests/first")
    page.keyboard.press("Enter")
    opened.shows("SYNC ON · at this step")
    assert stage.tcp.get("/api/control/state")["key"].startswith("bump/requests/three-requests/first/")


@pytest.mark.full
def test_a_position_that_changed_without_a_page_is_shown(tab: Tab, stage: Stage) -> None:
    opened = tab()
    opened.page.get_by_role("button", name="Next page", exact=True).click()
    until(lambda: stage.tcp.get("/api/viewer/state")["scroll"]["page_index"] == 1)
    opened.page.goto("about:blank")
    moved = stage.tcp.post("/api/navigation/move", {"level": "block", "delta": 2}).json
    opened = tab()
    opened.page.locator("#sheets .here").wait_for()
    assert opened.page.locator("#sheets .here").get_attribute("data-key") == moved["key"]


@pytest.mark.full
def test_enter_after_an_answer_syncs(tab: Tab, stage: Stage) -> None:
    known = stage.tcp.get("/api/events?kind=x-answer")["last_seq"]
    opened = tab()
    field = opened.page.get_by_label("Your answer")
    field.fill("offset 0")
    field.press("Enter")
    opened.page.get_by_role("button", name="Run to the stop").wait_for()
    opened.page.keyboard.press("Enter")
    opened.shows("SYNC ON · at this step")
    answers = stage.tcp.get(f"/api/events?kind=x-answer&after={known}")["events"]
    assert [(event["key"], event["data"]["text"]) for event in answers] == [(f"{FIRST}/initialised", "offset 0")]
