"""The editor's picture fills its panel. If a terminal is attached to the session, the picture has the terminal's
size."""

from __future__ import annotations

import os
import re
import signal
from typing import Any

import pytest

from tests.browser.conftest import OpenPage, Stage, becomes
from tests.functional.attached_terminal import AttachedTerminal
from tests.functional.serving import until

pytestmark = [pytest.mark.functional, pytest.mark.usefixtures("fresh_place")]

Tab = Any

BOXES = """() => ['.canvas-area', 'canvas'].map((name) => {
  const { x, y, width, height } = document.querySelector(`#editor ${name}`).getBoundingClientRect();
  return { x, y, width, height };
})"""
CELL = {"width": 9, "height": 19}
"""At least the size of a cell in pixels, with the default font size of a new page."""


def gaps(opened: OpenPage) -> dict[str, list[float]]:
    """The unused pixels of the panel left and right of the picture, and above and below the picture."""
    area, picture = opened.page.evaluate(BOXES)
    return {
        size: [picture[place] - area[place], area[place] + area[size] - picture[place] - picture[size]]
        for place, size in (("x", "width"), ("y", "height"))
    }


def fills(opened: OpenPage) -> bool:
    """Whether the panel has no room for a further row or column. The picture must not be scaled down."""
    is_scaled = opened.page.locator("#editor .scaled").text_content() != ""
    found = gaps(opened)
    return not is_scaled and all(0 <= sum(found[size]) < CELL[size] and min(found[size]) >= 0 for size in found)


def is_centred(opened: OpenPage) -> bool:
    found = gaps(opened)
    return all(gap >= 0 for pair in found.values() for gap in pair) and abs(found["width"][0] - found["width"][1]) <= 2


def size(opened: OpenPage) -> str:
    return opened.page.locator("#editor .panel-head .quiet").text_content() or ""


def test_the_first_picture_that_is_seen_fills_the_panel(tab: Tab, stage: Stage) -> None:
    assert stage.tcp.post("/api/editor/redraw", {"cols": 150, "rows": 42}).status == 200
    opened = tab()
    opened.page.locator("#editor canvas").wait_for(state="visible")
    assert fills(opened)
    assert size(opened) != "150 × 42"
    opened.page.set_viewport_size({"width": 1920, "height": 1080})
    until(lambda: fills(opened))
    opened.page.set_viewport_size({"width": 1280, "height": 720})
    until(lambda: fills(opened))


def test_the_grid_changes_once_when_memory_opens_and_closes(tab: Tab, stage: Stage) -> None:
    opened = tab()
    until(lambda: fills(opened))
    before = size(opened)
    last = stage.tcp.get("/api/events?limit=1000")["last_seq"]
    opened.page.keyboard.press("Alt+6")
    opened.page.locator("#memory").wait_for()
    until(lambda: fills(opened) and size(opened) != before)
    opened.page.keyboard.press("Alt+6")
    until(lambda: fills(opened) and size(opened) == before)
    assert not stage.tcp.get(f"/api/events?after={last}&kind=editor.redraw")["events"]


@pytest.mark.full
def test_the_picture_fills_the_panel_after_a_restart_of_neovim(tab: Tab, stage: Stage) -> None:
    opened = tab()
    until(lambda: fills(opened))
    before = size(opened)
    os.kill(stage.sessions.session().pid("nvim"), signal.SIGKILL)
    opened.page.locator("#editor .canvas-area.detached").wait_for()
    assert stage.tcp.post("/api/editor/reset").status == 200
    opened.page.locator("#editor .canvas-area:not(.detached)").wait_for()
    until(lambda: fills(opened))
    assert size(opened) == before


@pytest.mark.full
def test_with_a_terminal_the_picture_is_centred_on_its_own_ground_and_says_why(tab: Tab, stage: Stage) -> None:
    opened = tab()
    until(lambda: fills(opened))
    words = opened.page.locator("#editor .follows")
    assert not words.is_visible()
    with AttachedTerminal(stage.sessions, 200, 50) as terminal:
        words.filter(has_text="follows the terminal, 200×50").wait_for()
        until(lambda: is_centred(opened) and size(opened) == "200 × 50")
        ground, corner = opened.page.evaluate(
            """() => {
              const canvas = document.querySelector('#editor canvas');
              const [red, green, blue] = canvas.getContext('2d').getImageData(0, canvas.height - 1, 1, 1).data;
              const area = document.querySelector('#editor .canvas-area');
              return [getComputedStyle(area).backgroundColor, `rgb(${red}, ${green}, ${blue})`];
            }"""
        )
        assert ground == corner
        terminal.resize(60, 20)
        words.filter(has_text="follows the terminal, 60×20").wait_for()
        until(lambda: is_centred(opened) and size(opened) == "60 × 20")
        opened.page.set_viewport_size({"width": 1400, "height": 800})  # the page does not resize a learner's terminal
        opened.page.wait_for_timeout(600)
        assert size(opened) == "60 × 20"
        opened.page.locator("#editor").get_by_role("button", name=re.compile("^Fit")).first.click()
        until(lambda: fills(opened))
        assert not words.is_visible()
        terminal.resize(61, 21)
        words.filter(has_text="follows the terminal, 61×21").wait_for()
    until(lambda: fills(opened))
    assert not words.is_visible()


@pytest.mark.full
def test_a_click_in_a_centred_picture_hits_its_cell(tab: Tab, stage: Stage, neovim: Any) -> None:
    opened = tab().control(stage)
    with AttachedTerminal(stage.sessions, 60, 20):
        until(lambda: is_centred(opened) and size(opened) == "60 × 20")
        code = neovim.lua("return require('card.windows').code_window()")
        neovim.lua("vim.api.nvim_win_set_cursor(..., { 1, 0 })", code)
        _, picture = opened.page.evaluate(BOXES)
        opened.page.mouse.click(
            picture["x"] + picture["width"] / 60 * 10.5, picture["y"] + picture["height"] / 20 * 4.5
        )
        until(lambda: neovim.call("nvim_win_get_cursor", code)[0] == 5)
    opened.page.keyboard.press("F8")
    becomes(opened.page, "!document.querySelector('#editor.control')")


@pytest.mark.full
def test_without_fit_the_grid_keeps_its_size(tab: Tab, stage: Stage) -> None:
    opened = tab()
    until(lambda: fills(opened))
    before = size(opened)
    assert stage.tcp.put("/api/viewer/state", {"viewer": {"editor": {"fit": False}}}).status == 200
    opened.page.locator("#editor .canvas-area:not(.fit)").wait_for()
    opened.page.set_viewport_size({"width": 1600, "height": 900})
    opened.page.wait_for_timeout(600)
    assert size(opened) == before
    assert stage.tcp.put("/api/viewer/state", {"viewer": {"editor": {"fit": True}}}).status == 200
    until(lambda: fills(opened))
