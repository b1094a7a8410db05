"""The session's Neovim as the MCP server uses it: calls with a timeout, and a way to end whatever it waits for."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

from cardapp.errors import EditorUnavailable, TooSlow
from cardapp.neovim import Mode, NeovimConnection

DEBUGGER = "return require('card.debugger').{name}(...)"


class Editor:
    """The Neovim that listens at ``socket_path``. Connects at the first call, and again after Neovim was restarted.

    Methods raise the errors of :meth:`NeovimConnection.call`.
    """

    def __init__(self, socket_path: Path) -> None:
        self._path = str(socket_path)
        self._lock = threading.Lock()
        self._connection: NeovimConnection | None = None

    def alive(self, timeout: float = 1.0) -> bool:
        """Whether Neovim answers; it also does while it waits for a key."""
        try:
            self.mode(timeout)
        except (EditorUnavailable, TooSlow):
            return False
        return True

    def condition(self) -> str | None:
        """Why Neovim cannot be used, None if it can; it also can while it waits for a key."""
        try:
            self.mode()
        except (EditorUnavailable, TooSlow) as error:
            return error.detail
        return None

    def mode(self, timeout: float = 1.0) -> Mode:
        """Neovim's mode, and whether it waits for a key."""
        return self._connected().mode(timeout)

    def call(self, name: str, *arguments: Any, timeout: float = 2.0) -> Any:
        """Call the Lua function ``name`` of ``card.debugger`` and return its result."""
        return self._request("nvim_exec_lua", DEBUGGER.format(name=name), list(arguments), timeout=timeout)

    def lua(self, code: str, *arguments: Any, timeout: float = 2.0) -> Any:
        """Run the Lua chunk ``code`` and return its result."""
        return self._request("nvim_exec_lua", code, list(arguments), timeout=timeout)

    def input(self, keys: str, timeout: float = 1.0) -> None:
        """Type ``keys`` (Neovim's key notation). Neovim accepts them at once, even if it is busy."""
        self._request("nvim_input", keys, timeout=timeout)

    def free(self, timeout: float = 1.0) -> bool:
        """Bring Neovim to normal mode, from a prompt, pending key, command line or terminal; False if it fails."""
        deadline = time.monotonic() + timeout
        pause = threading.Event()
        while time.monotonic() < deadline:
            mode, blocking = self.mode(max(0.1, deadline - time.monotonic()))
            if mode in ("n", "nt") and not blocking:
                if not self.lua("return vim.fn.getcmdwintype()"):
                    return True
                self.input(":quit<CR>")
            else:
                self.input("<CR>" if mode.startswith("r") else r"<C-\><C-n>")
            pause.wait(0.002)
        return False

    def close(self) -> None:
        with self._lock:
            connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _request(self, method: str, *arguments: Any, timeout: float) -> Any:
        return self._connected().call(method, *arguments, timeout=timeout)

    def _connected(self) -> NeovimConnection:
        with self._lock:
            if self._connection is not None and self._connection.ended.is_set():
                self._connection.close()
                self._connection = None
            if self._connection is None:
                self._connection = NeovimConnection(self._path)
            return self._connection
