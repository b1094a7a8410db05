"""The tools of a session's MCP server, as the service calls them: arguments, results, errors.

Any program may listen at the chosen socket, so the output schemas of the server prove nothing. The schemas in this
module decide whether a result is valid. They contain only the members that the service uses; other members are allowed.
"""

from __future__ import annotations

import shlex
import threading
from dataclasses import asdict, dataclass
from typing import Any, TypedDict, cast

from cardapp.card import compared, proof
from cardapp.card.model import AllocatorRecipe, Identity, NodesRecipe, Snapshot
from cardapp.errors import (
    MAX_PEER_TEXT,
    CardAppError,
    CheckpointCancelled,
    CheckpointRejected,
    CommandNotAllowed,
    Conflict,
    DebuggerFailed,
    EditorBlocked,
    EditorUnavailable,
    FieldError,
    McpError,
    McpTimeout,
    ProgramNotStopped,
    SessionUnavailable,
    SnapshotDrift,
    TooSlow,
)
from cardapp.mcp.client import McpClient
from cardapp.schema import field_errors, validator
from cardapp.session_client.failure_details import details

REPLAY = "checkpoint_replay"
MOVES = ("step", "next", "finish", "continue", "interrupt")
RUN_COMMANDS = "run_commands"
CONSTANTS = "read_constants"

SLOW_FALLBACKS = ("late_pc_sign", "no_checkpoint", "failed_restart", "second_run")
"""The possible names in ``fallbacks`` of a replay's result. ``service.json`` describes each."""


class CardResult(TypedDict):
    """The card in the result of ``session_binding``."""

    id: str
    uuid: str
    version: str
    source_sha256: str
    title: str


class ContainerProcess(TypedDict):
    """The pid of a container's first process on the host, and its start time."""

    pid: int
    started: int


class EditorResult(TypedDict):
    """The Neovim in the result of ``session_binding``."""

    socket: str


class BoundCard(TypedDict):
    """The session and its card, in the results of ``session_binding`` and of a replay, after which they are read."""

    container_id: str
    instance: str
    profile: str
    target: str
    card: CardResult


class BindingResult(BoundCard):
    """The members of the result of ``session_binding`` that the service uses."""

    container_process: ContainerProcess | None
    runtime: str
    card_source: str
    editor: EditorResult
    build_timeout_s: float


class DebuggerState(TypedDict):
    """The members of the result of ``debugger_state`` that the service uses."""

    instance: str
    alive: bool
    state: str
    stop_id: str
    reason: str | None


@dataclass(frozen=True)
class Binding:
    """Identifies a session and its present run; the binding changes when the session is restarted."""

    container_id: str
    instance: str
    profile: str
    target: str

    @classmethod
    def of(cls, result: BoundCard) -> Binding:
        """The binding in a result of the session."""
        return cls(result["container_id"], result["instance"], result["profile"], result["target"])

    def as_json(self) -> dict[str, str]:
        return asdict(self)


def card_of(result: BoundCard) -> Identity:
    """The identity of the card in a result of the session."""
    card = result["card"]
    return Identity(card["id"], card["uuid"], card["version"], card["source_sha256"])


def card_difference(name: str, result: BindingResult, served: Identity) -> str | None:
    """A sentence that says how the card of session ``name`` differs from the served card, and what to do; None if they
    are the same."""
    card = card_of(result)
    if card == served:
        return None
    path = result["card_source"]
    serve = f"serve the other card (CARD_SOURCE={shlex.quote(path)} bin/cardapp serve)" if path else "serve its card"
    return (
        f"session {name!r} runs {_titled(card, result['card']['title'])}, this service serves {_titled(served)}: "
        "choose a session of the served card with bin/card-session select NAME, start one with bin/card-session start "
        f"CARD, or {serve}"
    )


def _titled(card: Identity, title: str | None = None) -> str:
    named = f"card {card.id} {card.version} ({card.source_sha256[:12]})"
    return f"{title!r}, {named}" if title else named


# -- the replay ----------------------------------------------------------------------------------------------------


def replay_arguments(
    binding: Binding,
    generation: int,
    key: str,
    snapshot: Snapshot,
    allocator: AllocatorRecipe | NodesRecipe | None,
    *,
    seconds: float,
    fresh: bool = False,
    varied: bool = False,
) -> dict[str, Any]:
    """The arguments of ``checkpoint_replay``. ``seconds`` is the time limit of the replay, without the build.

    If ``fresh`` is true, the session starts the program again, and does not restart a fork checkpoint. If ``varied`` is
    true, whatever the program does not determine itself differs from an ordinary run.

    :raises Conflict: the line of the stop was not looked up yet.
    """
    stop = snapshot.stop
    if stop.text is not None and stop.line is None:
        raise Conflict(
            f"the line of {stop.text!r} in {stop.file} was not looked up: run bin/cardapp record, or check --fix",
            code="not_recorded",
        )
    return {
        **binding.as_json(),
        "generation": generation,
        "snapshot_ref": key,
        "stop": stop.as_json(),
        "run": snapshot.run,
        "expressions": proof.expressions(snapshot),
        "formats": {each.expression: each.format for each in snapshot.expect if each.format is not None},
        "allocator": allocator.as_json() if allocator is not None else None,
        "timeout_ms": max(int(1000 * seconds), 1),
        "fresh": fresh,
        "varied": varied,
    }


