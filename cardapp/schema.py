"""JSON Schema 2020-12 validation as this application means it.

Three things differ from the library's defaults: ``true`` is no integer and no number (nor is ``1.0`` an integer), a
``$`` at the end of a pattern does not let a final line feed through (as in ECMA-262, unlike Python), and every error
is reported, as the JSON pointer (RFC 6901) of its field and a sentence in the words of JSON.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, NoReturn

import jsonschema
from jsonschema.protocols import Validator

from cardapp.errors import FieldError

_types = jsonschema.Draft202012Validator.TYPE_CHECKER.redefine(
    "integer", lambda _checker, value: isinstance(value, int) and not isinstance(value, bool)
).redefine("number", lambda _checker, value: isinstance(value, int | float) and not isinstance(value, bool))

MAX_DEPTH = 500
"""Arrays and objects within each other; half of what Python's own stack holds (``sys.getrecursionlimit``)."""

_MOST_DIGITS = 300
"""A whole number of more would not be one that a double holds."""

_ESCAPED_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_HALF = re.compile("[\ud800-\udfff]")

_SHOWN = 60
"""Characters of a value that a message repeats."""


def _pattern(_checker: Validator, pattern: str, value: Any, _schema: Any) -> Iterator[jsonschema.ValidationError]:
    if isinstance(value, str) and not _matches(pattern, value):
        yield jsonschema.ValidationError("does not match")


@cache
def matcher(pattern: str) -> re.Pattern[str]:
    """A schema's pattern, whose ``$`` is the end of the text."""
    return re.compile(re.sub(r"(?<!\\)\$$", r"\\Z", pattern))


def _matches(pattern: str, text: str) -> bool:
    return matcher(pattern).search(text) is not None


_StrictValidator: Any = jsonschema.validators.extend(  # type: ignore[no-untyped-call]
    jsonschema.Draft202012Validator, validators={"pattern": _pattern}, type_checker=_types
)


def validator(schema: dict[str, Any], registry: Any = None) -> Validator:
    """A reusable validator of ``schema``; ``registry`` resolves references (none is ever fetched from a network)."""
    found: Validator = _StrictValidator(schema) if registry is None else _StrictValidator(schema, registry=registry)
    return found


def decode(raw: bytes) -> Any:
    """The JSON in ``raw``; ``ValueError`` says what is wrong with it, in words that follow its name ("the body …").

    Stricter than JSON, so that whatever is taken can be shown, stored and sent on: a name stands once in an object
    (of two, one would be dropped silently), numbers are finite and of a length that a double holds, text has no half
    of a surrogate pair, and nothing is nested so deeply that a walk through it would end Python's stack."""
    try:
        value = json.loads(
            raw.decode("utf-8"),
            object_pairs_hook=_unique_names,
            parse_int=_whole,
            parse_float=_finite,
            parse_constant=_no_number,
        )
    except UnicodeDecodeError as error:
        raise ValueError(f"is not UTF-8 (byte {error.start})") from error
    except RecursionError as error:
        raise ValueError("is nested too deeply") from error
    except json.JSONDecodeError as error:
        raise ValueError(f"is not JSON: {error.msg} at line {error.lineno}, column {error.colno}") from error
    if _is_deeper(value, MAX_DEPTH):
        raise ValueError("is nested too deeply")
    if _ESCAPED_SURROGATE.search(raw):
        _refuse_halves(value)
    return value


def _unique_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"is ambiguous: the name {name[:80]!r} stands twice in one object")
        found[name] = value
    return found


def _whole(text: str) -> int:
    if len(text) > _MOST_DIGITS:
        raise ValueError(f"holds a number of {len(text)} digits; at most {_MOST_DIGITS} are taken")
    return int(text)


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"holds the number {text[:40]}, which is too large")
    return value


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"holds {name}, which is no JSON value")


def _refuse_halves(value: Any) -> None:
    """An iterative walk, so that no input recurses here."""
    parts: list[tuple[tuple[str | int, ...], Any]] = [((), value)]
    while parts:
        path, part = parts.pop()
        if isinstance(part, dict):
            parts += [((*path, name), child) for name, child in part.items()]
            parts += [(path, name) for name in part]
        elif isinstance(part, list):
            parts += [((*path, number), child) for number, child in enumerate(part)]
        elif isinstance(part, str) and _HALF.search(part):
            place = _HALF.sub("\ufffd", pointer(path)) or "/"
            raise ValueError(f"holds half of a surrogate pair, which is no character, at {place}")


def _is_deeper(value: Any, depth: int) -> bool:
    level = [value]
    for _ in range(depth):
        level = [part for each in level for part in _parts(each) if isinstance(part, dict | list)]
        if not level:
            return False
    return True


