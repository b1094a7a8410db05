"""The tools of a session's MCP server: their schemas and their handlers.

The service's side of these tools is ``session_client/session_tools.py``.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

from cardapp.card.expression import fault as expression_fault
from cardapp.card.source import LoadedCard
from cardapp.errors import CardAppError, DebuggerFailed, EditorUnavailable, InvalidCard, TooSlow
from cardapp.mcp.tool import CallContext, Tool, ToolFailure
from cardapp.schema import field_errors, validator
from cardapp.session_host.gdb_client import Cancelled
from cardapp.session_host.pane import PaneFailed
from cardapp.session_host.replay import Replay, end_program
from cardapp.session_host.session import POLL, Session

# -- the schemas of arguments and results (JSON Schema 2020-12) --------------------------------------------------------

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
TEXT_OR_NULL: Schema = {"type": ["string", "null"]}
INTEGER: Schema = {"type": "integer"}
INTEGER_OR_NULL: Schema = {"type": ["integer", "null"]}
BOOLEAN: Schema = {"type": "boolean"}
EXPRESSION: Schema = {"type": "string", "minLength": 1, "maxLength": 1000}


def closed_object(properties: dict[str, Schema], *, optional: tuple[str, ...] = ()) -> Schema:
    """The schema of an object with exactly these properties, which are required unless they are ``optional``."""
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def tool_schema(properties: dict[str, Schema], *, optional: tuple[str, ...] = ()) -> Schema:
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **closed_object(properties, optional=optional)}


NOTHING = tool_schema({})

AVAILABILITY = {"available": BOOLEAN, "reason": TEXT_OR_NULL}
BOUND: dict[str, Schema] = {
    "container_id": TEXT,
    "instance": TEXT,
    "profile": TEXT,
    "target": TEXT,
    "card": closed_object({"id": TEXT, "uuid": TEXT, "version": TEXT, "source_sha256": TEXT, "title": TEXT}),
}
"""The session and its card. A replay's result has them as they are after it."""
BINDING_OUT = tool_schema(
    {
        **BOUND,
        "runtime": TEXT,
        "container_process": {"anyOf": [closed_object({"pid": INTEGER, "started": INTEGER}), {"type": "null"}]},
        "card_source": TEXT,
        "source_directory": TEXT,
        "editor": closed_object({"socket": TEXT, **AVAILABILITY}),
        "debugger": closed_object(AVAILABILITY),
        "build_timeout_s": {"type": "number"},
    }
)

HITS: Schema = {"type": "integer", "minimum": 1, "maximum": 1_000_000_000}
NAME: Schema = {"type": "string", "minLength": 1, "maxLength": 500, "pattern": "^[^\\s][^\\n]*$"}
LINE: Schema = {"type": "integer", "minimum": 1}
TEXT_OF_LINE: Schema = {"type": "string", "minLength": 1}
SIGNAL: Schema = {"type": "string", "pattern": "^SIG[A-Z0-9]{2,12}$"}
HELD: dict[str, Schema] = {"if": EXPRESSION, "hits": HITS}
STOP: Schema = {
    "oneOf": [
        closed_object({"file": NAME, "line": LINE, "text": TEXT_OF_LINE, **HELD}, optional=("if", "hits")),
        closed_object({"function": NAME, "file": NAME, **HELD}, optional=("file", "if", "hits")),
        closed_object({"signal": SIGNAL, **HELD}, optional=("if", "hits")),
    ]
}
FORMATS: Schema = {
    "type": "object",
    "propertyNames": EXPRESSION,
    "additionalProperties": {"enum": ["x", "d", "u", "o", "t", "z", "c", "a", "f", "s"]},
}
# The allocator's recipe is validated separately, by RECIPE, so that a wrong recipe has a separate error code.
REPLAY_IN = tool_schema(
    {
        "container_id": TEXT,
        "instance": TEXT,
        "profile": TEXT,
        "target": TEXT,
        "generation": INTEGER,
        "snapshot_ref": TEXT,
        "stop": STOP,
        "run": TEXT_OR_NULL,
        "expressions": {"type": "array", "items": EXPRESSION, "maxItems": 500},
        "formats": FORMATS,
        "allocator": {"type": ["object", "null"]},
        "timeout_ms": {"type": "integer", "minimum": 1, "maximum": 3_600_000},
        "fresh": BOOLEAN,
        "varied": BOOLEAN,
    },
    optional=("run", "formats", "allocator", "fresh", "varied"),
)
RECIPE: Schema = {
    "oneOf": [
        closed_object(
            {
                "base": EXPRESSION,
                "size": EXPRESSION,
                "used": EXPRESSION,
                "high_water": EXPRESSION,
                "blocks": closed_object(
                    {"count": EXPRESSION, "offset": EXPRESSION, "size": EXPRESSION, "label": EXPRESSION},
                    optional=("label",),
                ),
            },
            optional=("high_water", "blocks"),
        ),
        closed_object(
            {
                "each": closed_object(
                    {
                        "first": EXPRESSION,
                        "following": {"type": "array", "items": EXPRESSION, "minItems": 1, "maxItems": 16},
                        "max": {"type": "integer", "minimum": 1, "maximum": 4096},
                    }
                ),
                "blocks": closed_object(
                    {"address": EXPRESSION, "size": EXPRESSION, "label": EXPRESSION}, optional=("label",)
                ),
            }
        ),
    ]
}
BLOCK = closed_object({"offset": INTEGER, "size": INTEGER, "label": TEXT_OR_NULL})
MEMORY = closed_object(
    {
        # Linked nodes have no arena: these are null, and the offset of a block is the node's address.
        "base": INTEGER_OR_NULL,
        "size": INTEGER_OR_NULL,
        "used": INTEGER_OR_NULL,
        "high_water": INTEGER_OR_NULL,
        "blocks": {"type": "array", "items": BLOCK},
    }
)
SLOW_FALLBACKS = ("late_pc_sign", "no_checkpoint", "failed_restart", "second_run")
"""The slow ways that a replay may have taken: termdebug did not place the PC sign in time, so the replay placed it; a
stop got no checkpoint; gdb failed to restart a checkpoint; a program that ended early was run again from its start."""
VALUES: Schema = {
    "type": "object",
    "additionalProperties": closed_object({"value": TEXT_OR_NULL, "error": TEXT_OR_NULL}),
}
REPLAY_OUT = tool_schema(
    {
        "generation": INTEGER,
        "snapshot_ref": TEXT,
        "binding": closed_object(BOUND),
        "method": {"enum": ["rerun", "fork"]},
        "fresh": BOOLEAN,
        "fallbacks": {"type": "array", "items": {"enum": list(SLOW_FALLBACKS)}, "maxItems": 1000},
        "file": TEXT_OR_NULL,
        "line": INTEGER_OR_NULL,
        "function": TEXT_OR_NULL,
        "inside": TEXT_OR_NULL,
        "signal": TEXT_OR_NULL,
        "values": VALUES,
        "held": {"anyOf": [VALUES, {"type": "null"}]},
        "allocator": {"anyOf": [MEMORY, {"type": "null"}]},
        "allocator_error": TEXT_OR_NULL,
        "causes": {"type": "array", "items": TEXT},
        "stop_id": TEXT,
        "timings_ms": {"type": "object", "additionalProperties": {"type": "number"}},
    },
    optional=("held",),
)

