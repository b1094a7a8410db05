"""The editor's panel: keys, composed characters, mouse and clipboard arrive in Neovim unchanged, and the picture fills
the panel. If a terminal is attached to the session, the picture has the terminal's size."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import CDPSession

from tests.browser.conftest import OpenPage, Tab
from tests.functional.attached_terminal import AttachedTerminal
from tests.functional.serving import Stage, until
from tests.functional.session_neovim import Neovim

pytestmark = [pytest.mark.functional, pytest.mark.usefixtures("fresh_place")]

READ_KEYS = "_G.got = {} for number = 1, %d do got[number] = vim.fn.getcharstr() end"
COMPARE_KEYS = """
local wrong = {}
for number, keys in ipairs(...) do
  local expected = vim.api.nvim_replace_termcodes(keys, true, true, true)
  if got[number] ~= expected then wrong[#wrong + 1] = keys .. ": " .. vim.inspect(got[number]) end
end
return wrong
"""
DISPATCH = """(init) => document.activeElement.dispatchEvent(
  new KeyboardEvent('keydown', { bubbles: true, cancelable: true, ...init }))"""
PASTE = """(text) => {
  const data = new DataTransfer();
  data.setData('text/plain', text);
  const init = { clipboardData: data, bubbles: true, cancelable: true };
  document.activeElement.dispatchEvent(new ClipboardEvent('paste', init));
}"""
KEYS = {
    "Control+a": "<C-a>", "Control+w": "<C-w>", "Control+Space": "<C-Space>", "Control+ArrowLeft": "<C-Left>",
    "Control+Shift+End": "<C-S-End>", "Alt+x": "<M-x>", "Alt+Enter": "<M-CR>", "Control+Alt+Delete": "<C-M-Del>",
    "F1": "<F1>", "F12": "<F12>", "Shift+F3": "<S-F3>", "<": "<lt>", "\\": "<Bslash>", "|": "<Bar>", "Tab": "<Tab>",
    "Shift+Tab": "<S-Tab>", "Escape": "<Esc>", "Backspace": "<BS>", "Delete": "<Del>", "Shift+A": "A",
    "PageUp": "<PageUp>", "Home": "<Home>", "Enter": "<CR>", "Space": " ", "%": "%", "ä": "ä", "Insert": "<Insert>",
}  # fmt: skip
"""Keys by the name in the browser's driver and by Neovim's name. One of them does not exist on a US keyboard."""
BOXES = """() => ['.canvas-area', 'canvas'].map((name) => {
  const { x, y, width, height } = document.querySelector(`#editor ${name}`).getBoundingClientRect();
  return { x, y, width, height };
})"""
CELL = {"width": 9, "height": 19}
"""At least the size of a cell in pixels, with the default font size of a new page."""


# -- what is typed -----------------------------------------------------------------------------------------------------


class Writer:
    """A page with an input method. Its editor has the keyboard and shows an empty buffer."""

    def __init__(self, opened: OpenPage, neovim: Neovim) -> None:
        self.opened = opened
        self.page = opened.page
        self.neovim = neovim
        self._input: CDPSession = opened.page.context.new_cdp_session(opened.page)

    def insert(self) -> Writer:
        """Insert mode in an empty buffer."""
        self.opened.keys("Escape")
        until(lambda: self.mode() == "n")
        self.neovim.call("nvim_buf_set_lines", 0, 0, -1, False, [])
        self.opened.keys("i")
        until(lambda: self.mode() == "i")
        return self

    def mode(self) -> Any:
        return self.neovim.call("nvim_get_mode")["mode"]

    def key(self, key: str, code: str, number: int = 229) -> None:
        """Press a key that the input method handles. The browser reports such a key to the page with the code 229."""
        for kind in ("rawKeyDown", "keyUp"):
            self._input.send(
                "Input.dispatchKeyEvent",
                {"type": kind, "key": key, "code": code, "windowsVirtualKeyCode": number},
            )

    def compose(self, text: str) -> None:
        given = {"text": text, "selectionStart": len(text), "selectionEnd": len(text)}
        self._input.send("Input.imeSetComposition", given)

    def commit(self, text: str) -> None:
        self._input.send("Input.insertText", {"text": text})

    def holds(self, *lines: str) -> None:
        until(lambda: self.neovim.lines() == list(lines), 30)


@pytest.fixture
def writer(tab: Tab, stage: Stage, scratch: Neovim) -> Writer:
    return Writer(tab().control(stage), scratch)


def test_an_input_method_types_what_it_commits_once(writer: Writer) -> None:
    writer.insert()
    for key, text in (("n", "n"), ("i", "に"), ("h", "にh"), ("o", "にほ"), ("n", "にほん")):
        writer.key("Process", f"Key{key.upper()}")
        writer.compose(text)
    writer.commit("日本")
    writer.holds("日本")
    writer.page.keyboard.type(" <x>")
    writer.compose("ご")
    writer.commit("語")
    writer.opened.keys("Enter")
    writer.holds("日本 <x>語", "")

    writer.insert()
    writer.key("Dead", "Equal")
    writer.compose("´")
    writer.key("Process", "KeyE")
    writer.commit("é")
    writer.key("Dead", "Equal", number=187)  # without an input method, the next key event has the composed character
    writer.page.evaluate(DISPATCH, {"key": "ô", "code": "KeyO"})
    writer.opened.keys("x")
    writer.holds("éôx")

    writer.insert()
    writer.compose("にほ")
    writer.key("Process", "Escape")
    writer.compose("")
    writer.page.keyboard.type("a")
    writer.holds("a")
    assert writer.mode() == "i", "the Escape was the input method's"


def test_each_key_arrives_in_neovims_notation(writer: Writer) -> None:
    german = ({"code": "KeyQ", "key": "@"}, {"code": "Digit7", "key": "{"}, {"code": "Minus", "key": "\\"})
    typed = [*KEYS.values(), *("@", "{", "<Bslash>"), *("@", "{", "<Bslash>")]
    writer.neovim.call("nvim_input", f":lua {READ_KEYS % len(typed)}<CR>")
    for key in KEYS:
        if key == "ä":
            writer.commit(key)
        else:
            writer.page.keyboard.press(key)
    for extra in ({}, {"ctrlKey": True, "altKey": True}):  # AltGr as on Linux, and as on Windows
        for init in german:
            writer.page.evaluate(DISPATCH, {**init, **extra, "modifierAltGraph": True})
    until(lambda: writer.neovim.lua("return #got") == len(typed), 30)
    assert writer.neovim.lua(COMPARE_KEYS, typed) == []


def test_pasted_text_arrives_literally_unless_it_is_too_large(writer: Writer) -> None:
    long = "\n".join(f"{number:4} {'x' * 45}" for number in range(4000))
    for text in ("one\ntwo <CR> \\ \t|x\n\nlast é 語", long):
        writer.insert().page.evaluate(PASTE, text)
        writer.holds(*text.split("\n"))
        writer.page.keyboard.press("Z")
        writer.holds(*f"{text}Z".split("\n"))
    writer.insert().page.evaluate(PASTE, "x" * 1_000_001)
    writer.page.get_by_text("too long to paste").wait_for()
    writer.page.keyboard.press("a")
    writer.holds("a")


# -- mouse and clipboard -----------------------------------------------------------------------------------------------


def character(writer: Writer, line: int, column: int) -> tuple[float, float]:
    """The middle of a character of the current buffer, on the page."""
    at = writer.neovim.call("nvim_call_function", "screenpos", [0, line, column + 1])
    cols, rows = (int(part) for part in size(writer.opened).split(" × "))
    box: Any = writer.page.locator("#editor canvas").bounding_box()
    return box["x"] + (at["col"] - 0.5) * box["width"] / cols, box["y"] + (at["row"] - 0.5) * box["height"] / rows


def test_mouse_and_wheel_reach_neovim(writer: Writer) -> None:
    neovim = writer.neovim
    neovim.call("nvim_buf_set_lines", 0, 0, -1, False, [f"line {number} of the buffer" for number in range(1, 400)])
    before = neovim.call("nvim_get_option", "mouse")
    neovim.call("nvim_set_option", "mouse", "a")
    try:
        until(lambda: "line 3 of the buffer" in writer.opened.grid())
        at = character(writer, 3, 5)
        writer.page.mouse.click(*at)
        until(lambda: neovim.call("nvim_win_get_cursor", 0) == [3, 5])
        assert writer.page.evaluate("document.activeElement.localName") == "textarea"
        writer.page.mouse.move(*at)
        writer.page.mouse.wheel(0, 240)
        until(lambda: neovim.lua("return vim.fn.line('w0')") > 1)
        writer.page.mouse.wheel(0, -2400)
        until(lambda: neovim.lua("return vim.fn.line('w0')") == 1)
    finally:
        neovim.call("nvim_set_option", "mouse", before)


def test_a_selection_of_the_picture_is_copied(tab: Tab, stage: Stage, scratch: Neovim) -> None:
    scratch.call("nvim_command", "setlocal nonumber norelativenumber signcolumn=no")
    scratch.call("nvim_buf_set_lines", 0, 0, -1, False, ["first line here", "second line here"])
    opened = tab()
    page = opened.page
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    until(lambda: "second line here" in opened.grid())
    writer = Writer(opened, scratch)

    def copied() -> bool:
        first, *rest = page.evaluate("navigator.clipboard.readText()").split("\n")
        return first.startswith("line here") and rest == ["second"]  # the first row continues to the screen's edge

    opened.control(stage)
    page.keyboard.down("Shift")
    page.mouse.move(*character(writer, 1, 6))
    page.mouse.down()
    page.mouse.move(*character(writer, 2, 5), steps=4)
    page.mouse.up()
    page.keyboard.up("Shift")
    opened.keys("Control+Shift+C")
    until(copied)


# -- the size of the picture -------------------------------------------------------------------------------------------


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


def resize(opened: OpenPage, width: int, height: int) -> None:
    opened.page.set_viewport_size({"width": width, "height": height})


@pytest.fixture
def filled(tab: Tab, stage: Stage) -> OpenPage:
    """A page that was opened while the editor had another size."""
    assert stage.tcp.post("/api/editor/redraw", {"cols": 150, "rows": 42}).status == 200
    opened: OpenPage = tab()
    opened.page.locator("#editor canvas").wait_for(state="visible")
    assert fills(opened), "the first picture that is seen"
    assert size(opened) != "150 × 42"
    return opened


def test_the_picture_fills_the_panel_at_each_size(filled: OpenPage, stage: Stage) -> None:
    opened = filled
    before = size(opened)
    last = stage.tcp.get("/api/events?limit=1000")["last_seq"]
    opened.keys("Alt+6")
    until(lambda: fills(opened) and size(opened) != before)
    opened.keys("Alt+6")
    until(lambda: fills(opened) and size(opened) == before)
    assert not stage.tcp.get(f"/api/events?after={last}&kind=editor.redraw")["events"]
    for width, height in ((1920, 1080), (1280, 720)):
        resize(opened, width, height)
        until(lambda: fills(opened) and (size(opened) == before) == (width == 1280))  # noqa: B023
    assert stage.tcp.put("/api/viewer/state", {"viewer": {"editor": {"fit": False}}}).status == 200
    opened.page.locator("#editor .canvas-area:not(.fit)").wait_for()
    resize(opened, 1600, 900)
    until(lambda: not fills(opened))
    assert size(opened) == before
    assert stage.tcp.put("/api/viewer/state", {"viewer": {"editor": {"fit": True}}}).status == 200
    until(lambda: fills(opened) and size(opened) != before)


def test_with_a_terminal_the_picture_is_centred_on_its_own_ground_and_says_why(filled: OpenPage, stage: Stage) -> None:
    opened = filled
    page = opened.page
    words = page.locator("#editor .follows")
    assert not words.is_visible()
    with AttachedTerminal(stage.sessions, 200, 50) as terminal:
        words.filter(has_text="follows the terminal, 200×50").wait_for()
        until(lambda: is_centred(opened) and size(opened) == "200 × 50")
        terminal.resize(60, 20)
        words.filter(has_text="follows the terminal, 60×20").wait_for()
        until(lambda: is_centred(opened) and size(opened) == "60 × 20")
        terminal.resize(61, 20)
        until(lambda: size(opened) != "60 × 20")
        assert size(opened) == "61 × 20", "the page does not resize a learner's terminal"
        page.locator("#editor").get_by_role("button", name=re.compile("^Fit")).first.click()
        until(lambda: fills(opened))
        assert not words.is_visible()
    until(lambda: fills(opened))
    assert not words.is_visible()
