"""Proves a replay: compares what the session observed at the stop with what the card expects.

Numbers are compared as numbers (``0x30`` equals ``48``, ``97 'a'`` equals ``97``). Strings are compared without the
address that gdb prints before them. Everything else is compared as text, with each run of white space as one blank.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from cardapp.card.model import Snapshot

_ADDRESS = re.compile(r"^(?:\([^()]*\*+\)\s*)?0x[0-9a-f]+\s+(?=[LuU]?8?\")")
_CHARACTER = re.compile(r"^(-?\d+) (L?'(?:\\.[^']*|[^'])')$")
_LEADING_NUMBER = re.compile(r"^(?:\([^()]*\*+\)\s*)?([+-]?(?:0[xX][0-9a-fA-F]+|\d+))(?:\s+<[^>]*>)?$")
_TRUTH = {"true": 1, "false": 0}


@dataclass(frozen=True)
class Check:
    """The result of one comparison. ``name`` is ``file``, ``line``, ``function`` or an expression."""

    name: str
    expected: str
    actual: str | None
    match: bool

    def as_json(self) -> dict[str, Any]:
        return {"name": self.name, "expected": self.expected, "actual": self.actual, "match": self.match}


def same_value(expected: str, actual: str) -> bool:
    """Whether ``actual``, which gdb printed, equals ``expected``, which the card gives."""
    wanted, found = _plain(expected), _plain(actual)
    if wanted == found:
        return True
    character = _CHARACTER.match(found)
    if character is not None and wanted == character[2]:
        return True
    number, other = _number(wanted), _number(found)
    return number is not None and number == other


def _plain(text: str) -> str:
    return _ADDRESS.sub("", " ".join(text.split()))


def _number(text: str) -> int | float | None:
    if text in _TRUTH:
        return _TRUTH[text]
    character = _CHARACTER.match(text)
    if character is not None:
        return int(character[1])
    integer = _LEADING_NUMBER.match(text)
    if integer is not None:
        return int(integer[1], 16 if "x" in integer[1].lower() else 10)
    try:
        return float(text)
    except ValueError:
        return None


def checks(snapshot: Snapshot, observed: dict[str, Any]) -> list[Check]:
    """Make all comparisons that prove ``snapshot``.

    ``observed`` is the report of the session's replay, with ``file``, ``line``, ``function`` and ``values``
    (``{expression: {value, error}}``).
    """
    stop = snapshot.stop
    if stop.function is not None:
        found = [_place("function", stop.function, observed["function"])]
    else:
        found = [_place("file", stop.file, observed["file"]), _place("line", stop.line, observed["line"])]
    return found + [_value_check(name, expected, observed["values"]) for name, expected in snapshot.expect]


def _place(name: str, expected: object, actual: object) -> Check:
    return Check(name, str(expected), None if actual is None else str(actual), expected == actual)


def _value_check(name: str, expected: str, values: dict[str, dict[str, Any]]) -> Check:
    reading = values.get(name, {"value": None, "error": "the session did not report it"})
    value = reading["value"]
    if value is None:
        return Check(name, expected, f"<{reading['error']}>", False)
    return Check(name, expected, value, same_value(expected, value))


def expressions(snapshot: Snapshot) -> list[str]:
    """The expressions to read at the stop: first those with an expected value, then the watched ones. No duplicates."""
    return list(dict.fromkeys([name for name, _ in snapshot.expect] + list(snapshot.watch)))


def drift_reason(found: list[Check]) -> str | None:
    """A sentence that names the first mismatch; None if all checks match."""
    wrong = [check for check in found if not check.match]
    if not wrong:
        return None
    first = wrong[0]
    more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
    return f"{first.name} is {first.actual}, but the card expects {first.expected}{more}"
