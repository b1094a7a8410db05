"""The session's Neovim in a learner's terminal: the sizes of its panes, the indent, and the focus."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.functional.attached_terminal import AttachedTerminal
from tests.functional.serving import Stage, position, until
from tests.functional.session_neovim import Neovim

pytestmark = pytest.mark.functional

SIZES = ((200, 50), (120, 30), (80, 24), (70, 18), (60, 14))
PANES = """
local windows, found = require('card.windows'), {}
for _, window in ipairs(vim.api.nvim_tabpage_list_wins(0)) do
  local buffer = vim.api.nvim_win_get_buf(window)
  local name = ({ [windows.gdb] = 'gdb', [windows.program] = 'program' })[buffer] or 'code'
  found[name] = { vim.api.nvim_win_get_width(window), vim.api.nvim_win_get_height(window) }
end
return found
"""


@pytest.fixture
def neovim(stage: Stage) -> Iterator[Neovim]:
    found = Neovim(stage)
    yield found
    found.close()


def test_gdbs_pane_is_the_larger_one_at_every_size(stage: Stage, neovim: Neovim) -> None:
    with AttachedTerminal(stage.sessions, 200, 50) as terminal:
        for columns, rows in (*SIZES, *reversed(SIZES)):
            terminal.resize(columns, rows)
            until(lambda size=[columns, rows]: neovim.lua("return { vim.o.columns, vim.o.lines }") == size)
            found = neovim.lua(PANES)
            assert found["gdb"][1] > found["program"][1] > 0, (columns, rows)
            share = found["code"][0] / columns if columns > 110 else found["code"][1] / (rows - 5)
            assert 0.5 < share < 0.6, (columns, rows)


# -- the code --------------------------------------------------------------------------------------------------------


def test_the_indent_is_the_cards(neovim: Neovim) -> None:
    for lines, expandtab, tabstop, shiftwidth in (
        (["int f(void)", "{", "    if (a)", "        b();", "    c();", "}"], True, 4, 4),
        (["/*", " * about", " */", "{", "  if (a)", "    b();", "}"], True, 4, 2),
        (["{", "\tif (a)", "\t\tb();", "}"], False, 4, 4),
        (["{", "  if (a)", "    {", "      b ();", "      if (c)", "\td ();", "    }", "}"], True, 8, 2),  # GNU
        (["{", "\tcall(a,", "\t     b);", "\tif (c)", "\t\td();", "}"], False, 8, 8),  # Linux
        (["x"], True, 4, 4),
    ):
        found = neovim.lua("return require('card.indent').detect(...)", lines)
        assert found == {"expandtab": expandtab, "tabstop": tabstop, "shiftwidth": shiftwidth}, lines


# -- the focus -------------------------------------------------------------------------------------------------------


@pytest.fixture
def in_gdb(stage: Stage, neovim: Neovim) -> Neovim:
    """Neovim with the learner in gdb's pane, where typed keys go to gdb."""
    until(lambda: neovim.lua("return #require('card.keys').status()") > 0)
    neovim.call("nvim_input", "<C-\\><C-n>")
    until(lambda: neovim.call("nvim_get_mode")["mode"] in ("n", "nt"))
    neovim.lua("vim.api.nvim_set_current_win(vim.fn.win_findbuf(require('card.windows').gdb)[1])")
    neovim.call("nvim_input", "i")
    until(lambda: neovim.call("nvim_get_mode")["mode"] == "t")
    return neovim


def press(stage: Stage, neovim: Neovim, key: str, kind: str) -> None:
    """Press a key of the editor, and wait for the event that it causes and its message."""
    last = stage.tcp.get("/api/events?limit=1000")["last_seq"]
    neovim.call("nvim_input", key)
    until(lambda: stage.tcp.get(f"/api/events?after={last}&kind={kind}")["events"], 30)
    until(lambda: any(text in neovim.screen() for text in ("sync: ready", "reset: done")))


def gdb_takes(neovim: Neovim, typed: str, answer: str) -> None:
    """Keys now go to gdb and not into the code."""
    code = "vim.api.nvim_win_get_buf(require('card.windows').code_window())"
    ticks = f"return vim.api.nvim_buf_get_changedtick({code})"
    lines = "return vim.api.nvim_buf_get_lines(require('card.windows').gdb, 0, -1, false)"
    before = neovim.lua(ticks)
    neovim.call("nvim_input", f"{typed}<CR>")
    until(lambda: any(line.endswith(answer) for line in neovim.lua(lines)))
    assert neovim.lua(ticks) == before


def test_the_next_command_goes_to_gdb_after_f2_and_f1(stage: Stage, in_gdb: Neovim) -> None:
    for number, snapshot in enumerate(("first", "second", "first")):  # the last replay used a fork checkpoint
        stage.tcp.put("/api/navigation/current", position("quick", snapshot))
        press(stage, in_gdb, "<F2>", "checkpoint.ready")
        gdb_takes(in_gdb, f"print {number} + n * 1000", f"= {(1, 2, 1)[number] * 1000 + number}")
    press(stage, in_gdb, "<F1>", "editor.reset")
    gdb_takes(in_gdb, "print 40 + 2", "= 42")


def test_a_click_into_gdbs_pane_gives_it_the_keys(neovim: Neovim) -> None:
    neovim.lua("vim.api.nvim_set_current_win(require('card.windows').code_window())")
    place = neovim.lua("return vim.api.nvim_win_get_position(vim.fn.win_findbuf(require('card.windows').gdb)[1])")
    for action in ("press", "release"):
        neovim.call("nvim_input_mouse", "left", action, "", 0, place[0] + 1, place[1] + 2)
    until(lambda: neovim.call("nvim_get_mode")["mode"] == "t")
    gdb_takes(neovim, "print 40 + 4", "= 44")