RESET_OUT = tool_schema({"stop_id": TEXT, "debugger_restarted": BOOLEAN, "editor_restarted": BOOLEAN})

COLUMNS: Schema = {"type": "integer", "minimum": 20, "maximum": 500}
ROWS: Schema = {"type": "integer", "minimum": 6, "maximum": 200}
FIT_IN = {
    **tool_schema({"cols": COLUMNS, "rows": ROWS, "follow_panel": BOOLEAN}, optional=("cols", "rows", "follow_panel")),
    "dependentRequired": {"follow_panel": ["cols", "rows"]},
}
SIZE = closed_object({"cols": INTEGER, "rows": INTEGER})
FIT_OUT = tool_schema({"host": SIZE, "grid": SIZE})

STATE_IN = tool_schema(
    {"unless_stop_id": TEXT, "wait_ms": {"type": "integer", "minimum": 0, "maximum": 10_000}},
    optional=("unless_stop_id", "wait_ms"),
)
STATE_OUT = tool_schema(
    {
        "instance": TEXT,
        "alive": BOOLEAN,
        "state": {"enum": ["none", "running", "stopped", "exited"]},
        "stop_id": TEXT,
        "file": TEXT_OR_NULL,
        "line": INTEGER_OR_NULL,
        "function": TEXT_OR_NULL,
        "reason": TEXT_OR_NULL,
        "editor_alive": BOOLEAN,
    }
)

# -- the tools ---------------------------------------------------------------------------------------------------------

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
        NOTHING,
        BINDING_OUT,
    ),
    (
        "checkpoint_replay",
        "Replay to a snapshot",
        "Build edited sources, start the program as the card's run says (null: the target's own), bring it to the stop "
        "and read the expressions there, in gdb's print formats where given. Expressions must not assign or call. The "
        "editor shows the line. A later replay of the same stop may restart a checkpoint of the program (method fork) "
        "instead of running it again (method rerun); fresh always runs it from the start. varied does so, too, with "
        "another address layout, order of threads and content of memory that was not initialised: a value that differs "
        "then does not come from the program alone. Its held has the values after all other threads have gone on while "
        "the one at the stop waited (null: there is no other). The binding must be that of session_binding. A "
        "replay can be cancelled at any time.",
        REPLAY_IN,
        REPLAY_OUT,
    ),
    (
        "target_reset",
        "Reset the target",
        "End the program and a replay under way; start gdb or Neovim again if it has ended. Unsaved edits in a running "
        "Neovim are kept.",
        NOTHING,
        RESET_OUT,
    ),
    (
        "pane_fit",
        "Fit the terminal",
        "Resize the session's terminal to the given columns and rows, else to the terminals attached to it. With "
        "follow_panel it keeps the size of an attached terminal. A Neovim that waits for a key or runs a command is "
        "resized when it continues.",
        FIT_IN,
        FIT_OUT,
    ),
    (
        "debugger_state",
        "Where the program is",
        "The program's state, its place, and stop_id, which changes whenever the program moves. While stop_id is "
        "unless_stop_id, the answer waits for a change, at most wait_ms.",
        STATE_IN,
        STATE_OUT,
    ),
)

