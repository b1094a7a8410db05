"""JSON decoding and JSON Schema (draft 2020-12) validation.

Two things differ from jsonschema's defaults. A ``$`` at the end of a pattern does not match before a final line feed
(as in ECMA-262, unlike Python). All errors are reported. Each error has the JSON pointer (RFC 6901) of its field, and a
message in the terms of JSON instead of Python.
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

MAX_DEPTH = 500
"""Maximum depth of nested arrays and objects. It is half of ``sys.getrecursionlimit``, so that recursive code can
process the value."""

_MAX_DIGITS = 300
"""Maximum number of digits of an integer. An integer of more than 309 digits does not fit a double."""

_ESCAPED_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_SURROGATE = re.compile("[\ud800-\udfff]")

_MAX_SHOWN = 60
"""Maximum number of characters of a value that a message shows."""


def _pattern(_checker: Validator, pattern: str, value: Any, _schema: Any) -> Iterator[jsonschema.ValidationError]:
    if isinstance(value, str) and not _matches(pattern, value):
        yield jsonschema.ValidationError("does not match")


@cache
def matcher(pattern: str) -> re.Pattern[str]:
    """The compiled pattern of a schema; a final ``$`` matches only at the end of the text."""
    return re.compile(re.sub(r"(?<!\\)\$$", r"\\Z", pattern))


def _matches(pattern: str, text: str) -> bool:
    return matcher(pattern).search(text) is not None


_StrictValidator: Any = jsonschema.validators.extend(  # type: ignore[no-untyped-call]
    jsonschema.Draft202012Validator, validators={"pattern": _pattern}
)


def validator(schema: dict[str, Any], registry: Any = None) -> Validator:
    """A reusable validator of ``schema``. ``registry`` resolves the references in it. No reference is fetched from a
    network."""
    found: Validator = _StrictValidator(schema) if registry is None else _StrictValidator(schema, registry=registry)
    return found


def decode(raw: bytes) -> Any:
    """Decode the JSON value in ``raw``.

    The decoder is stricter than JSON, because each accepted value must be fit to be shown, stored and sent on. Names in
    an object are unique, numbers are finite and fit a double, strings have no unpaired surrogate, and nesting is
    limited. ``44.0`` is the integer 44, as in JSON Schema.

    :raises ValueError: the message has no subject, for example "is not JSON: …". The caller puts the subject before it,
        for example "the body".
    """
    try:
        value = json.loads(
            raw.decode("utf-8"),
            object_pairs_hook=_unique_object,
            parse_int=_integer,
            parse_float=_finite_or_integer,
            parse_constant=_refuse_constant,
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
        _refuse_unpaired_surrogates(value)
    return value


def _unique_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"is ambiguous: an object has the name {name[:80]!r} twice")
        found[name] = value
    return found


def _integer(text: str) -> int:
    if len(text) > _MAX_DIGITS:
        raise ValueError(f"contains a number of {len(text)} digits; at most {_MAX_DIGITS} are allowed")
    return int(text)


def _finite_or_integer(text: str) -> float | int:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"contains the number {text[:40]}, which is too large")
    return int(value) if value.is_integer() and abs(value) < 10**_MAX_DIGITS else value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"contains {name}, which is not a JSON value")


def _refuse_unpaired_surrogates(value: Any) -> None:
    """Refuse strings with an unpaired surrogate. The walk is iterative, so deep nesting cannot exhaust the stack."""
    parts: list[tuple[tuple[str | int, ...], Any]] = [((), value)]
    while parts:
        path, part = parts.pop()
        if isinstance(part, dict):
            parts += [((*path, name), child) for name, child in part.items()]
            parts += [(path, name) for name in part]
        elif isinstance(part, list):
            parts += [((*path, number), child) for number, child in enumerate(part)]
        elif isinstance(part, str) and _SURROGATE.search(part):
            place = _SURROGATE.sub("\ufffd", pointer(path)) or "/"
            raise ValueError(f"contains an unpaired surrogate, which is not a character, at {place}")


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
    """All errors of ``value``, ordered by path; empty if it is valid. If a field is missing or unknown, the pointer
    names this field, not the object."""
    found = sorted(checker.iter_errors(value), key=lambda error: [str(part) for part in error.absolute_path])
    # jsonschema reports each missing field, but each report lists all required fields: remove the duplicates.
    return tuple(dict.fromkeys(fault for error in found for fault in _field_errors(error)))


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
    """Choose the branch of a ``oneOf`` or ``anyOf`` that the author most likely meant, and return its error.

    jsonschema's message "is not valid under any of the given schemas" would not help. The branch with the error that
    lies deepest in the value is chosen. If there are several, a branch that accepts the value's type is chosen, and of
    these the one with the fewest errors.
    """
    faults = Counter(each.schema_path[0] for each in context)

    def rank(each: jsonschema.ValidationError) -> tuple[int, bool, int]:
        return len(each.absolute_path), each.validator != "type", -faults[each.schema_path[0]]

    return max(context, key=rank)


# -- messages ------------------------------------------------------------------------------------------------------

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
    """A value as JSON, cut after 60 characters."""
    text = json.dumps(value, ensure_ascii=False, default=repr)
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"


def _sentence(error: jsonschema.ValidationError) -> str:
    """The message in JSON's terms. The messages of jsonschema show Python values."""
    kind = str(error.validator)
    rule: Any = error.validator_value
    value: Any = error.instance
    if kind in _BOUNDS:
        return f"must be {_BOUNDS[kind]} {shown(rule)}, not {shown(value)}"
    if kind in _SIZES:
        bound, unit = _SIZES[kind]
        return f"must have {bound} {rule} {unit}{'' if rule == 1 else 's'}, not {len(value)}"
    if kind == "pattern":
        described = error.schema.get("description") if isinstance(error.schema, dict) else None
        return _mismatch(rule, value) + (f" ({described.rstrip('.')})" if described else "")
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
        return "must not contain an item twice"
    return f"breaks the rule {kind}: {shown(rule)}"


def _mismatch(pattern: str, value: str) -> str:
    """The message for a value that does not match ``pattern``. If a control character is the only fault, the message
    names it, because a control character is not visible in the value."""
    refused = [char for char in value if (char < " " or char == "\x7f") and not _matches(pattern, char)]
    if refused and _matches(pattern, "".join("x" if char in refused else char for char in value)):
        return f"must not contain the control character U+{ord(refused[0]):04X}"
    return f"must match {pattern}, not {shown(value)}"
