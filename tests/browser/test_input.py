"""Keys, composed characters, mouse and clipboard: input in the panel arrives in Neovim unchanged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import CDPSession

from tests.browser.conftest import OpenPage
from tests.functional.serving import Stage, until
from tests.functional.session_neovim import Neovim

pytestmark = [pytest.mark.functional, pytest.mark.usefixtures("fresh_place")]

Tab = Callable[..., OpenPage]
PREEDIT = """() => {
  const { color, width, left } = getComputedStyle(document.activeElement);
  return { value: document.activeElement.value, color, width: parseFloat(width), left: parseFloat(left) };
}"""
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


class Writer:
    """A page with an input method. Its editor has the keyboard and is in insert mode in an empty buffer."""

    def __init__(self, opened: OpenPage, neovim: Neovim) -> None:
        self.opened = opened
        self.page = opened.page
        self.neovim = neovim
        self._input: CDPSession = opened.page.context.new_cdp_session(opened.page)

    def insert(self) -> Writer:
        self.page.keyboard.press("i")
        until(lambda: self.neovim.call("nvim_get_mode")["mode"] == "i")
        return self

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
        until(lambda: self.neovim.lines() == list(lines))


@pytest.fixture
def writer(tab: Tab, stage: Stage, scratch: Neovim) -> Writer:
    return Writer(tab().control(stage), scratch)


@pytest.mark.full
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
    writer.page.keyboard.press("Enter")
    writer.holds("日本 <x>語", "")


@pytest.mark.full
def test_a_dead_key_types_the_composed_character_alone(writer: Writer) -> None:
    writer.insert()
    writer.key("Dead", "Equal")
    writer.compose("´")
    writer.key("Process", "KeyE")
    writer.commit("é")
    writer.key("Dead", "Equal", number=187)  # without an input method, the next key event has the composed character
    writer.page.evaluate(DISPATCH, {"key": "ô", "code": "KeyO"})
    writer.page.keyboard.press("x")
    writer.holds("éôx")


@pytest.mark.full
def test_a_cancelled_composition_leaves_nothing(writer: Writer) -> None:
    writer.insert()
    writer.compose("にほ")
    writer.key("Process", "Escape")
    writer.compose("")
    writer.page.keyboard.type("a")
    writer.holds("a")
    assert writer.neovim.call("nvim_get_mode")["mode"] == "i", "the Escape was the input method's"
    assert writer.page.evaluate(PREEDIT)["value"] == ""


@pytest.mark.full
def test_the_text_being_composed_is_seen_at_the_cursor(writer: Writer) -> None:
    writer.insert()
    writer.page.keyboard.type("abcd")
    writer.holds("abcd")
    until(lambda: "abcd" in writer.opened.grid())  # drawn, so the input field is at the cursor
    hidden = writer.page.evaluate(PREEDIT)
    writer.compose("にほん")
    seen = writer.page.evaluate(PREEDIT)
    assert (seen["value"], seen["left"]) == ("にほん", hidden["left"])
    assert seen["width"] > 3 * hidden["width"]
    assert seen["color"] != hidden["color"] == "rgba(0, 0, 0, 0)"
    writer.commit("日本")
    writer.holds("abcd日本")
    assert writer.page.evaluate(PREEDIT)["color"] == hidden["color"]


KEYS = {
    "Control+a": "<C-a>", "Control+w": "<C-w>", "Control+Space": "<C-Space>", "Control+ArrowLeft": "<C-Left>",
    "Control+Shift+End": "<C-S-End>", "Alt+x": "<M-x>", "Alt+Enter": "<M-CR>", "Control+Alt+Delete": "<C-M-Del>",
    "F1": "<F1>", "F12": "<F12>", "Shift+F3": "<S-F3>", "<": "<lt>", "\\": "<Bslash>", "|": "<Bar>", "Tab": "<Tab>",
    "Shift+Tab": "<S-Tab>", "Escape": "<Esc>", "Backspace": "<BS>", "Delete": "<Del>", "Shift+A": "A",
    "PageUp": "<PageUp>",
    "Home": "<Home>", "Enter": "<CR>", "Space": " ", "%": "%", "ä": "ä", "Insert": "<Insert>",
}  # fmt: skip
"""Keys by the name in the browser's driver and by Neovim's name. One of them does not exist on a US keyboard."""


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
    until(lambda: writer.neovim.lua("return #got") == len(typed))
    assert writer.neovim.lua(COMPARE_KEYS, typed) == []


@pytest.mark.parametrize(
    "text", ["one\ntwo <CR> \\ \t|x\n\nlast é 語", "\n".join(f"{number:4} {'x' * 45}" for number in range(4000))]
)
def test_pasted_text_arrives_literally(writer: Writer, text: str) -> None:
    writer.insert()
    writer.page.evaluate(PASTE, text)
    writer.holds(*text.split("\n"))
    writer.page.keyboard.press("Z")
    writer.holds(*f"{text}Z".split("\n"))


@pytest.mark.full
def test_a_text_that_is_too_large_to_paste_is_refused_in_words(writer: Writer) -> None:
    writer.insert()
    writer.page.evaluate(PASTE, "x" * 1_000_001)
    writer.page.get_by_text("too long to paste").wait_for()
    writer.page.keyboard.press("a")
    writer.holds("a")


def test_mouse_and_wheel_reach_neovim(writer: Writer) -> None:
    neovim = writer.neovim
    neovim.call("nvim_buf_set_lines", 0, 0, -1, False, [f"line {number} of the buffer" for number in range(1, 400)])
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
        neovim.call("nvim_set_option", "mouse", "")


@pytest.mark.full
def test_a_selection_of_the_picture_is_copied(tab: Tab, stage: Stage, scratch: Neovim) -> None:
    scratch.call("nvim_command", "setlocal nonumber norelativenumber signcolumn=no")
    scratch.call("nvim_buf_set_lines", 0, 0, -1, False, ["first line here", "second line here"])
    opened = tab()
    opened.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    until(lambda: "second line here" in opened.grid())
    writer = Writer(opened, scratch)

    def drag() -> None:
        opened.page.mouse.move(*character(writer, 1, 6))
        opened.page.mouse.down()
        opened.page.mouse.move(*character(writer, 2, 5), steps=4)
        opened.page.mouse.up()

    drag()
    opened.page.keyboard.press("Control+c")
    read = "navigator.clipboard.readText()"

    def copied() -> bool:
        first, *rest = opened.page.evaluate(read).split("\n")
        return first.startswith("line here") and rest == ["second"]  # the first row continues to the screen's edge

    until(copied)
    opened.control(stage)
    opened.page.evaluate("navigator.clipboard.writeText('')")
    opened.page.keyboard.down("Shift")
    drag()
    opened.page.keyboard.up("Shift")
    opened.page.keyboard.press("Control+Shift+C")
    until(copied)
    # If a text elsewhere is selected later, that text is copied.
    opened.page.get_by_label("Search titles and code").fill("sought")
    opened.page.get_by_label("Search titles and code").click()
    opened.page.keyboard.press("Control+a")
    opened.page.keyboard.press("Control+c")
    until(lambda: opened.page.evaluate(read) == "sought")


def character(writer: Writer, line: int, column: int) -> tuple[float, float]:
    """The middle of a character of the current buffer, on the page."""
    at = writer.neovim.call("nvim_call_function", "screenpos", [0, line, column + 1])
    cols, rows = (int(part) for part in writer.page.locator("#editor .panel-head .quiet").inner_text().split(" × "))
    box: Any = writer.page.locator("#editor canvas").bounding_box()
    return box["x"] + (at["col"] - 0.5) * box["width"] / cols, box["y"] + (at["row"] - 0.5) * box["height"] / rows