def observed(snapshot: Snapshot, reading: dict[str, Any], found: list[proof.Check]) -> dict[str, Any]:
    """Make the member ``observed`` of an operation: the place, each comparison with the card, how many of them compared
    a value, the values and the allocator."""
    counted = compared.count(snapshot, found)
    return {
        "file": reading["file"],
        "line": reading["line"],
        "function": reading["function"],
        "checks": [check.as_json() for check in found],
        "compared": counted.values,
        "partly": counted.partly,
        "values": reading["values"],
        "allocator": reading["allocator"],
        "method": reading["method"],
    }


# -- calls and their errors ----------------------------------------------------------------------------------------

FAILURES: dict[str, type[CardAppError]] = {
    "ambiguous_function": Conflict,
    "bad_condition": Conflict,
    "binding_mismatch": CheckpointRejected,
    "cancelled": CheckpointCancelled,
    "card_unreadable": Conflict,
    "command_not_allowed": CommandNotAllowed,
    "command_refused": Conflict,
    "editor_blocked": EditorBlocked,
    "editor_dead": EditorUnavailable,
    "not_copied": Conflict,
    "program_not_running": Conflict,
    "program_not_stopped": ProgramNotStopped,
    "replay_timeout": TooSlow,
    "source_drift": SnapshotDrift,
    **dict.fromkeys(
        (
            "bad_content",
            "bad_expression",
            "bad_recipe",
            "build_failed",
            "busy",
            "debugger_dead",
            "interrupted",
            "invalid_arguments",
            "no_input",
            "pane_failed",
            "sources_unusable",
            "stop_not_reached",
            "target_crashed",
            "target_exited",
            "unknown_run",
            "unknown_source",
        ),
        DebuggerFailed,
    ),
}
"""The error for each code of the session. Any other code becomes ``debugger_failed``."""


def call_tool(
    client: McpClient,
    tool: str,
    arguments: dict[str, Any],
    *,
    seconds: float,
    cancel: threading.Event | None = None,
) -> dict[str, Any]:
    """Call a tool on ``client`` and return its structured result. Errors become this application's errors."""
    try:
        result = client.call_tool(tool, arguments, timeout=seconds, maximum=seconds, cancel=cancel)
    except McpTimeout as error:
        raise TooSlow(
            f"the session did not answer {tool} within {seconds:g} s; reset it with bin/card-session reset"
        ) from error
    except McpError as error:
        raise SessionUnavailable(
            f"the session failed during {tool} ({error}): restore it with bin/card-session reset"
        ) from error
    if result.is_error:
        raise failure(result.structured, result.text)
    structured: dict[str, Any] = result.structured
    return structured


def session_binding(client: McpClient, *, seconds: float) -> BindingResult:
    """Call ``session_binding``. Raises the errors of :func:`call_tool`."""
    return cast("BindingResult", call_tool(client, "session_binding", {}, seconds=seconds))


def failure(structured: Any, text: str) -> CardAppError:
    """The error for a tool's failure. It keeps the failure's code if that is known, and its details."""
    data = dict(structured) if isinstance(structured, dict) else {}
    code, reason = str(data.pop("code", "")), str(data.pop("reason", "") or text)[:MAX_PEER_TEXT]
    if code not in FAILURES:
        code = DebuggerFailed.code
    kind = FAILURES.get(code, DebuggerFailed)
    if kind is CheckpointRejected:  # the session was replaced after its binding was read
        code = "container_changed"
    found = details(data)
    return kind(
        reason or "the session failed without a reason; reset it with bin/card-session reset",
        code=code,
        extra={"failure": found} if found is not None else None,
    )


# -- valid results -------------------------------------------------------------------------------------------------

_TEXT = {"type": "string"}
_SHORT = {"type": "string", "maxLength": 300}
_SHORT_OR_NULL = {"type": ["string", "null"], "maxLength": 300}
_TEXT_OR_NULL = {"type": ["string", "null"]}
_INTEGER = {"type": "integer"}
_INTEGER_OR_NULL = {"type": ["integer", "null"]}
_BOOLEAN = {"type": "boolean"}


def _record(**properties: dict[str, Any]) -> dict[str, Any]:
    required = [name for name, schema in properties.items() if "default" not in schema]
    return {"type": "object", "properties": properties, "required": required}


