"""The API's operations on the session's Neovim: state, cursor, input, reset, redraw (contract: "Editor").

No operation may hang while Neovim waits for a key or runs a script. So the mode is read first, and every call has a
timeout. If Neovim handles a cursor request too late, the cursor does not move (``deadline`` in the Lua code below).
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from time import monotonic
from typing import Any

from cardapp import unix_socket
from cardapp.errors import (
    CardAppError,
    EditorBlocked,
    EditorUnavailable,
    InvalidValue,
    SessionUnavailable,
    TooSlow,
)
from cardapp.neovim import REMEDY, NeovimConnection
from cardapp.session_client.editor_stream import EditorStream

CALL_SECONDS = 0.5  # an idle Neovim answers in under a millisecond
_PROMPTS_SECONDS = 1.0  # to dismiss a series of prompts
_PROMPT_STEP = 0.1  # seconds; a prompt that is still shown this long after a key counts as the next prompt
_PROMPT_KEYS = {"r": "<CR>", "rm": "<Esc>"}  # the modes of the hit-enter prompt and the more prompt; see :help mode()

_STATE_LUA = """
local function state(window)
  if window == 0 then window = vim.api.nvim_get_current_win() end
  local buffer = vim.api.nvim_win_get_buf(window)
  local cursor = vim.api.nvim_win_get_cursor(window)
  return {
    buffer = {
      number = buffer,
      name = vim.api.nvim_buf_get_name(buffer),
      line_count = vim.api.nvim_buf_line_count(buffer),
      modified = vim.bo[buffer].modified,
      filetype = vim.bo[buffer].filetype,
    },
    window = {
      id = window,
      width = vim.api.nvim_win_get_width(window),
      height = vim.api.nvim_win_get_height(window),
    },
    cursor = { row = cursor[1], column = cursor[2] },
    mode = vim.api.nvim_get_mode().mode,
    grid = { cols = vim.o.columns, rows = vim.o.lines },
    terminal_attached = vim.g.card_terminal == true,
  }
end
"""
_READ_LUA = _STATE_LUA + "return state(0)"
# hrtime and time.monotonic read the same clock (CLOCK_MONOTONIC).
_CURSOR_LUA = (
    _STATE_LUA
    + """
-- The current window, or another one if it is a terminal.
local function code_window()
  local windows = { vim.api.nvim_get_current_win(), unpack(vim.api.nvim_tabpage_list_wins(0)) }
  for _, window in ipairs(windows) do
    if vim.bo[vim.api.nvim_win_get_buf(window)].buftype == "" then return window end
  end
  vim.cmd("topleft new")
  local made = vim.api.nvim_get_current_win()
  vim.api.nvim_set_current_win(windows[1])
  return made
end
local row, column, window, file, deadline = ...
if (vim.uv or vim.loop).hrtime() / 1e9 > deadline then return { fault = "late" } end
if window ~= 0 and not vim.api.nvim_win_is_valid(window) then return { fault = "window" } end
if file ~= "" then
  local path = vim.fn.fnamemodify(file, ":p")
  if vim.fn.filereadable(path) == 0 then return { fault = "file" } end
  if window == 0 then window = code_window() end
  vim.api.nvim_win_set_buf(window, vim.fn.bufadd(path))
