"""What the API does with the session's Neovim: state, cursor, input, reset, redraw (contract: "Editor").

Nothing here may hang on a Neovim that waits for a key or runs a script: the mode is asked first, every call has a
bound, and what Neovim finds in its queue after its caller gave up does nothing (``deadline`` in the Lua below).
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
from cardapp.neovim import WAY_BACK, NeovimConnection

INPUT_LIMIT = 256  # characters; contract: "Limits"

_BOUND = 0.5  # seconds for a question that Neovim answers in under a millisecond when it can answer at all
_PROMPT_BOUND = 1.0  # seconds to leave a chain of prompts
_PROMPT_STEP = 0.1  # seconds until a prompt that is still there is taken for the next one
_PROMPT_KEYS = {"r": "<CR>", "rm": "<Esc>"}  # hit-enter and more prompt, by the names of :help mode()
_LARGEST = 2**31 - 1  # Neovim's line and column numbers are C ints

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
  }
end
"""
_READ_LUA = _STATE_LUA + "return state(0)"
# hrtime and time.monotonic read the same clock (CLOCK_MONOTONIC).
_CURSOR_LUA = (
    _STATE_LUA
    + """
local row, column, window, deadline = ...
if (vim.uv or vim.loop).hrtime() / 1e9 > deadline then return { fault = "late" } end
if window ~= 0 and not vim.api.nvim_win_is_valid(window) then return { fault = "window" } end
local buffer = vim.api.nvim_win_get_buf(window)
local lines = vim.api.nvim_buf_line_count(buffer)
if row > lines then return { fault = "row", last = lines } end
local line = vim.api.nvim_buf_get_lines(buffer, row - 1, row, true)[1]
if column > #line then return { fault = "column", last = #line } end
-- Neovim takes a column inside a character as it is, and the next insertion would split the character.
if column < #line then column = column + vim.str_utf_start(line, column + 1) end
vim.api.nvim_win_set_cursor(window, { row, column })
return state(window)
"""
)


