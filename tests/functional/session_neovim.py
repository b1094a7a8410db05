"""The Neovim of a stage's session, over a separate connection of the test."""

from __future__ import annotations

from typing import Any

from cardapp.neovim import NeovimConnection
from tests.functional.serving import Stage

SECONDS = 20.0
SCREEN = """
vim.cmd("redraw")
local lines = {}
for row = 1, vim.o.lines do
  local cells = {}
  for column = 1, vim.o.columns do cells[column] = vim.fn.screenstring(row, column) end
  lines[row] = table.concat(cells):gsub("%s+$", "")
end
return table.concat(lines, "\\n")
"""


class Neovim:
    """The session's Neovim, over a connection in addition to those of the service."""

    def __init__(self, stage: Stage) -> None:
        self._connection = NeovimConnection(str(stage.state / "sessions" / "s" / "run" / "nvim.sock"))

    def call(self, method: str, *arguments: Any) -> Any:
        return self._connection.call(method, *arguments, timeout=SECONDS)

    def send(self, method: str, *arguments: Any) -> None:
        self._connection.send(method, *arguments)

    def lua(self, code: str, *arguments: Any) -> Any:
        return self.call("nvim_exec_lua", code, list(arguments))

    def lines(self) -> list[str]:
        """The lines of the current buffer."""
        found: list[str] = self.call("nvim_buf_get_lines", 0, 0, -1, False)
        return found

    def screen(self) -> str:
        """Redraw Neovim and return the lines of its screen."""
        found: str = self.lua(SCREEN)
        return found

    def close(self) -> None:
        self._connection.close()
