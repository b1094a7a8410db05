"""Proves a replay: compares what the session observed at the stop with what the card expects.

Numbers are compared as numbers (``0x30`` equals ``48``, ``97 'a'`` equals ``97``, ``NULL`` equals ``0x0``), within a
tolerance if one is given.
Strings are compared without the address that gdb prints before them, and may be written without quotes. ``*`` in place
of a value, as in ``{x = 1, next = *}``, stands for any pointer, whatever it points to; in ``{name = * "ada"}`` the text
is compared. Everything else is compared as text, with each run of white space
outside of quotes as one blank.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from cardapp.card.model import Expectation, Snapshot

_ADDRESS = re.compile(r"^(?:\([^()]*\*+\)\s*)?0x[0-9a-f]+\s+(?=[LuU]?8?\")")
_CHARACTER = re.compile(r"^(-?\d+) (L?'(?:\\.[^']*|[^'])')$")
_LEADING_NUMBER = re.compile(r"^(?:\([^()]*\*+\)\s*)?([+-]?(?:0[xX][0-9a-fA-F]+|\d+))(?:\s+<[^>]*>)?$")
_WORDS = {"true": 1, "false": 0, "NULL": 0, "nullptr": 0}
_BEGIN_OF_TEXT = re.compile(r"""[LuU]?8?(?:"|'(?:\\.[^']*|[^'])' <repeats )""")
_TEXT = re.compile(r'^[LuU]?8?"((?:\\.|[^"\\])*)"')
_MASK = re.compile(r"(?:^|(?<=[ {(\[]))\*(?=[,})\]]|$)")
_POINTER = re.compile(r"(?:\([^()]*\*+\)\s?)?(?:0x[0-9a-f]+|\*)(?![^ ,})\]])")
_END_OF_VALUE = re.compile(r"""[,})\]]|[{(\[]|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'""")
_QUOTED = re.compile(r'"(?:\\.|[^"\\])*"')
_LEFT_OUT = re.compile(r"…|\(Weak\)")
"""The signs for what is too long or too deep, and for what a ``Weak`` of Rust refers to."""
_BLANKS = re.compile(r"\s+")
_PRECISE = re.compile(r"-?\d+\.\d+(?:e[-+]\d+)?")
_UNREAD = re.compile(r"<(?:cannot be read|error|optimized out|synthetic pointer|not saved|unavailable)[^>]*>")
_SOME_ADDRESS = re.compile(r"(?<!nan\()(?<!unknown: )\b0x[0-9a-f]{4,}")


HIDDEN = "has a part that the card hides behind a *"


@dataclass(frozen=True)
class Check:
    """The result of one comparison. ``name`` is ``file``, ``line``, ``function`` or an expression.

    ``match`` is None for a value that the card calls undefined: it is shown, and not compared. ``partly`` is true for a
    match that does not cover the whole value (:func:`partly`).
    """

    name: str
    expected: str
    actual: str | None
    match: bool | None
    partly: bool = False

    def as_json(self) -> dict[str, Any]:
        found = {"name": self.name, "expected": self.expected, "actual": self.actual, "match": self.match}
        return found | ({"partly": True} if self.partly else {})


def same_value(expected: Expectation, actual: str) -> bool:
    """Whether ``actual``, which gdb printed, equals the value that the card expects."""
    wanted, found = _plain(expected.value), _plain(actual)
    if wanted == found:
        return True
    character = _CHARACTER.match(found)
    if character is not None and wanted == character[2]:
        return True
    number, other = _number(wanted), _number(found)
    if number is not None and other is not None:
        if expected.tolerance is None and _is_precise(wanted) and _is_precise(found):
            return Decimal(wanted) == Decimal(found)
        return number == other or abs(number - other) <= (expected.tolerance or 0)
    return _same_text(expected.value.strip(), found) or _pointers(wanted, found) is not None


def partly(expected: Expectation, actual: str) -> bool:
    """Whether a part of ``actual``, which matches, is not compared."""
    return uncompared(expected, actual) is not None


def uncompared(expected: Expectation, actual: str) -> str | None:
    """Why a part of ``actual``, which matches, is not compared, as a predicate; None if all of it is.

    An expected ``*`` hides what is behind a pointer: a text, a function's name, the value that an owner shows; and that
    the pointer is null.
    """
    if hides(expected, actual):
        return HIDDEN
    if (lost := unread(actual)) is not None:
        return f"has a part that gdb cannot read: {lost}"
    if (left_out := _LEFT_OUT.search(_QUOTED.sub("", actual))) is not None:
        return f"has a part that is not shown ({left_out[0]}), and not compared"
    return None


def hides(expected: Expectation, actual: str) -> bool:
    """Whether a ``*`` of the card hides a part of ``actual``, which matches."""
    pointers = _pointers(_plain(expected.value), _plain(actual)) or ()
    return any(_POINTER.fullmatch(each) is None or _number(each) == 0 for each in pointers)


def unread(actual: str) -> str | None:
    """The words of gdb for a part of the value that it could not read, like ``<optimized out>``. None: it read all."""
    found = _UNREAD.search(_QUOTED.sub("", actual))
    return found[0] if found is not None else None


