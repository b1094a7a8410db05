"""What a session reports about a failed replay, as the API shows it: the build, the program's end, or the source line.

A session is not trusted. A part that is invalid or too large is left out.
"""

from __future__ import annotations

from typing import Any

from cardapp.schema import validator

Details = dict[str, Any]

_TEXT = {"type": "string", "maxLength": 4000}
_TEXT_OR_NULL = {"type": ["string", "null"], "maxLength": 4000}
_NUMBER = {"type": "integer", "minimum": 0}
_INTEGER_OR_NULL = {"type": ["integer", "null"]}
_LINES = {"type": "array", "items": _TEXT, "maxItems": 200}


def _record(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


_MESSAGE = _record(
    file=_TEXT, line=_NUMBER, column=_INTEGER_OR_NULL, kind={"enum": ["error", "warning", "note"]}, text=_TEXT
)
_PLACE = _record(file=_TEXT_OR_NULL, line=_INTEGER_OR_NULL, function=_TEXT_OR_NULL, inside=_TEXT_OR_NULL)
_PARTS = {
    "build": _record(
        command=_TEXT,
        directory=_TEXT,
        output=_LINES,
        messages={"type": "array", "items": _MESSAGE, "maxItems": 50},
    ),
    "program": _record(
        exit_code=_INTEGER_OR_NULL,
        signal=_TEXT_OR_NULL,
        reached=_NUMBER,
        hits=_NUMBER,
        place={"anyOf": [_PLACE, {"type": "null"}]},
        printed=_LINES,
    ),
    "source": _record(file=_TEXT, line=_NUMBER, expected=_TEXT, found=_TEXT_OR_NULL),
}
_CHECKERS = {name: validator(schema) for name, schema in _PARTS.items()}


def details(data: dict[str, Any]) -> Details | None:
    """``{build, program, source}`` of a failure that has the members ``data``. A part is None if it does not apply.

    Returns None if the session has reported none of them.
    """
    reported = {"build": data.get("build"), "program": _program(data), "source": _members("source", data)}
    found = {name: part if _CHECKERS[name].is_valid(part) else None for name, part in reported.items()}
    return found if any(found.values()) else None


def _program(data: dict[str, Any]) -> dict[str, Any]:
    return _members("program", {"exit_code": None, "signal": None, "place": None} | data)


def _members(name: str, data: dict[str, Any]) -> dict[str, Any]:
    return {member: data[member] for member in _PARTS[name]["properties"] if member in data}
