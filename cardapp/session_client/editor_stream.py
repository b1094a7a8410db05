"""The editor's UI as a stream of frames (``/api/editor-ui``).

A frame contains Neovim's redraw events up to a ``flush``. Each stream attaches a separate UI and requests a grid larger
than any terminal. Neovim uses the smallest requested size, so a stream never changes the size of the session's
terminal. The client acknowledges frames. A client that falls behind gets no frames until it has acknowledged all sent
frames. Then it gets the full grid.
"""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from cardapp.errors import TooSlow
from cardapp.neovim import REMEDY, NeovimConnection

MAX_GRID = (1000, 500)
"""The number of columns and of rows that the UI requests."""
MAX_FRAMES_AHEAD = 64
"""Maximum number of sent frames that are not acknowledged."""
MAX_QUEUED_CHARACTERS = 4 * 1024 * 1024
"""Maximum number of characters in the frames that wait to be sent."""
MAX_PENDING_REQUESTS = 1000
"""Maximum number of requests that wait for Neovim, for example while it runs a shell command."""
TERMINAL = "card_terminal"
"""The notification that says whether a terminal is attached to the session."""
_EVENTS = frozenset({
    "grid_resize", "grid_clear", "grid_line", "grid_scroll", "grid_cursor_goto", "default_colors_set", "hl_attr_define",
    "mode_info_set", "mode_change", "busy_start", "busy_stop", "mouse_on", "mouse_off", "set_title", "bell", "flush",
})  # fmt: skip
"""The events that are sent. All other events draw nothing, and contain handles, which JSON cannot represent."""


class EditorStream:
    """One attached UI. One thread calls ``take``, another thread sends input. ``close`` may be called repeatedly."""

    def __init__(self, connect: Callable[[Callable[[str, list[Any]], None]], NeovimConnection]) -> None:
        """``connect`` opens the connection. Its argument is the function that gets Neovim's notifications."""
        self._changed = threading.Condition()
        self._queue: deque[str] = deque()
        self._queued_characters = 0
        self._events: list[Any] = []
        self._terminal_attached: bool | None = None
        self._seq = 0
        self._acknowledged = 0
        self._behind = False
        self._closed = False
        self._connection = connect(self._notified)

    def attach(self) -> None:
        """Request the UI. If Neovim waits for a key, it attaches the UI when it continues."""
        options = {"rgb": True, "ext_linegrid": True}
        self._put({"type": "hello", "protocol": "card-editor-ui.v1"})
        self._connection.send("nvim_subscribe", TERMINAL)
        self._connection.send("nvim_exec_lua", "require('card.terminal').tell()", [])
        self._connection.send("nvim_ui_attach", *MAX_GRID, options)

    def take(self, timeout: float) -> str | None:
        """Wait for the next frame, as JSON. Returns None if there is none within ``timeout`` seconds."""
        with self._changed:
            if not self._queue:
                self._changed.wait(timeout)
            if not self._queue:
                return None
            frame = self._queue.popleft()
            self._queued_characters -= len(frame)
            return frame

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def ended(self) -> str | None:
        """Why the connection to Neovim ended; None while it is open."""
        return self._connection.reason if self._connection.ended.is_set() else None

    def acknowledge(self, seq: int) -> None:
        """Record that the client has drawn the frames up to ``seq``."""
        with self._changed:
            self._acknowledged = max(self._acknowledged, min(seq, self._seq))
            # Attach again now, because the client has acknowledged everything and sends no further acknowledgement.
            caught_up = self._behind and self._acknowledged == self._seq
            if caught_up:
                self._behind = False
        if caught_up:
            self._connection.send("nvim_ui_detach")
            self.attach()

    def type(self, text: str) -> None:
        """Type ``text`` in Neovim's key notation."""
        self._send("nvim_input", text)

    def mouse(self, button: str, action: str, modifier: str, row: int, col: int) -> None:
        self._send("nvim_input_mouse", button, action, modifier, 0, row, col)

    def paste(self, text: str) -> None:
        self._send("nvim_paste", text, True, -1)

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._connection.close()

    def _send(self, method: str, *arguments: Any) -> None:
        if self._connection.pending >= MAX_PENDING_REQUESTS:
            raise TooSlow(f"Neovim is busy and has not processed the last {MAX_PENDING_REQUESTS} inputs; {REMEDY}")
        self._connection.send(method, *arguments)

    # -- Neovim's thread -------------------------------------------------------------------------------------------

    def _notified(self, name: str, arguments: list[Any]) -> None:
        if name == TERMINAL and arguments[0] is not self._terminal_attached:  # a new stream makes Neovim notify all
            self._terminal_attached = arguments[0]
            self._put({"type": "terminal", "attached": arguments[0]})
        if name != "redraw":
            return
        self._events += [event for event in arguments if event[0] in _EVENTS]
        if any(event[0] == "flush" for event in arguments):
            events, self._events = self._events, []
            # Neovim also sends a flush before it handles a key, although nothing is drawn. Such a frame is not sent.
            if any(event[0] != "flush" for event in events):
                self._frame(events)

    def _frame(self, events: list[Any]) -> None:
        with self._changed:
            if self._behind or self._closed:
                return
            if self._seq - self._acknowledged >= MAX_FRAMES_AHEAD or self._queued_characters > MAX_QUEUED_CHARACTERS:
                self._behind = True
                return
            self._seq += 1
            seq = self._seq
        self._put({"type": "redraw", "seq": seq, "events": events})

    def _put(self, frame: dict[str, Any]) -> None:
        # The title may contain a file name that is not UTF-8.
        text = json.dumps(frame, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace").decode()
        with self._changed:
            self._queue.append(text)
            self._queued_characters += len(text)
            self._changed.notify()