class Editor:
    """The editor of whichever session is chosen, over one cached connection per Neovim.

    ``locate`` gives the socket path of the chosen session's Neovim, None when it has none, or raises
    ``SessionUnavailable``. ``reset`` and ``fit`` are the session's tools ``target_reset`` and ``pane_fit``.

    Where not said otherwise, methods raise ``EditorUnavailable`` (no session or no Neovim), ``TooSlow`` (alive, but
    no answer within half a second) and ``Conflict`` with code ``editor_refused`` (an error of Neovim's own).
    """

    def __init__(
        self,
        locate: Callable[[], str | None],
        reset: Callable[[], dict[str, Any]],
        fit: Callable[[int | None, int | None], dict[str, Any]],
    ) -> None:
        self._locate = locate
        self._reset = reset
        self._fit = fit
        self._lock = threading.Lock()
        self._connection: NeovimConnection | None = None
        self._key: tuple[str, unix_socket.SocketIdentity] | None = None
        self._closed = False

    def availability(self) -> dict[str, Any]:
        """``{available, reason}``: whether Neovim takes keys, busy or not, and why not. Never raises."""
        try:
            self._probe(self._connect())
        except CardAppError as error:
            return {"available": False, "reason": error.detail}
        return {"available": True, "reason": None}

    def state(self) -> dict[str, Any]:
        """``{available, reason, blocking, buffer, window, cursor, mode, grid}``; never raises for an absent editor.

        ``buffer: {number, name, line_count, modified, filetype}``, ``window: {id, width, height}`` in cells,
        ``cursor: {row, column}`` with row from 1 and column from 0 in bytes, ``grid: {cols, rows}``: of the current
        window, all read in one moment. While ordinary calls would wait, ``blocking`` is true and these four are None,
        as a value that cannot be read now is not made up from an older one: ``mode`` is then the mode in which a key
        is awaited, or None when a script runs, and ``reason`` says which and how to go on. Without an editor
        ``available`` is false, ``reason`` says why, and all the rest is None.
        """
        try:
            connection = self._connect()
            self._probe(connection)
        except CardAppError as error:
            return _unreadable(available=False, reason=error.detail)
        try:
            mode = connection.mode(_BOUND)
            if mode.blocking:
                return _unreadable(available=True, blocking=True, reason=_waiting(mode.name), mode=mode.name)
            return _present(connection.call("nvim_exec_lua", _READ_LUA, [], timeout=_BOUND))
        except TooSlow as error:
            return _unreadable(available=True, blocking=True, reason=error.detail)
        except EditorUnavailable as error:
            return _unreadable(available=False, reason=error.detail)

    def set_cursor(self, row: int, column: int, window: int | None = None) -> dict[str, Any]:
        """Put a window's cursor at ``row`` (from 1) and ``column`` (from 0, bytes); the focus stays where it is.

        Answers the state as ``state`` does, of that window. The column after the last byte is allowed; outside insert
        mode Neovim moves it to the last character. A column inside a character becomes its first byte.
        Raises ``InvalidValue`` with the pointer ``/row``, ``/column`` or ``/window``, and ``EditorBlocked``.
        """
        _require_between("/row", row, 1)
        _require_between("/column", column, 0)
        if window is not None:
            _require_between("/window", window, 1)
        connection = self._connect()
        mode = connection.mode(_BOUND)
        if mode.blocking:
            raise EditorBlocked(_waiting(mode.name))
        arguments = [row, column, window or 0, monotonic() + _BOUND]
        answer = connection.call("nvim_exec_lua", _CURSOR_LUA, arguments, timeout=_BOUND)
        fault = answer.get("fault")
        if fault == "late":
            raise TooSlow("Neovim became free too late, the cursor was left alone. Try again.")
        if fault == "window":
            raise InvalidValue.of(
                "/window", f"there is no window {window}; GET /api/editor/state names the current one"
            )
        if fault is not None:
            raise InvalidValue.of(f"/{fault}", _outside(fault, row, column, answer["last"]))
        return _present(answer)

    def input(self, text: str) -> dict[str, int]:
        """Type ``text`` in Neovim's key notation (``<CR>``, ``<LT>`` for a ``<``); ``{accepted}`` in bytes of UTF-8.

        1 to 256 characters, else ``InvalidValue``. Never refused because Neovim waits for a key or runs a script: keys
        are what ends both. ``accepted`` is smaller than the text when Neovim's own key buffer is full.
        """
        if not 1 <= len(text) <= INPUT_LIMIT:
            raise InvalidValue.of("/text", f"{len(text)} characters; send 1 to {INPUT_LIMIT} at a time")
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise InvalidValue.of("/text", "a lone surrogate is no character; send valid Unicode") from error
        connection = self._connect()
        self._probe(connection)  # so that a refusal means that nothing was typed
        return {"accepted": int(connection.call("nvim_input", text, timeout=_BOUND))}

    def reset(self) -> dict[str, Any]:
        """Restart the target and refresh the debugger; answers what the session's ``target_reset`` answers.

        It works without a living Neovim too, as it is what brings one back. A prompt is dismissed first.
        """
        self.free_prompt()
        return self._reset()

    def redraw(self, cols: int | None = None, rows: int | None = None) -> dict[str, Any]:
        """Fit the host pane and the UI grid, then redraw all; ``{host: {cols, rows}, grid: {cols, rows}}`` in cells.

        A hit-enter or more prompt is dismissed first, since a full redraw wipes what it shows. A Neovim that waits for
        another key, or runs a script, is fitted now and draws itself again as soon as it goes on.
        """
        connection = self._connect()
        self._probe(connection)  # no pane is fitted for a Neovim that is gone
        self.free_prompt()
        sizes = self._fit(cols, rows)
        with contextlib.suppress(TooSlow):  # it stays queued
            connection.call("nvim_command", "mode", timeout=_BOUND)
        return {"host": sizes["host"], "grid": sizes["grid"]}

    def free_prompt(self) -> bool:
        """Dismiss a hit-enter or more prompt (a sync does this first); True when there was one and it is gone.

        Never raises, and leaves alone what wants a decision: a confirmation, a pending operator, a command line.
        """
        try:
            connection = self._connect()
            mode = connection.mode(_BOUND)
            if mode.name not in _PROMPT_KEYS:
                return False
            deadline = monotonic() + _PROMPT_BOUND
            while mode.name in _PROMPT_KEYS and monotonic() < deadline:
                connection.call("nvim_input", _PROMPT_KEYS[mode.name], timeout=_BOUND)
                mode = _mode_after_key(connection)
        except CardAppError:
            return False
        return mode.name not in _PROMPT_KEYS

    def close(self) -> None:
        """Close the connection; later operations find no editor. Any number of times."""
        with self._lock:
            self._closed = True
            connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    @staticmethod
    def _probe(connection: NeovimConnection) -> None:
        """Typing nothing changes nothing and is answered even while a key is awaited or a script runs."""
        connection.call("nvim_input", "", timeout=_BOUND)

    def _connect(self) -> NeovimConnection:
        """The connection to the chosen session's Neovim; a new one when another listens there or the last one ended.

        The socket's change time belongs to the key: a file made anew at the same path may get the same inode.
        """
        try:
            path = self._locate()
        except SessionUnavailable as error:
            raise EditorUnavailable(error.detail) from error
        if path is None:
            raise EditorUnavailable(f"The session has no Neovim. {WAY_BACK}")
        found = unix_socket.identity(path)
        if found is None:
            raise EditorUnavailable(f"There is no socket of Neovim at {path}. {WAY_BACK}")
        key = (path, found)
        with self._lock:
            if self._closed:
                raise EditorUnavailable("The application is stopping.")
            current = self._connection
            if current is not None and self._key == key and not current.ended.is_set():
                return current
            fresh = self._connection = NeovimConnection(path)
            self._key = key
        if current is not None:
            current.close()
        return fresh