GONE = "gone"  # the stop_id while there is no gdb; gdb's stop_ids have another form


class SessionTools:
    """The tools of one session. Every handler may be called from any thread."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._recipe = validator(RECIPE)

    def tools(self) -> list[Tool]:
        handlers = (self.binding, self.replay, self.reset, self.fit, self.state)
        return [Tool(*described, handler) for described, handler in zip(DESCRIBED, handlers, strict=True)]

    # -- handlers ----------------------------------------------------------------------------------------------------

    def binding(self, _arguments: dict[str, Any], _context: CallContext) -> dict[str, Any]:
        session, record, container = self._session, self._session.record, self._session.instance.container
        loaded = self._loaded()
        editor = session.editor.condition()
        debugger = session.gdb.condition()
        return {
            **self._bound(loaded),
            "runtime": record.runtime,
            "container_process": container.as_json() if container is not None else None,
            "card_source": record.card_source,
            "source_directory": record.source_directory,
            "editor": {"socket": str(session.directory.nvim_socket), "available": editor is None, "reason": editor},
            "debugger": {"available": debugger is None, "reason": debugger},
            "build_timeout_s": session.build_timeout(loaded.card.target),
        }

    def replay(self, arguments: dict[str, Any], context: CallContext) -> dict[str, Any]:
        self._check_binding(arguments)
        recipe = arguments.get("allocator")
        if recipe is not None and (faults := field_errors(self._recipe, recipe)):
            raise ToolFailure(
                "bad_recipe", f"the allocator's recipe is wrong at {faults[0].pointer or '/'}: {faults[0].message}"
            )
        self._check_expressions(arguments)
        replay = Replay(
            self._session,
            context,
            arguments["stop"],
            arguments.get("run"),
            arguments["expressions"],
            arguments.get("formats", {}),
            recipe,
            arguments["timeout_ms"] / 1000,
            arguments.get("fresh", False) or arguments.get("varied", False),
            arguments.get("varied", False),
        )
        return {
            "generation": arguments["generation"],
            "snapshot_ref": arguments["snapshot_ref"],
            **replay.replay(),
            "binding": self._bound(self._loaded()),
        }

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
            if arguments.get("follow_panel", False):
                session.pane.follow_panel(arguments["cols"], arguments["rows"])
            else:
                session.pane.resize(*self._wanted_size(arguments))
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
            found = session.relative(found) | {"alive": True}
        return found | {"instance": session.instance.name, "editor_alive": session.editor.condition() is None}

    # -- parts of the handlers -----------------------------------------------------------------------------------------

    def _loaded(self) -> LoadedCard:
        try:
            return self._session.loaded()
        except (OSError, InvalidCard) as error:
            raise ToolFailure("card_unreadable", f"the card's source cannot be read: {error}") from error

    def _bound(self, loaded: LoadedCard) -> dict[str, Any]:
        card = loaded.identity.as_json() | {"title": loaded.card.title}
        return {**self._expected_binding(), "card": card}

    def _expected_binding(self) -> dict[str, str]:
        """The members of the binding that a replay must name."""
        record = self._session.record
        return {
            "container_id": record.container_id,
            "instance": self._session.instance.name,
            "profile": record.profile,
            "target": record.target,
        }

    def _check_binding(self, arguments: dict[str, Any]) -> None:
        for field, actual in self._expected_binding().items():
            if arguments[field] != actual:
                raise ToolFailure(
                    "binding_mismatch",
                    f"{field} is {actual!r}, not {arguments[field]!r}: call session_binding again",
                    field=field,
                    expected=arguments[field],
                    actual=actual,
                )

    def _reset(self) -> tuple[bool, bool]:
        """End the program. Start Neovim and gdb if they have ended. If gdb cannot end the program, restart gdb.

        Returns whether Neovim was started, and whether gdb was started.
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

    def _check_expressions(self, arguments: dict[str, Any]) -> None:
        """Refuse expressions that assign a value or call a function, before gdb gets them."""
        recipe = arguments.get("allocator") or {}
        found = [*arguments["expressions"], *_texts(arguments["stop"].get("if")), *_texts(recipe)]
        macros = self._session.macros(found)
        for expression in found:
            if (reason := expression_fault(expression, macros)) is not None:
                raise ToolFailure("bad_expression", f"{expression} {reason}", expression=expression)

    def _settled_grid(self, columns: int, rows: int) -> tuple[int, int]:
        """Wait until Neovim has taken the terminal's size, and return its grid. A smaller attached UI limits the grid.

        If Neovim waits for a key or runs a command, it takes the terminal's size later. Then that size is returned.
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


def _texts(value: Any) -> Iterator[str]:
    """Every text in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for member in value.values() if isinstance(value, dict) else value:
            yield from _texts(member)
