"""The tools of a session's MCP server."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from typing import Any

from cardapp.errors import CardAppError, DebuggerFailed, EditorUnavailable, TooSlow
from cardapp.mcp.tools import CallContext, Tool, ToolFailure
from cardapp.schema import field_errors, validator
from cardapp.session_host import schemas
from cardapp.session_host.debugger import Cancelled
from cardapp.session_host.pane import PaneFailed
from cardapp.session_host.replay import Replay, end_program, relative_place
from cardapp.session_host.session import POLL, Session

BINDING = ("container_id", "instance", "profile", "target")
RESET_TIMEOUT = 30.0
FIT_TIMEOUT = 1.0
ASK_TIMEOUT = 0.5  # seconds for a call that an idle Neovim answers in under a millisecond
# Name, title, description, input schema, output schema.
DESCRIBED = (
    (
        "session_binding",
        "Which session this is",
        "The container, instance, profile, target and card of this server, where its sources are, and whether its "
        "editor and debugger answer.",
        schemas.NOTHING,
        schemas.BINDING_OUT,
    ),
    (
        "checkpoint_replay",
        "Replay to a snapshot",
        "Build edited sources, bring the program to the stop and read the expressions there. The editor shows the "
        "line. A later replay of the same stop may restart a checkpoint of the program (method fork) instead of "
        "running it again (method rerun); fresh always runs it from the start. The binding must be that of "
        "session_binding. A replay can be cancelled at any time.",
        schemas.REPLAY_IN,
        schemas.REPLAY_OUT,
    ),
    (
        "target_reset",
        "Reset the target",
        "End the program and a replay under way; start gdb or Neovim again if it has ended. Unsaved edits in a running "
        "Neovim are kept.",
        schemas.NOTHING,
        schemas.RESET_OUT,
    ),
    (
        "pane_fit",
        "Fit the terminal",
        "Resize the session's terminal to the given columns and rows, else to the terminals attached to it. A Neovim "
        "that waits for a key or runs a command is resized when it continues.",
        schemas.FIT_IN,
        schemas.FIT_OUT,
    ),
    (
        "debugger_state",
        "Where the program is",
        "The program's state, its place, and stop_id, which changes whenever the program moves. While stop_id is "
        "unless_stop_id, the answer waits for a change, at most wait_ms.",
        schemas.STATE_IN,
        schemas.STATE_OUT,
    ),
)
GONE = "gone"  # the stop_id while there is no gdb; no gdb uses it


class SessionTools:
    """The tools of one session. Every handler may be called from any thread."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._recipe = validator(schemas.RECIPE)

    def tools(self) -> list[Tool]:
        handlers = (self.binding, self.replay, self.reset, self.fit, self.state)
        return [Tool(*described, handler) for described, handler in zip(DESCRIBED, handlers, strict=True)]

    # -- handlers ----------------------------------------------------------------------------------------------------

    def binding(self, _arguments: dict[str, Any], _context: CallContext) -> dict[str, Any]:
        session, record, container = self._session, self._session.record, self._session.instance.container
        try:
            identity = session.identity()
        except (OSError, ValueError) as error:
            raise ToolFailure("card_unreadable", f"the card's source cannot be read: {error}") from error
        editor = session.editor.condition()
        debugger = session.gdb.condition()
        return {
            **self._own_binding(),
            "runtime": record.runtime,
            "container_process": container.as_json() if container is not None else None,
            "card": identity.as_json(),
            "card_source": record.card_source,
            "source_directory": record.source_directory,
            "editor": {"socket": str(session.directory.nvim_socket), "available": editor is None, "reason": editor},
            "debugger": {"available": debugger is None, "reason": debugger},
        }

    def replay(self, arguments: dict[str, Any], context: CallContext) -> dict[str, Any]:
        self._check_binding(arguments)
        recipe = arguments.get("allocator")
        if recipe is not None and (faults := field_errors(self._recipe, recipe)):
            raise ToolFailure(
                "bad_recipe", f"the allocator's recipe is wrong at {faults[0].pointer or '/'}: {faults[0].message}"
            )
        replay = Replay(
            self._session,
            context,
            arguments["stop"],
            arguments["expressions"],
            recipe,
            arguments["timeout_ms"] / 1000,
            arguments.get("fresh", False),
        )
        return {
            "generation": arguments["generation"],
            "snapshot_ref": arguments["snapshot_ref"],
        } | replay.replay()

    def reset(self, _arguments: dict[str, Any], context: CallContext) -> dict[str, Any]:
        session = self._session
        try:
            with session.turn(RESET_TIMEOUT, context.cancelled, urgent=True):
                editor, debugger = self._reset()
                return {
                    "stop_id": session.gdb.call("state", timeout=2.0)["stop_id"],
                    "debugger_restarted": debugger,
                    "editor_restarted": editor,
                }
        except CardAppError as error:
            raise ToolFailure(error.code, f"the session could not be reset: {error.detail}") from error

    def fit(self, arguments: dict[str, Any], _context: CallContext) -> dict[str, Any]:
        session = self._session
        try:
            columns, rows = self._wanted_size(arguments)
            self._arrange_windows(columns)
            session.pane.resize(columns, rows)
            width, height = session.pane.size()
            grid = self._settled_grid(width, height)
        except PaneFailed as error:
            raise ToolFailure(error.code, f"{error.detail}; reset the session") from error
        except EditorUnavailable as error:
            raise ToolFailure("editor_dead", error.detail) from error
        return {"host": {"cols": width, "rows": height}, "grid": {"cols": grid[0], "rows": grid[1]}}

    def state(self, arguments: dict[str, Any], context: CallContext) -> dict[str, Any]:
        session = self._session
        unless, seconds = arguments.get("unless_stop_id"), arguments.get("wait_ms", 0) / 1000
        try:
            with session.gdb.begin("state", unless=unless, seconds=seconds) as pending:
                found: dict[str, Any] = pending.result(seconds + 2.0, context.cancelled)
        except Cancelled as error:
            raise ToolFailure(error.code, error.detail) from error
        except (DebuggerFailed, TooSlow) as error:
            gone = {"state": "none", "stop_id": GONE, "file": None, "line": None, "function": None}
            found = gone | {"alive": False, "reason": error.detail}
        else:
            found = relative_place(found, session) | {"alive": True}
        return found | {"instance": session.instance.name, "editor_alive": session.editor.condition() is None}

    # -- parts of the handlers -----------------------------------------------------------------------------------------

    def _own_binding(self) -> dict[str, str]:
        record = self._session.record
        return {
            "container_id": record.container_id,
            "instance": self._session.instance.name,
            "profile": record.profile,
            "target": record.target,
        }

    def _check_binding(self, arguments: dict[str, Any]) -> None:
        for field, own in self._own_binding().items():
            if arguments[field] != own:
                raise ToolFailure(
                    "binding_mismatch",
                    f"{field} is {own!r}, not {arguments[field]!r}: call session_binding again",
                    field=field,
                    expected=arguments[field],
                    actual=own,
                )

    def _reset(self) -> tuple[bool, bool]:
        """End the program; start Neovim and gdb if they have ended, and gdb also if it does not obey.

        Returns whether Neovim was started and whether gdb was started.
        """
        session = self._session
        editor, debugger = session.bring_up(force=True)
        session.editor.free()
        try:
            end_program(session)
            session.load()
        except (DebuggerFailed, TooSlow):
            session.restart_debugger()
            session.load()
            debugger = True
        session.editor.call("tidy")
        return editor, debugger

    def _wanted_size(self, arguments: dict[str, Any]) -> tuple[int | None, int | None]:
        columns, rows = arguments.get("cols"), arguments.get("rows")
        if columns is None and rows is None and not self._session.pane.attached():
            return self._session.profile.columns, self._session.profile.rows
        return columns, rows

    def _arrange_windows(self, columns: int | None) -> None:
        """Arrange Neovim's windows for the coming width: a terminal that is narrow for a moment loses its text."""
        editor = self._session.editor
        if columns is not None:
            with suppress(TooSlow):
                if not editor.mode(ASK_TIMEOUT).blocking:
                    editor.lua("require('card.layout').adapt(...)", columns, timeout=ASK_TIMEOUT)

    def _settled_grid(self, columns: int, rows: int) -> tuple[int, int]:
        """Neovim's grid after it has taken the terminal's size; smaller if another attached UI is smaller.

        A Neovim that waits for a key or runs a command cannot answer. It takes the terminal's size when it continues,
        so that size is returned.
        """
        editor = self._session.editor
        deadline = time.monotonic() + FIT_TIMEOUT
        pause = threading.Event()
        while True:
            try:
                if editor.mode(ASK_TIMEOUT).blocking:
                    return columns, rows
                found = editor.lua("return {vim.o.columns, vim.o.lines}", timeout=ASK_TIMEOUT)
            except TooSlow:
                return columns, rows
            if tuple(found) == (columns, rows) or time.monotonic() > deadline:
                return int(found[0]), int(found[1])
            pause.wait(POLL)
