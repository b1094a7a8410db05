"""The tools that move the program with gdb's commands, and that read its call stack and its locals."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from cardapp.card import strategy
from cardapp.errors import CardAppError, TooSlow
from cardapp.mcp.tool import CallContext, Tool, ToolFailure
from cardapp.session_host.gdb_client import DebuggerGone
from cardapp.session_host.session import Session
from cardapp.session_host.session_tools import (
    INTEGER,
    INTEGER_OR_NULL,
    NOTHING,
    TEXT,
    TEXT_OR_NULL,
    Schema,
    closed_object,
    tool_schema,
)

TURN_SECONDS = 0.5
MOVE_SECONDS = 2.0
"""A program that runs longer is reported as running. It may wait for input, or run in an endless loop."""
READ_SECONDS = 3.0
COMMANDS_SECONDS = 5.0
"""After this time no further command of a strategy is run."""
INTERRUPT_SECONDS = COMMANDS_SECONDS + 0.5
"""After this time the program is interrupted. gdb, which began to count later, then begins no further command."""

STATE: dict[str, Schema] = {
    "state": {"enum": ["none", "running", "stopped", "exited"]},
    "stop_id": TEXT,
    "file": TEXT_OR_NULL,
    "line": INTEGER_OR_NULL,
    "function": TEXT_OR_NULL,
    "reason": TEXT_OR_NULL,
}
FRAME = closed_object(
    {"level": INTEGER, "function": TEXT_OR_NULL, "file": TEXT_OR_NULL, "line": INTEGER_OR_NULL},
)
LOCAL = closed_object({"name": TEXT, "type": TEXT, "value": TEXT})
MOVE_OUT = tool_schema(STATE)
BACKTRACE_OUT = tool_schema(STATE | {"frames": {"type": "array", "items": FRAME}})
COMMANDS_IN = tool_schema(
    {
        "stop_id": TEXT,
        "commands": {"type": "array", "items": {"type": "string", "maxLength": 500}, "minItems": 1, "maxItems": 20},
    }
)
COMMANDS_OUT = tool_schema(STATE | {"outputs": {"type": "array", "items": TEXT, "maxItems": 20}})
CONSTANTS_IN = tool_schema(
    {"texts": {"type": "array", "items": {"type": "string", "minLength": 1, "maxLength": 200}, "maxItems": 100}}
)
CONSTANTS_OUT = tool_schema(
    {
        "values": {
            "type": "object",
            "additionalProperties": closed_object({"value": TEXT, "number": INTEGER_OR_NULL}),
        }
    }
)
LOCALS_OUT = tool_schema(STATE | {"locals": {"type": "array", "items": LOCAL}})

_ANSWER = f"Answers where it has stopped, how it has ended, or after {MOVE_SECONDS:g} s that it is running."
# gdb's command, title, description.
MOVES = (
    ("step", "Step", f"Execute one line of the stopped program; enter the functions that it calls. {_ANSWER}"),
    ("next", "Next line", f"Execute one line of the stopped program, with the functions that it calls. {_ANSWER}"),
    ("finish", "Finish", f"Let the stopped program return from its function. {_ANSWER}"),
    ("continue", "Continue", f"Let the stopped program run to a breakpoint, a signal or its end. {_ANSWER}"),
)


class ProgramTools:
    """The tools of one session. Every handler may be called from any thread."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def tools(self) -> list[Tool]:
        moves = [Tool(*described, NOTHING, MOVE_OUT, partial(self._move, described[0])) for described in MOVES]
        return [
            *moves,
            Tool(
                "interrupt",
                "Interrupt",
                "Stop the running program with SIGINT. A program that blocks this signal goes on running.",
                NOTHING,
                MOVE_OUT,
                self._interrupt,
            ),
            Tool(
                "backtrace",
                "Call stack",
                "The functions that are being executed, the innermost first; at most 64 frames, and none unless the "
                "program is stopped.",
                NOTHING,
                BACKTRACE_OUT,
                self._backtrace,
            ),
            Tool(
                "locals",
                "Local variables",
                "The arguments and local variables of the innermost function with source, as gdb prints them; none "
                "unless the program is stopped. A variable that has no value yet shows what its memory holds.",
                NOTHING,
                LOCALS_OUT,
                self._locals,
            ),
            Tool(
                "read_constants",
                "Read constants",
                "The values of those texts that are constant expressions of literals and of the program's types, "
                "constants and macros, such as sizeof(struct node). Variables, memory and calls have none. The names "
                "are those of the place where the program stands; while it runs, no text has a value.",
                CONSTANTS_IN,
                CONSTANTS_OUT,
                self._constants,
            ),
            Tool(
                "run_commands",
                "Run a strategy",
                f"Run gdb commands at the stop stop_id: {', '.join(strategy.COMMANDS)}, by their full names. "
                "Expressions must not assign or call. Answers at most 4000 characters of what each prints. After "
                f"{COMMANDS_SECONDS:g} s the program is interrupted, and the rest is not run.",
                COMMANDS_IN,
                COMMANDS_OUT,
                self._commands,
            ),
        ]

    def _move(self, command: str, _arguments: dict[str, Any], context: CallContext) -> dict[str, Any]:
        with self._turn(context):
            return self._session.relative(self._moved(command, context))

    def _interrupt(self, _arguments: dict[str, Any], context: CallContext) -> dict[str, Any]:
        gdb = self._session.gdb
        with self._turn(context):
            before = gdb.call("state", timeout=READ_SECONDS)
            if before["state"] != "running":
                raise ToolFailure("program_not_running", "the program does not run, so it cannot be interrupted")
            gdb.call("interrupt", timeout=READ_SECONDS)
            waiting = {"unless": before["stop_id"], "seconds": MOVE_SECONDS}
            return self._session.relative(gdb.call("state", timeout=MOVE_SECONDS + READ_SECONDS, **waiting))

    def _commands(self, arguments: dict[str, Any], context: CallContext) -> dict[str, Any]:
        macros = self._session.macros(arguments["commands"])
        for command in arguments["commands"]:
            if (reason := strategy.fault(command, macros)) is not None:
                raise ToolFailure("command_not_allowed", f"{command!r} {reason}")
        named = [{"name": strategy.name_of(each), "text": each} for each in arguments["commands"]]
        given = {"stop_id": arguments["stop_id"], "commands": named, "moves": sorted(strategy.MOVES)}
        gdb = self._session.gdb
        with self._turn(context), gdb.begin("commands", **given, seconds=COMMANDS_SECONDS) as pending:
            # A program may ignore SIGINT, but not SIGKILL.
            for hard in (False, True):
                try:
                    return self._session.relative(pending.result(INTERRUPT_SECONDS, context.cancelled))
                except TooSlow:
                    gdb.call("interrupt", timeout=READ_SECONDS, hard=hard)
            return self._session.relative(pending.result(READ_SECONDS))

    @contextmanager
    def _turn(self, context: CallContext) -> Iterator[None]:
        with _failures():
            try:
                with self._session.turn(TURN_SECONDS, context.cancelled):
                    yield
            except TooSlow as error:
                raise ToolFailure("program_not_stopped", f"{error.detail}: wait for its end") from error

    def _moved(self, command: str, context: CallContext) -> dict[str, Any]:
        gdb = self._session.gdb
        with gdb.begin("move", command=command) as pending:
            try:
                found: dict[str, Any] = pending.result(MOVE_SECONDS, context.cancelled)
            except TooSlow:
                found = gdb.call("state", timeout=READ_SECONDS)
        return found

    def _backtrace(self, _arguments: dict[str, Any], _context: CallContext) -> dict[str, Any]:
        found = self._read("call_stack")
        return found | {"frames": [self._session.relative(frame) for frame in found["frames"]]}

    def _locals(self, _arguments: dict[str, Any], _context: CallContext) -> dict[str, Any]:
        return self._read("locals")

    def _constants(self, arguments: dict[str, Any], _context: CallContext) -> dict[str, Any]:
        gdb = self._session.gdb
        with _failures():
            if gdb.call("state", timeout=READ_SECONDS)["state"] == "running":
                return {"values": {}}
            return {"values": gdb.call("constants", timeout=READ_SECONDS, texts=arguments["texts"])}

    def _read(self, what: str) -> dict[str, Any]:
        with _failures():
            return self._session.relative(self._session.gdb.call(what, timeout=READ_SECONDS))


@contextmanager
def _failures() -> Iterator[None]:
    """Raise the errors of the channel to gdb as the tool's failures."""
    try:
        yield
    except DebuggerGone as error:
        raise ToolFailure(error.code, f"{error.detail}; reset the session") from error
    except CardAppError as error:
        raise ToolFailure(error.code, error.detail) from error