def _parts(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def pointer(parts: Iterable[str | int]) -> str:
    """The JSON pointer of a path into a document; "" is the whole document."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in parts)


def field_errors(checker: Validator, value: Any) -> tuple[FieldError, ...]:
    """Every way in which ``value`` breaks the schema, by place; empty when it is valid. A missing or unknown field is
    named by its own pointer."""
    found = sorted(checker.iter_errors(value), key=lambda error: [str(part) for part in error.absolute_path])
    # The library finds a missing field once each, and each time tells the whole list of those required.
    each = dict.fromkeys(fault for error in found for fault in _field_errors(error))
    return tuple(each)


def _field_errors(error: jsonschema.ValidationError) -> Iterator[FieldError]:
    place = [*error.absolute_path]
    rule: Any = error.validator_value
    value: Any = error.instance
    schema: Any = error.schema
    if error.validator == "required":
        yield from (FieldError(pointer([*place, name]), "is missing") for name in rule if name not in value)
    elif error.validator == "additionalProperties":
        known, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
        message = f"is unknown; known: {', '.join(known) or 'none'}"
        for name in value:
            if name not in known and not any(re.search(pattern, name) for pattern in patterns):
                yield FieldError(pointer([*place, name]), message)
    elif error.validator in ("oneOf", "anyOf") and error.context:
        yield from _field_errors(_closest(error.context))
    elif "propertyNames" in error.schema_path:
        yield FieldError(pointer(place), f"has the name {shown(value)}, which {_sentence(error)}")
    else:
        yield FieldError(pointer(place), _sentence(error))


def _closest(context: list[jsonschema.ValidationError]) -> jsonschema.ValidationError:
    """Of a choice, the branch that was meant says more than "is not valid under any of the given schemas": it is the
    one whose fault lies deepest in the value, of equals one that has the value's type, then the fewest faults."""
    faults = Counter(each.schema_path[0] for each in context)

    def meant(each: jsonschema.ValidationError) -> tuple[int, bool, int]:
        return len(each.absolute_path), each.validator != "type", -faults[each.schema_path[0]]

    return max(context, key=meant)


# -- sentences -----------------------------------------------------------------------------------------------------

_TYPES = {
    "array": "an array",
    "boolean": "true or false",
    "integer": "an integer",
    "null": "null",
    "number": "a number",
    "object": "an object",
    "string": "a string",
}

_BOUNDS = {
    "minimum": "at least",
    "maximum": "at most",
    "exclusiveMinimum": "greater than",
    "exclusiveMaximum": "less than",
}

_SIZES = {
    "minLength": ("at least", "character"),
    "maxLength": ("at most", "character"),
    "minItems": ("at least", "item"),
    "maxItems": ("at most", "item"),
    "minProperties": ("at least", "field"),
    "maxProperties": ("at most", "field"),
}


def shown(value: Any) -> str:
    """A value as the client wrote it, cut where it is long."""
    text = json.dumps(value, ensure_ascii=False, default=repr)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _sentence(error: jsonschema.ValidationError) -> str:
    """What must be, in the words of JSON; the library's own are Python's."""
    kind = str(error.validator)
    rule: Any = error.validator_value
    value: Any = error.instance
    if kind in _BOUNDS:
        return f"must be {_BOUNDS[kind]} {shown(rule)}, not {shown(value)}"
    if kind in _SIZES:
        bound, unit = _SIZES[kind]
        return f"must have {bound} {rule} {unit}{'' if rule == 1 else 's'}, not {len(value)}"
    if kind == "pattern":
        return _mismatch(rule, value)
    if kind == "type":
        names = [rule] if isinstance(rule, str) else rule
        return f"must be {' or '.join(_TYPES[name] for name in names)}, not {shown(value)}"
    if kind == "enum":
        return f"must be one of {', '.join(map(shown, rule))}, not {shown(value)}"
    if kind == "const":
        return f"must be {shown(rule)}, not {shown(value)}"
    if kind == "not" and isinstance(rule, dict) and rule.keys() == {"const"}:
        return f"must not be {shown(rule['const'])}"
    if kind == "uniqueItems":
        return "must not hold an item twice"
    return f"breaks the rule {kind}: {shown(rule)}"


def _mismatch(pattern: str, value: str) -> str:
    """A control character cannot be seen, and no pattern shows it, so it is named where it alone is at fault."""
    refused = [char for char in value if (char < " " or char == "\x7f") and not _matches(pattern, char)]
    if refused and _matches(pattern, "".join("x" if char in refused else char for char in value)):
        return f"must not hold the control character U+{ord(refused[0]):04X}"
    return f"must match {pattern}, not {shown(value)}"
