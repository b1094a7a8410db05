"""What somebody does who plays with the page: odd addresses, keys pressed twice, fields and windows of every size."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.browser.conftest import FIRST, OpenPage, becomes
from tests.functional.serving import Stage, until
from tests.functional.session_neovim import Neovim

pytestmark = [pytest.mark.functional, pytest.mark.usefixtures("fresh_place")]

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
    opened.page.locator("#trail", has_text="Alignment").wait_for()
    opened.page.go_back()
    opened.page.locator("#trail", has_text="The first").wait_for()
    assert until(lambda: stage.tcp.get("/api/navigation/current")["key"]) == "bump/requests/three-requests/first"
    opened.page.goto("about:blank")
    opened.page.go_back()
    opened.ready()
    opened.page.locator("#trail", has_text="The first").wait_for()


def test_enter_pressed_again_and_again_is_one_sync(tab: Tab, stage: Stage) -> None:
    opened = tab()
    before = stage.tcp.get("/api/checkpoint/status")["generation"]
    for _ in range(3):
        opened.page.keyboard.down("Enter")  # the second and third one as a key that is held down
    opened.page.keyboard.up("Enter")
    opened.page.keyboard.press("Enter")
    opened.shows("SYNC ON · at this step")
    assert stage.tcp.get("/api/checkpoint/status")["generation"] <= before + 2
    assert opened.page.locator("#result.bad").count() == 0


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
    field = opened.page.get_by_label("Your answer").first
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


def test_any_size_of_the_window_keeps_everything_within_reach(tab: Tab) -> None:
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