end
local buffer = vim.api.nvim_win_get_buf(window)
local lines = vim.api.nvim_buf_line_count(buffer)
if row > lines then return { fault = "row", last = lines } end
local line = vim.api.nvim_buf_get_lines(buffer, row - 1, row, true)[1]
if column > #line then return { fault = "column", last = #line } end
-- Neovim accepts a column inside a character, but the next insertion would then split the character.
if column < #line then column = column + vim.str_utf_start(line, column + 1) end
vim.api.nvim_win_set_cursor(window, { row, column })
return state(window)
"""
)


class Editor:
    """Calls the Neovim of the chosen session, over one connection that is kept as long as the same Neovim listens.

    ``locate`` returns the socket path of the chosen session's Neovim, None if it has none, or raises
    ``SessionUnavailable``. ``reset`` and ``fit`` call the session's tools ``target_reset`` and ``pane_fit``.

    Unless stated otherwise, methods raise ``EditorUnavailable`` (no session or no Neovim), ``TooSlow`` (no answer
    within ``timeout`` seconds) and ``Conflict`` with code ``editor_refused`` (Neovim reports an error).
    """

    def __init__(
        self,
        locate: Callable[[], str | None],
        reset: Callable[[], dict[str, Any]],
        fit: Callable[[int | None, int | None], dict[str, Any]],
        *,
        connect: Callable[[str], NeovimConnection] = NeovimConnection,
        timeout: float = CALL_SECONDS,
    ) -> None:
        self._locate = locate
        self._reset = reset
        self._fit = fit
        self._open = connect
        self._timeout = timeout
        self._lock = threading.Lock()
        self._connection: NeovimConnection | None = None
        self._key: tuple[str, unix_socket.SocketIdentity] | None = None
        self._closed = False

    def availability(self) -> dict[str, Any]:
        """``{available, reason}``: whether Neovim accepts keys, and if not, why. A busy Neovim accepts keys, too.
        Raises no exception."""
        try:
            self._probe(self._connect())
        except CardAppError as error:
            return {"available": False, "reason": error.detail}
        return {"available": True, "reason": None}

    def state(self) -> dict[str, Any]:
        """``{available, reason, blocking, buffer, window, cursor, mode, grid, terminal_attached}``. Does not raise
        ``EditorUnavailable``.

        ``buffer: {number, name, line_count, modified, filetype}``, ``window: {id, width, height}`` in cells,
        ``cursor: {row, column}`` with row from 1 and column from 0 in bytes, ``grid: {cols, rows}``,
        ``terminal_attached``: whether a terminal is attached to the session, whose size the grid then has. These five
        members describe one moment. If Neovim waits for a key or runs a script, ``blocking`` is true and the five
        members are None. ``mode`` is then the mode in which Neovim waits, or None for a script, and ``reason`` says how
        to continue. Without an editor ``available`` is false, ``reason`` says why, and all other members are None.
        """
        try:
            connection = self._connect()
            self._probe(connection)
        except CardAppError as error:
            return _unreadable(available=False, reason=error.detail)
        try:
            mode = connection.mode(self._timeout)
            if mode.blocking:
                return _unreadable(available=True, blocking=True, reason=_waiting(mode.name), mode=mode.name)
            return _present(connection.call("nvim_exec_lua", _READ_LUA, [], timeout=self._timeout))
        except TooSlow as error:
            return _unreadable(available=True, blocking=True, reason=error.detail)
        except EditorUnavailable as error:
            return _unreadable(available=False, reason=error.detail)

    def set_cursor(self, row: int, column: int, window: int | None = None, file: str | None = None) -> dict[str, Any]:
        """Put a window's cursor at ``row`` (from 1) and ``column`` (from 0, in bytes); the focus does not change.

        A ``file``, absolute or relative to the target's directory, is opened in the window first; without a ``window``,
        in one that shows code. Returns the state of that window, as ``state`` does. The column after the last byte is
        allowed; outside insert mode Neovim moves the cursor to the last character. A column inside a character becomes
        its first byte. Raises ``InvalidValue`` with the pointer ``/row``, ``/column``, ``/window`` or ``/file``, and
        ``EditorBlocked``.
        """
        connection = self._connect()
        mode = connection.mode(self._timeout)
        if mode.blocking:
            raise EditorBlocked(_waiting(mode.name))
        arguments = [row, column, window or 0, file or "", monotonic() + self._timeout]
        answer = connection.call("nvim_exec_lua", _CURSOR_LUA, arguments, timeout=self._timeout)
        fault = answer.get("fault")
        if fault == "late":
            raise TooSlow("Neovim was busy for too long, so the cursor was not moved; try again")
        if fault == "window":
            raise InvalidValue.of(
                "/window", f"there is no window {window}; GET /api/editor/state names the current one"
            )
        if fault == "file":
            raise InvalidValue.of("/file", f"the session has no file {file!r} that can be read")
        if fault is not None:
            raise InvalidValue.of(f"/{fault}", _outside(fault, row, column, answer["last"]))
        return _present(answer)

    def input(self, text: str) -> dict[str, int]:
        """Type ``text`` in Neovim's key notation (``<CR>``, ``<LT>`` for a ``<``). Returns ``{accepted}`` in bytes.

        Keys are accepted even if Neovim waits for a key or runs a script, because a key can end both. ``accepted`` is
        less than the length of the text in UTF-8 if Neovim's key buffer is full.
        """
        connection = self._connect()
        self._probe(connection)  # an error from here means that nothing was typed
        return {"accepted": int(connection.call("nvim_input", text, timeout=self._timeout))}

    def reset(self) -> dict[str, Any]:
        """End the program and restore the debugger. Returns the result of the session's ``target_reset``.

        A prompt is dismissed first. If Neovim has ended, it is started again.
        """
        self.free_prompt()
        return self._reset()

    def redraw(self, cols: int | None = None, rows: int | None = None) -> dict[str, Any]:
        """Resize the session's pane and Neovim's grid, then redraw everything.

        Returns ``{host: {cols, rows}, grid: {cols, rows}}`` in cells. A hit-enter or more prompt is dismissed first,
        because a full redraw clears its message. If Neovim waits for another key or runs a script, it is resized now
        and redraws when it continues.
        """
        connection = self._connect()
        self._probe(connection)  # do not fit the pane if Neovim has ended
        self.free_prompt()
        sizes = self._fit(cols, rows)
        with contextlib.suppress(TooSlow):  # the command stays in Neovim's queue
            connection.call("nvim_command", "mode", timeout=self._timeout)
        return {"host": sizes["host"], "grid": sizes["grid"]}

    def free_prompt(self) -> bool:
        """Dismiss a hit-enter or more prompt. Returns True if there was such a prompt and it is gone. Raises no
        exception.

        A prompt that needs a decision is kept: a confirmation, a pending operator, a command line.
        """
        try:
            connection = self._connect()
            mode = connection.mode(self._timeout)
            if mode.name not in _PROMPT_KEYS:
                return False
            deadline = monotonic() + _PROMPTS_SECONDS
            while mode.name in _PROMPT_KEYS and monotonic() < deadline:
                connection.call("nvim_input", _PROMPT_KEYS[mode.name], timeout=self._timeout)
                mode = self._mode_after_key(connection)
        except CardAppError:
            return False
        return mode.name not in _PROMPT_KEYS

    def stream(self) -> EditorStream:
        """Make a stream of the editor's UI, which the caller closes. Raises ``EditorUnavailable`` without an editor."""
        path = self._connect().socket_path
        return EditorStream(lambda notify: NeovimConnection(path, notify))

    def close(self) -> None:
        """Close the connection. Later operations raise ``EditorUnavailable``. May be called again."""
        with self._lock:
            self._closed = True
            connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _probe(self, connection: NeovimConnection) -> None:
        """Check that Neovim answers, by sending no keys. It answers even while it waits for a key or runs a script."""
        connection.call("nvim_input", "", timeout=self._timeout)

    def _mode_after_key(self, connection: NeovimConnection) -> Any:
        """Wait until the key has dismissed the prompt, at most ``_PROMPT_STEP``, and return Neovim's mode."""
        deadline = monotonic() + _PROMPT_STEP
        mode = connection.mode(self._timeout)
        while mode.name in _PROMPT_KEYS and monotonic() < deadline and not connection.ended.wait(0.005):
            mode = connection.mode(self._timeout)
        return mode

    def _connect(self) -> NeovimConnection:
        """Returns the kept connection to the chosen session's Neovim. If it has ended, or if another Neovim listens,
        returns a new connection."""
        try:
            path = self._locate()
        except SessionUnavailable as error:
            raise EditorUnavailable(error.detail) from error
        if path is None:
            raise EditorUnavailable(f"the session has no Neovim; {REMEDY}")
        found = unix_socket.identity(path)
        if found is None:
            raise EditorUnavailable(f"there is no socket of Neovim at {path}; {REMEDY}")
        key = (path, found)
        with self._lock:
            if self._closed:
                raise EditorUnavailable("the application is stopping")
            current = self._connection
            if current is not None and self._key == key and not current.ended.is_set():
                return current
            fresh = self._connection = self._open(path)
            self._key = key
        if current is not None:
            current.close()
        return fresh


def _unreadable(
    *, available: bool, reason: str, blocking: bool | None = None, mode: str | None = None
) -> dict[str, Any]:
    unread = dict.fromkeys(("buffer", "window", "cursor", "grid", "terminal_attached"))
    return {"available": available, "reason": reason, "blocking": blocking, **unread, "mode": mode}


def _present(read: dict[str, Any]) -> dict[str, Any]:
    """The state as the API returns it. ``read`` comes from the Lua ``state``; its file name may not be UTF-8."""
    buffer = read["buffer"]
    name = buffer["name"].encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return {"available": True, "reason": None, "blocking": False, **read, "buffer": {**buffer, "name": name}}


def _waiting(mode: str) -> str:
    if mode in _PROMPT_KEYS:
        return "Neovim waits at a prompt; send the input <CR> to continue, or redraw"
    return f"Neovim waits for a key (mode {mode}); send the key it waits for, or <C-c> to cancel"


def _outside(field: str, row: int, column: int, last: int) -> str:
    if field == "row":
        return f"is {row}, outside the buffer, whose last row is {last}"
    return f"is {column}, outside row {row}, which is {last} bytes long"
