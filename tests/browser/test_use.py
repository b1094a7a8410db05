"""Unusual uses of the page: odd addresses, keys pressed twice, fields and windows of every size."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.browser.conftest import FIRST, OpenPage, becomes
from tests.functional.serving import Stage, until
from tests.functional.session_neovim import Neovim

pytestmark = [pytest.mark.functional, pytest.mark.full, pytest.mark.usefixtures("fresh_place")]

Tab = Callable[..., OpenPage]


@pytest.mark.parametrize("address", ["#/no/such/place", "#/100%", "#/%E0%A4%A", "#<img src=x onerror=alert(1)>"])
def test_an_address_without_a_position_says_so_and_leaves_the_place(tab: Tab, stage: Stage, address: str) -> None:
    opened = tab(address)
    opened.page.locator("#result", has_text="Not found. This card has no position").wait_for()
    assert stage.tcp.get("/api/navigation/current")["key"] == FIRST
    opened.page.get_by_role("button", name="Dismiss").click()
    opened.page.locator("#result").wait_for(state="hidden")


def test_an_address_shows_its_position_and_the_browser_goes_back_and_forward(tab: Tab, stage: Stage) -> None:
    opened = tab("#/bump/requests/three-requests/first")
    in_view = """() => {
      const box = sheets.shadowRoot.querySelector('.here').getBoundingClientRect();
      const view = scroller.getBoundingClientRect();
      return box.top >= view.top && box.top < view.bottom;
    }"""
    becomes(opened.page, in_view)
    opened.page.evaluate("location.hash = '#/alignment/padding'")
    opened.page.locator("#trail", has_text="Padding").wait_for()
    opened.page.go_back()
    opened.page.locator("#trail", has_text="The first").wait_for()
    until(lambda: stage.tcp.get("/api/navigation/current")["key"] == "bump/requests/three-requests/first")
    opened.page.goto("about:blank")
    opened.page.go_back()
    opened.ready()
    opened.page.locator("#trail", has_text="The first").wait_for()


def test_enter_pressed_again_and_again_is_one_sync(tab: Tab, stage: Stage) -> None:
    opened = tab()
    before = stage.tcp.get("/api/checkpoint/status")["generation"]
    for _ in range(3):
        opened.page.keyboard.down("Enter")  # the second and third one are repeats of a held key
    opened.page.keyboard.up("Enter")
    opened.page.keyboard.press("Enter")
    opened.shows("SYNC ON · at this step")
    assert stage.tcp.get("/api/checkpoint/status")["generation"] <= before + 2
    assert opened.page.locator("#result").is_hidden()


def test_the_page_does_nothing_below_the_keyboard_table(tab: Tab, stage: Stage) -> None:
    opened = tab()
    opened.page.keyboard.press("?")
    opened.page.get_by_role("dialog", name="Keyboard").wait_for()
    before = stage.tcp.get("/api/navigation/current")["revision"]
    for key in ("ArrowRight", "a", "Alt+6"):
        opened.page.keyboard.press(key)
    opened.page.keyboard.press("?")
    opened.page.get_by_role("dialog", name="Keyboard").wait_for(state="hidden")
    assert stage.tcp.get("/api/navigation/current")["revision"] == before
    assert opened.page.locator("#memory").is_hidden()
    assert all(item["status"] == "pending" for item in stage.tcp.get("/api/progress")["items"] if item["key"] == FIRST)


def test_typing_an_answer_is_not_taken_away_by_the_editor(tab: Tab, stage: Stage, scratch: Neovim) -> None:
    opened = tab()
    opened.control(stage)
    field = opened.page.get_by_label("Your answer")
    field.click()
    opened.page.keyboard.type("some")
    assert stage.tcp.put("/api/viewer/state", {"viewer": {"allocator": {"visible": True}}}).status == 200
    opened.page.locator("#memory").wait_for()
    opened.page.locator("#scroller").evaluate("(element) => element.scrollTo(0, 40)")
    opened.page.keyboard.type(" words")
    assert field.input_value() == "some words"
    assert scratch.lines() == [""]


def test_escape_clears_the_search(tab: Tab) -> None:
    page = tab().page
    page.keyboard.press("/")
    page.keyboard.type("arena")
    page.locator("#matches button").first.wait_for()
    page.keyboard.press("Escape")
    page.locator("#matches").wait_for(state="hidden")
    assert page.evaluate("document.activeElement === document.body")


def test_everything_can_be_reached_at_any_window_size(tab: Tab) -> None:
    opened = tab()
    for width, height in ((1920, 1080), (1000, 700), (800, 600), (1280, 720)):
        opened.page.set_viewport_size({"width": width, "height": height})
        until(lambda: opened.page.evaluate("document.documentElement.scrollWidth <= innerWidth"))
        opened.page.get_by_role("button", name="Sync", exact=True).click(trial=True)
        area, canvas = (opened.page.locator(f"#editor {name}").bounding_box() for name in (".canvas-area", "canvas"))
        assert area
        assert canvas
        assert canvas["width"] <= area["width"] + 1
        assert canvas["height"] <= area["height"] + 1


def test_a_narrow_window_scrolls_to_everything(tab: Tab) -> None:
    page = tab().page
    page.set_viewport_size({"width": 480, "height": 720})
    becomes(page, "document.documentElement.scrollWidth <= innerWidth")
    for name in ("Sync", "Approve", "Keyboard F8", "Keyboard shortcuts"):
        page.get_by_role("button", name=name, exact=True).click(trial=True)
    page.get_by_role("button", name="Fold the outline").click()
    page.get_by_role("link", name="Lesson", exact=True).click(trial=True)


def test_a_panel_that_is_expanded_has_the_whole_window(tab: Tab) -> None:
    page = tab().page
    for width in (1280, 900, 480):
        page.set_viewport_size({"width": width, "height": 720})
        for button, panel, other in (("Wide worksheet", ".reading", "#side"), ("Wide editor", "#side", ".reading")):
            page.get_by_role("button", name=button).click()
            becomes(page, "(panel) => document.querySelector(panel).offsetWidth >= innerWidth - 20", panel)
            becomes(page, "(panel) => document.querySelector(panel).offsetHeight >= 0.3 * columns.offsetHeight", panel)
            page.locator(other).wait_for(state="hidden")
            page.get_by_role("button", name=button).click()


def test_an_answer_and_a_note_that_were_not_sent_outlast_turning_the_page_and_a_reload(tab: Tab) -> None:
    opened = tab()
    answer, note = opened.page.get_by_label("Your answer"), opened.page.get_by_label("Note on this step")
    answer.fill("half an answer")
    note.fill("half a note")
    opened.page.get_by_role("button", name="Next page", exact=True).click()
    opened.page.locator("#page-number", has_text="Page 2").wait_for()
    opened.page.get_by_role("button", name="Previous page", exact=True).click()
    until(lambda: answer.input_value() == "half an answer")
    opened.page.reload()
    opened.ready()
    until(lambda: answer.input_value() == "half an answer")
    assert note.input_value() == "half a note"


def test_a_slow_service_does_not_turn_a_newer_change_back(tab: Tab, stage: Stage) -> None:
    opened = tab()
    opened.page.evaluate(
        """() => {
          window.seen = [];
          new MutationObserver(() => window.seen.push(!memory.hidden)).observe(memory, { attributeFilter: ['hidden'] });
          const send = window.fetch;
          let wait = 600; // ms; the first change arrives last, unless the second one waits for it
          window.fetch = async (path, init) => {
            if (init?.method === 'PUT') {
              wait -= 300;
              await new Promise((resolve) => { setTimeout(resolve, wait + 300); });
            }
            return send(path, init);
          };
        }"""
    )
    opened.page.keyboard.press("Alt+6")
    opened.page.locator("#memory").wait_for()
    opened.page.keyboard.press("Alt+6")
    opened.page.locator("#memory").wait_for(state="hidden")
    before = stage.tcp.get("/api/viewer/state")["revision"]
    until(lambda: stage.tcp.get("/api/viewer/state")["revision"] >= before + 2)
    assert stage.tcp.get("/api/viewer/state")["viewer"]["allocator"]["visible"] is False
    assert opened.page.evaluate("window.seen.filter((value, at, all) => value !== all[at - 1])") == [True, False]