_SIZE = _record(cols={"type": "integer", "minimum": 1}, rows={"type": "integer", "minimum": 1})
_BLOCK = _record(offset=_INTEGER, size=_INTEGER, label=_TEXT_OR_NULL)
_BLOCKS = {"type": "array", "items": _BLOCK}
_ARENA = _record(base=_INTEGER, size=_INTEGER, used=_INTEGER, high_water=_INTEGER_OR_NULL, blocks=_BLOCKS)
_NULL = {"type": "null"}
_VALUES = {"type": "object", "additionalProperties": _record(value=_TEXT_OR_NULL, error=_TEXT_OR_NULL)}
_NODES = _record(base=_NULL, size=_NULL, used=_NULL, high_water=_NULL, blocks=_BLOCKS)
_BOUND: dict[str, dict[str, Any]] = {
    "container_id": _SHORT,
    "instance": _SHORT,
    "profile": _SHORT,
    "target": _SHORT,
    "card": _record(
        id={"type": "string", "pattern": "^[a-z0-9][a-z0-9-]*$", "maxLength": 200},
        uuid=_SHORT,
        version=_SHORT,
        source_sha256={"type": "string", "pattern": "^[0-9a-f]{64}$"},
        title=_SHORT,
    ),
}
_BY_TOOL = {
    "session_binding": _record(
        **_BOUND,
        container_process={"anyOf": [_record(pid=_INTEGER, started=_INTEGER), _NULL]},
        runtime=_SHORT,
        card_source={"type": "string", "maxLength": 4096},
        editor=_record(socket={"type": "string", "pattern": "^[^\\u0000]*$"}),
        build_timeout_s={"type": "number", "minimum": 0, "maximum": 3600},
    ),
    REPLAY: _record(
        binding=_record(**_BOUND),
        method={"enum": ["rerun", "fork"]},
        fresh=_BOOLEAN,
        fallbacks={"type": "array", "items": {"enum": list(SLOW_FALLBACKS)}, "maxItems": 1000},
        file=_TEXT_OR_NULL,
        line=_INTEGER_OR_NULL,
        function=_TEXT_OR_NULL,
        causes={"type": "array", "items": _TEXT, "maxItems": 10},
        inside=_TEXT_OR_NULL,
        signal=_TEXT_OR_NULL,
        values=_VALUES,
        held={"anyOf": [_VALUES, _NULL], "default": None},
        allocator={"anyOf": [_ARENA, _NODES, _NULL]},
        stop_id=_TEXT,
    ),
    "target_reset": _record(stop_id=_TEXT, debugger_restarted=_BOOLEAN, editor_restarted=_BOOLEAN),
    "list_sources": _record(
        copied=_BOOLEAN,
        files={"type": "array", "maxItems": 10_000, "items": _record(file=_TEXT, sha256=_TEXT_OR_NULL)},
    ),
    "read_source": _record(content=_TEXT_OR_NULL),
    "restore_source": _record(backup=_SHORT_OR_NULL),
    "pane_fit": _record(host=_SIZE, grid=_SIZE),
    "debugger_state": _record(instance=_TEXT, alive=_BOOLEAN, state=_TEXT, stop_id=_TEXT, reason=_TEXT_OR_NULL),
}


_STATE: dict[str, dict[str, Any]] = {
    "state": {"enum": ["none", "running", "stopped", "exited"]},
    "stop_id": _TEXT,
    "file": _TEXT_OR_NULL,
    "line": _INTEGER_OR_NULL,
    "function": _TEXT_OR_NULL,
    "reason": _TEXT_OR_NULL,
}
_FRAME = _record(level=_INTEGER, function=_TEXT_OR_NULL, file=_TEXT_OR_NULL, line=_INTEGER_OR_NULL)
_LOCAL = _record(name=_TEXT, type=_TEXT, value=_TEXT)
_BY_TOOL |= {
    **{command: _record(**_STATE) for command in MOVES},
    RUN_COMMANDS: _record(
        **_STATE, outputs={"type": "array", "items": {"type": "string", "maxLength": 4000}, "maxItems": 20}
    ),
    "backtrace": _record(**_STATE, frames={"type": "array", "items": _FRAME, "maxItems": 64}),
    CONSTANTS: _record(
        values={"type": "object", "additionalProperties": _record(value=_SHORT, number=_INTEGER_OR_NULL)}
    ),
    "locals": _record(**_STATE, locals={"type": "array", "items": _LOCAL, "maxItems": 200}),
}
_CHECKERS = {tool: validator(schema) for tool, schema in _BY_TOOL.items()}


def result_faults(tool: str, structured: Any) -> tuple[FieldError, ...]:
    """The faults of the structured result of ``tool``; empty for a tool that the service never calls."""
    checker = _CHECKERS.get(tool)
    return field_errors(checker, structured) if checker is not None else ()