def recordable(actual: str) -> str:
    """The form in which a card records ``actual``, which the session reported. It is equal by :func:`same_value`."""
    return _ADDRESS.sub("", actual.strip())


def is_address(recorded: str) -> bool:
    """Whether a recorded value has an address, which may differ on another machine."""
    return _SOME_ADDRESS.search(_QUOTED.sub("", recorded)) is not None


def _same_text(wanted: str, found: str) -> bool:
    """Whether ``found`` is a string with the text ``wanted``, which may be quoted."""
    shown = found.removesuffix("…")
    return _TEXT.fullmatch(shown) is not None and _unquoted(shown) == _unquoted(wanted)


def _unquoted(text: str) -> str:
    quoted = _TEXT.fullmatch(text)
    return quoted[1] if quoted is not None else text


def _pointers(wanted: str, found: str) -> list[str] | None:
    """The pointers in ``found`` in the places of each ``*`` of ``wanted``, with what they point to. None if anything
    else differs."""
    if wanted == "*" and _BEGIN_OF_TEXT.match(found):  # that of a ``char *``, which stands without its pointer
        return [found]
    first, *others = _MASK.split(wanted)
    at = len(first)
    pointers = []
    same = found.startswith(first)
    for other in others:
        end = _end_of_value(found, at)
        pointers.append(found[at:end])
        same = same and _POINTER.match(found, at) is not None and found.startswith(other, end)
        at = end + len(other)
    return pointers if same and at == len(found) else None


def _end_of_value(text: str, at: int) -> int:
    """Where the value ends that begins at ``at``: before a comma or a bracket that closes what is around it."""
    depth = 0
    for part in _END_OF_VALUE.finditer(text, at):
        if depth == 0 and part[0] in ",})]":
            return part.start()
        depth += {"{": 1, "(": 1, "[": 1, "}": -1, ")": -1, "]": -1}.get(part[0], 0)
    return len(text)


def _plain(text: str) -> str:
    """The value without the address of a text, with each run of white space outside of texts as one blank."""
    parts = re.split(f"({_QUOTED.pattern})", text.strip())
    return _ADDRESS.sub("", "".join(each if at % 2 else _BLANKS.sub(" ", each) for at, each in enumerate(parts)))


def _is_precise(text: str) -> bool:
    """Whether it is a floating point number with more digits than a ``double`` has: a ``long double``."""
    return _PRECISE.fullmatch(text) is not None and len(re.sub(r"\D|e.*", "", text).lstrip("0")) > 17


def _number(text: str) -> int | float | None:
    if text in _WORDS:
        return _WORDS[text]
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

    ``observed`` is the report of the session's replay, with ``file``, ``line``, ``function``, ``values``
    (``{expression: {value, error}}``) and, if they are known, ``signal`` and ``inside``: the function that the program
    executes, if it is not ``function``.
    """
    stop = snapshot.stop
    if stop.signal is not None:
        found = [_place("signal", stop.signal, observed.get("signal"))]
    elif stop.function is not None:
        found = [_function_check(stop.function, observed)]
    else:
        found = [_place("file", stop.file, observed["file"]), _place("line", stop.line, observed["line"])]
    return found + [_value_check(expected, observed["values"]) for expected in snapshot.expect]


def _function_check(expected: str, observed: dict[str, Any]) -> Check:
    """The check of a stop at a function. If the function has no source, the place is its caller."""
    names = [name for name in (observed.get("inside"), observed["function"]) if name is not None]
    match = any(name == expected or _bare(name).endswith(f"::{_bare(expected)}") for name in names)
    match = match or any(_bare(name) == _bare(expected) for name in names)
    return Check("function", expected, names[0] if names else None, match)


def _bare(function: str) -> str:
    """The name without its parameters: gdb names a C++ function with or without them."""
    return function.split("(", 1)[0].strip()


def _place(name: str, expected: object, actual: object) -> Check:
    return Check(name, str(expected), None if actual is None else str(actual), expected == actual)


def _value_check(expected: Expectation, values: dict[str, dict[str, Any]]) -> Check:
    name = expected.expression
    reading = values.get(name, {"value": None, "error": "the session did not report it"})
    value = reading["value"]
    if expected.undefined:
        return Check(name, expected.value, f"<{reading['error']}>" if value is None else value, None)
    if value is None:
        return Check(name, expected.value, f"<{reading['error']}>", False)
    match = same_value(expected, value)
    return Check(name, expected.value, value, match, match and partly(expected, value))


def expressions(snapshot: Snapshot) -> list[str]:
    """The expressions to read at the stop: those with an expected value, the watched and the asked ones. No
    duplicates."""
    return list(dict.fromkeys([*(each.expression for each in snapshot.expect), *snapshot.watch, *snapshot.ask]))


def drift_reason(found: list[Check], causes: Sequence[str] = ()) -> str | None:
    """A sentence that names the first mismatch, and the ``causes`` that the session saw; None if all checks match."""
    wrong = [check for check in found if check.match is False]
    if not wrong:
        return None
    first = wrong[0]
    more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
    reason = f"{first.name} is {first.actual}, but the card expects {first.expected}{more}"
    return "; ".join([reason, *causes])
