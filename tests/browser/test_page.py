"""What people do on the page, in real Chromium on a real session."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import FIRST, Tab
from tests.functional.serving import Stage, until
from tests.functional.session_neovim import Neovim

pytestmark = [pytest.mark.functional, pytest.mark.usefixtures("fresh_place")]

STOP = "bump/requests/three-requests/first"
SYNCED = "SYNC ON · at this step"


def generation(stage: Stage) -> int:
    found: int = stage.tcp.get("/api/checkpoint/status")["generation"]
    return found


def position(stage: Stage) -> Any:
    return stage.tcp.get("/api/navigation/current")["key"]


def viewer(stage: Stage) -> Any:
    return stage.tcp.get("/api/viewer/state")


def progress(stage: Stage, key: str = FIRST) -> dict[str, Any]:
    return next(item for item in stage.tcp.get("/api/progress")["items"] if item["key"] == key)


def test_enter_on_the_page_and_f2_in_the_editor_lead_to_the_same_stop(tab: Tab, stage: Stage) -> None:
    opened = tab()
    opened.keys("Enter")
    opened.shows(SYNCED)
    by_page = stage.tcp.get("/api/checkpoint/status")["last"]
    opened.keys("ArrowRight")
    opened.shows("elsewhere")
    opened.keys("ArrowLeft")
    opened.button("Keyboard F8").click()
    until(lambda: viewer(stage)["viewer"]["editor"]["control"])
    opened.keys("F2")
    until(lambda: stage.tcp.get("/api/checkpoint/status")["last"]["generation"] > by_page["generation"])
    by_editor = stage.tcp.get("/api/checkpoint/status")["last"]
    assert by_editor["state"] == "ready"
    for name in ("file", "line", "values"):
        assert by_editor["observed"][name] == by_page["observed"][name], name
    opened.shows(SYNCED)


def test_what_is_typed_goes_where_the_keyboard_is(tab: Tab, stage: Stage, scratch: Neovim) -> None:
    typed_into = scratch.call("nvim_get_current_buf")
    opened = tab().control(stage)
    page = opened.page
    page.keyboard.type("ia < b, ü 語")
    page.keyboard.insert_text("é")  # a text that an input method or a dead key composes
    opened.keys("Escape")
    until(lambda: "a < b, ü 語é" in opened.grid() and scratch.lines() == ["a < b, ü 語é"])
    field = page.get_by_label("Your answer")
    field.click()
    page.keyboard.type("some")
    page.keyboard.type(" words")
    assert field.input_value() == "some words", "the editor does not take the keyboard back"
    opened.keys("Enter")
    opened.button("Run to the stop").wait_for()
    opened.keys("F8")
    until(lambda: not viewer(stage)["viewer"]["editor"]["control"])
    page.keyboard.type("ggdG")
    opened.button("Sync").click()
    opened.shows(SYNCED)
    answers = stage.tcp.get("/api/events?kind=x-answer")["events"]
    assert [(event["key"], event["data"]["text"]) for event in answers] == [(f"{FIRST}/initialised", "some words")]
    # The sync may have shown the program's source in this window.
    assert scratch.call("nvim_buf_get_lines", typed_into, 0, -1, True) == ["a < b, ü 語é"]


def test_a_reload_comes_back_to_the_same_view(tab: Tab, stage: Stage) -> None:
    opened = tab()
    page = opened.page
    opened.keys("Alt+6")
    answer, note = page.get_by_label("Your answer"), page.get_by_label("Note on this step")
    answer.fill("half an answer")
    note.fill("half a note")
    opened.button("Next page").click()
    opened.button("Zoom in").click()
    page.locator("#scroller").evaluate("(element) => element.scrollTo(0, 300)")
    until(lambda: viewer(stage)["scroll"]["sheet_scroll_top"] > 0)
    shown = "scroller.scrollTop, zoom.textContent, memory.hidden, document.getElementById('page-number').textContent"
    place = f"(() => [{shown}])()"
    before = page.evaluate(place)
    page.reload()
    opened.ready()
    until(lambda: page.evaluate(place) == before)
    opened.button("Previous page").click()
    expect(answer).to_have_value("half an answer")
    expect(note).to_have_value("half a note")


def test_a_second_tab_follows_position_flags_and_page_but_not_the_scroll(tab: Tab, stage: Stage) -> None:
    first, second = tab(), tab()
    first.page.get_by_role("treeitem", name="Alignment").click()
    second.page.locator("#trail", has_text="Alignment").wait_for()
    first.page.locator("#scroller").evaluate("(element) => element.scrollTo(0, 400)")
    scrolled = first.page.evaluate("scroller.scrollTop")
    until(lambda: viewer(stage)["scroll"]["y"] == scrolled)
    first.keys("Alt+6")
    second.page.locator("#memory").wait_for()
    assert second.page.evaluate("scroller.scrollTop") != scrolled
    first.page.locator("#memory").wait_for()
    revision = viewer(stage)["revision"]
    second.keys("Alt+6")
    first.page.locator("#memory").wait_for(state="hidden")
    until(lambda: viewer(stage)["viewer"]["allocator"]["visible"] is False)
    assert viewer(stage)["revision"] == revision + 1, "the tabs do not react to each other's changes"


def test_the_page_does_nothing_below_the_list_of_keys(tab: Tab, stage: Stage) -> None:
    opened = tab()
    page = opened.page
    opened.keys("?")
    dialog = page.get_by_role("dialog", name="Keyboard")
    dialog.wait_for()
    before = stage.tcp.get("/api/navigation/current")["revision"]
    opened.keys("ArrowRight", "a", "Alt+6", "?")
    dialog.wait_for(state="hidden")
    assert stage.tcp.get("/api/navigation/current")["revision"] == before
    assert page.locator("#memory").is_hidden()
    assert progress(stage)["status"] == "pending"


def test_a_step_is_approved_with_its_note_but_not_on_a_page_turned_away(tab: Tab, stage: Stage) -> None:
    opened = tab()
    page = opened.page
    before = generation(stage)
    title = next(item["title"] for item in stage.tcp.get("/api/navigation/catalog")["items"] if item["key"] == FIRST)
    back = page.get_by_role("button", name=f"Back to 1.1.1.1 {title}")
    for key in ("Enter", "F2"):
        opened.button("Next page").click()
        page.locator("#away", has_text="You are looking at page 2.").wait_for()
        back.wait_for()
        assert opened.button("Sync").is_disabled()
        assert opened.button("Approve").is_hidden()
        page.locator("#scroller").focus()
        opened.keys("a", key)
        page.locator("#page-number", has_text="Page 1 ").wait_for()
        back.wait_for(state="hidden")
    assert generation(stage) == before
    assert progress(stage)["status"] == "pending"
    page.get_by_label("Note on this step").fill("The cursor moves by 8.")
    opened.button("Approve").click()
    page.locator("#tally", has_text="1 of").wait_for()
    item = progress(stage)
    assert (item["status"], item["note"], item["actor"]) == ("approved", "The cursor moves by 8.", "page")


def test_the_search_finds_titles_and_code_and_leads_there(tab: Tab, stage: Stage) -> None:
    opened = tab()
    page = opened.page
    opened.keys("/")
    page.keyboard.type("round_up")
    found = page.locator("#matches button.code").first
    found.wait_for()
    expect(found.locator(".excerpt mark").first).to_have_text("round_up")
    assert found.locator(".number").first.inner_text().strip() != ""
    opened.keys("Escape")
    page.locator("#matches").wait_for(state="hidden")
    assert page.evaluate("document.activeElement === document.body")
    opened.keys("/")
    page.keyboard.type("THREE  blocks")
    opened.keys("Enter")
    expect(page.locator("#matches [aria-current] mark").first).to_have_text("three blocks", ignore_case=True)
    until(lambda: position(stage) != FIRST)
    opened.keys("/")
    page.keyboard.type("The first bl")
    page.locator("#matches mark", has_text="The first bl").first.wait_for()
    assert page.get_by_label("Search titles and code").input_value() == "The first bl", "a search starts anew"
    opened.keys("ArrowDown", "Enter")
    until(lambda: position(stage) == STOP)
    page.get_by_label("Search titles and code").fill("no such text anywhere")
    page.get_by_text("Nothing in this card contains").wait_for()


def test_the_map_leads_to_its_places(tab: Tab, stage: Stage) -> None:
    opened = tab()
    page = opened.page
    page.get_by_role("tab", name="Map").click()
    diagram = page.locator("#map svg")
    diagram.wait_for()
    page.get_by_role("treeitem", name="Alignment").wait_for()
    page.locator("#away", has_text="You are looking at the map.").wait_for()
    assert opened.button("Sync").is_disabled()
    assert page.locator(".foot").is_hidden()
    opened.keys("Escape")
    diagram.wait_for(state="hidden")
    page.get_by_role("tab", name="Map").click()
    opened.button("This block").click()
    page.locator(f'#map [data-key="{FIRST}"]').wait_for()
    opened.button("Whole card").click()
    page.locator('#map a[href="#alignment/padding"]').click()
    diagram.wait_for(state="hidden")
    until(lambda: position(stage) == "alignment/padding")
    page.locator("#sheets .here").wait_for()


def test_an_address_shows_its_position_or_says_that_there_is_none(tab: Tab, stage: Stage) -> None:
    opened = tab("#/no/such/place")
    page = opened.page
    for address in ("#/no/such/place", "#/100%", "#/%E0%A4%A", "#<img src=x onerror=alert(1)>"):
        page.evaluate("(address) => { location.hash = address; }", address)
        page.locator("#result", has_text="Not found. This card has no position").wait_for()
        assert position(stage) == FIRST, address
        opened.button("Dismiss").click()
        page.locator("#result").wait_for(state="hidden")
    opened.go_to(STOP)
    opened.go_to("alignment/padding")
    page.go_back()
    page.locator("#trail", has_text="The first").wait_for()
    until(lambda: position(stage) == STOP)


def test_enter_pressed_again_and_again_is_one_sync(tab: Tab, stage: Stage) -> None:
    opened = tab()
    before = generation(stage)
    for _ in range(3):
        opened.page.keyboard.down("Enter")  # the second and third one are repeats of a held key
    opened.page.keyboard.up("Enter")
    opened.keys("Enter")
    until(lambda: generation(stage) > before)  # an earlier test may have left the program at this step
    opened.shows(SYNCED)
    assert generation(stage) <= before + 2
    assert opened.page.locator("#result").is_hidden()
