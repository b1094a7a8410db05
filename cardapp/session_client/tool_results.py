"""The schemas that validate the results of the session's tools.

Any program may listen at the chosen socket, so the output schemas that it declares prove nothing: these decide. They
hold what the service uses of a result; further members are allowed.
"""

from __future__ import annotations

from typing import Any

from cardapp.errors import FieldError
from cardapp.schema import field_errors, validator
from cardapp.session_client import fallbacks, replay_tool

_TEXT = {"type": "string"}
_SHORT = {"type": "string", "maxLength": 300}
_TEXT_OR_NULL = {"type": ["string", "null"]}
_INTEGER = {"type": "integer"}
_INTEGER_OR_NULL = {"type": ["integer", "null"]}
_BOOLEAN = {"type": "boolean"}


def _record(**properties: dict[str, Any]) -> dict[str, Any]:
    required = [name for name, schema in properties.items() if "default" not in schema]
    return {"type": "object", "properties": properties, "required": required}


_SIZE = _record(cols={"type": "integer", "minimum": 1}, rows={"type": "integer", "minimum": 1})
_BLOCK = _record(offset=_INTEGER, size=_INTEGER, label=_TEXT_OR_NULL)
_ARENA = _record(
    base=_INTEGER, size=_INTEGER, used=_INTEGER, high_water=_INTEGER_OR_NULL, blocks={"type": "array", "items": _BLOCK}
)
_BY_TOOL = {
    "session_binding": _record(
        # Sessions of the local runtime and of older releases have none.
        container_process={"anyOf": [_record(pid=_INTEGER, started=_INTEGER), {"type": "null"}], "default": None},
        container_id=_SHORT,
        instance=_SHORT,
        profile=_SHORT,
        target=_SHORT,
        runtime=_SHORT,
        card=_record(
            id={"type": "string", "pattern": "^[a-z0-9][a-z0-9-]*$", "maxLength": 200},
            uuid=_SHORT,
            version=_SHORT,
            source_sha256={"type": "string", "pattern": "^[0-9a-f]{64}$"},
        ),
        editor=_record(socket={"type": "string", "pattern": "^[^\\u0000]*$"}),
    ),
    replay_tool.TOOL: _record(
        method={"enum": ["rerun", "fork"]},
        fresh=_BOOLEAN,
        # A session that an earlier release started does not report them.
        fallbacks={"type": "array", "items": {"enum": list(fallbacks.NAMES)}, "maxItems": 1000, "default": []},
        file=_TEXT_OR_NULL,
        line=_INTEGER_OR_NULL,
        function=_TEXT_OR_NULL,
        values={"type": "object", "additionalProperties": _record(value=_TEXT_OR_NULL, error=_TEXT_OR_NULL)},
        allocator={"anyOf": [_ARENA, {"type": "null"}]},
        stop_id=_TEXT,
    ),
    "target_reset": _record(stop_id=_TEXT, debugger_restarted=_BOOLEAN, editor_restarted=_BOOLEAN),
    "pane_fit": _record(host=_SIZE, grid=_SIZE),
    "debugger_state": _record(instance=_TEXT, alive=_BOOLEAN, state=_TEXT, stop_id=_TEXT),
}


_CHECKERS = {tool: validator(schema) for tool, schema in _BY_TOOL.items()}


def faults(tool: str, structured: Any) -> tuple[FieldError, ...]:
    """What is wrong with the structured result of ``tool``; empty for a tool that the service never calls."""
    checker = _CHECKERS.get(tool)
    return field_errors(checker, structured) if checker is not None else ()