def _mode_after_key(connection: NeovimConnection) -> Any:
    """The mode once the key had its effect, or the prompt that stands there after ``_PROMPT_STEP``: the next one."""
    deadline = monotonic() + _PROMPT_STEP
    mode = connection.mode(_BOUND)
    while mode.name in _PROMPT_KEYS and monotonic() < deadline and not connection.ended.wait(0.005):
        mode = connection.mode(_BOUND)
    return mode


def _unreadable(
    *, available: bool, reason: str, blocking: bool | None = None, mode: str | None = None
) -> dict[str, Any]:
    unread = dict.fromkeys(("buffer", "window", "cursor"))
    return {"available": available, "reason": reason, "blocking": blocking, **unread, "mode": mode, "grid": None}


def _present(read: dict[str, Any]) -> dict[str, Any]:
    """``read`` is the Lua ``state``; a file name need not be UTF-8, JSON text has to be."""
    buffer = read["buffer"]
    name = buffer["name"].encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return {"available": True, "reason": None, "blocking": False, **read, "buffer": {**buffer, "name": name}}


def _waiting(mode: str) -> str:
    if mode in _PROMPT_KEYS:
        return "Neovim waits at a prompt. Send the input <CR> to go on, or redraw."
    return f"Neovim waits for a key (mode {mode}). Send the input it waits for, or <C-c> to call it off."


def _outside(field: str, row: int, column: int, last: int) -> str:
    if field == "row":
        return f"is {row}, outside the buffer, whose last row is {last}"
    return f"is {column}, outside row {row}, which is {last} bytes long"


def _require_between(pointer: str, value: int, least: int) -> None:
    if not least <= value <= _LARGEST:
        raise InvalidValue.of(pointer, f"{value} is not a number from {least} to {_LARGEST}")
