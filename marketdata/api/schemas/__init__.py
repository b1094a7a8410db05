"""The JSON Schemas (draft 2020-12) of all requests and responses, used for validation and for the API description.

Each file has named definitions under ``$defs``. A name is defined only once in all files. References are
``#/$defs/Name`` or ``other.json#/$defs/Name``; they are never fetched from a network.

Validation differs from the library's defaults in three ways. ``true`` and ``1.0`` are not integers. A ``$`` at the end
of a pattern does not match before a final line feed (as in ECMA-262, unlike Python). Four formats are enforced:
``decimal``, a number that PostgreSQL stores exactly; ``instant``, an existing time that ticks can have;
``tick-instant``, an instant that does not look like epoch seconds; and ``time-zone``, an offset in the range of
offsets, or text that may be a name. If a value violates its format and its pattern, only the format's message is
reported.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from functools import cache, partial
from pathlib import Path
from typing import Any

import fastjsonschema
import jsonschema
import referencing
from jsonschema.protocols import Validator
from referencing.jsonschema import DRAFT202012

from marketdata.errors import FieldError
from marketdata.interval import Zone, is_zone_name
from marketdata.tick import DECIMAL, plain, sent_time, tick_time

Schema = dict[str, Any]


@cache
def files() -> dict[str, Schema]:
    """Returns every schema file by its name."""
    found = sorted(Path(__file__).parent.glob("*.json"))
    return {file.name: json.loads(file.read_text("utf-8")) for file in found}


@cache
def definitions() -> dict[str, tuple[str, Schema]]:
    """Returns the file and the schema of every definition, by the definition's name."""
    found: dict[str, tuple[str, Schema]] = {}
    for file, document in files().items():
        for name, schema in document["$defs"].items():
            if name in found:
                raise ValueError(f"{name} is defined in {found[name][0]} and in {file}")
            found[name] = (file, schema)
    return found


def definition(name: str) -> Schema:
    """Returns the schema called ``name``. Its references are not resolved."""
    return definitions()[name][1]


def resolved(schema: Schema) -> Schema:
    """Returns the schema to which ``schema`` refers, or ``schema`` itself if it is not a reference."""
    return resolved(definition(schema["$ref"].rpartition("/")[2])) if "$ref" in schema else schema


@cache
def checker(name: str) -> Validator:
    """Returns a validator for the schema called ``name``."""
    file = definitions()[name][0]
    found: Validator = _StrictValidator(
        {"$ref": f"{files()[file]['$id']}#/$defs/{name}"}, registry=_registry(), format_checker=_formats
    )
    return found


def faults(name: str, value: Any) -> tuple[FieldError, ...]:
    """Returns all violations of the schema called ``name`` in ``value``, in document order."""
    found = sorted(checker(name).iter_errors(value), key=lambda error: [str(part) for part in error.absolute_path])
    return tuple(_field_error(error) for error in found)


def accepts(name: str, query: Mapping[str, str | int]) -> bool:
    """Whether ``query`` is valid by the schema called ``name``. This is faster than :func:`faults`, which would take
    as long as the response to a chart query."""
    try:
        _compiled(name)(query)
    except fastjsonschema.JsonSchemaException:
        return False
    return True


@cache
def _compiled(name: str) -> Callable[[Any], Any]:
    return fastjsonschema.compile(
        {"$ref": f"{files()[definitions()[name][0]]['$id']}#/$defs/{name}"},
        handlers={"https": lambda address: files()[address.rpartition("/")[2]]},
        formats={format_name: partial(_conforms, format_name) for format_name in _formats.checkers},
        use_default=False,
    )


@cache
def _registry() -> referencing.Registry[Any]:
    resources = [(document["$id"], DRAFT202012.create_resource(document)) for document in files().values()]
    return referencing.Registry().with_resources(resources).crawl()


_types = jsonschema.Draft202012Validator.TYPE_CHECKER.redefine(
    "integer", lambda _checker, value: isinstance(value, int) and not isinstance(value, bool)
).redefine("number", lambda _checker, value: isinstance(value, int | float | Decimal) and not isinstance(value, bool))

_formats = jsonschema.FormatChecker(formats=())


@_formats.checks("decimal")
def _is_decimal(value: object) -> bool:
    """Whether a number has at most 30 digits on either side of the point. Always true for a string, because the
    schema's pattern checks strings."""
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        return True
    return DECIMAL.fullmatch(plain(Decimal(value))) is not None


@_formats.checks("instant", raises=ValueError)
def _is_instant(value: object) -> bool:
    return _is_read(tick_time, value)


@_formats.checks("tick-instant", raises=ValueError)
def _is_tick_instant(value: object) -> bool:
    return _is_read(sent_time, value)


def _is_read(reader: Callable[[Any], int], value: object) -> bool:
    if isinstance(value, str | int | Decimal) and not isinstance(value, bool):
        reader(value)
    return True


@_formats.checks("time-zone", raises=ValueError)
def _is_time_zone(value: object) -> bool:
    if isinstance(value, str) and not is_zone_name(value):
        Zone.of_offset(value)
    return True


def _ended(pattern: str) -> str:
    """``pattern`` with its final ``$`` replaced by the end of the string, as in ECMA-262."""
    return re.sub(r"(?<!\\)\$$", r"\\Z", pattern)


def _conforms(name: str, value: object) -> bool:
    return _formats.conforms(value, name)


def _pattern(_checker: Validator, pattern: str, value: Any, schema: Any) -> Iterator[jsonschema.ValidationError]:
    breaks_format = "format" in schema and not _conforms(schema["format"], value)
    if isinstance(value, str) and not breaks_format and not re.search(_ended(pattern), value):
        yield jsonschema.ValidationError("does not match the pattern")


_StrictValidator: Any = jsonschema.validators.extend(  # type: ignore[no-untyped-call]
    jsonschema.Draft202012Validator, validators={"pattern": _pattern}, type_checker=_types
)


def pointer(parts: Iterable[str | int]) -> str:
    """Returns the JSON pointer (RFC 6901) of a path in a document. "" is the whole document."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in parts)


_KINDS = {
    "string": "a string",
    "number": "a number",
    "integer": "an integer",
    "object": "an object",
    "array": "an array",
    "boolean": "true or false",
    "null": "null",
}


def _one_of(choices: Iterable[Any]) -> str:
    *most, last = ("null" if choice is None else str(choice) for choice in choices)
    return f"{', '.join(most)} or {last}" if most else last


_MESSAGES: dict[str, Callable[[Any], str]] = {
    "type": lambda names: f"must be {_one_of(_KINDS[name] for name in ([names] if isinstance(names, str) else names))}",
    "enum": lambda values: f"must be {_one_of(values)}",
    "const": lambda value: f"must be {json.dumps(value)}",
    "pattern": lambda pattern: f"must match the pattern {pattern}",
    "format": lambda name: f"must have the format {name}",
    "minimum": lambda least: f"must be at least {least}",
    "maximum": lambda most: f"must be at most {most}",
    "exclusiveMinimum": lambda bound: f"must be greater than {bound}",
    "exclusiveMaximum": lambda bound: f"must be less than {bound}",
    "minLength": lambda least: f"must have at least {least} character{'s' if least > 1 else ''}",
    "maxLength": lambda most: f"must have at most {most} characters",
    "minItems": lambda least: f"must have at least {least} items",
    "maxItems": lambda most: f"must have at most {most} items",
}
"""The message for each violated keyword. The library's own messages show values in Python's notation."""


def _field_error(error: jsonschema.ValidationError) -> FieldError:
    return FieldError(pointer(error.absolute_path), _message(error), str(error.validator))


def _message(error: jsonschema.ValidationError) -> str:
    rule: Any = error.validator_value
    schema: Any = error.schema
    instance: Any = error.instance
    if error.validator == "required":
        return f"is missing {', '.join(name for name in rule if name not in instance)}"
    if error.validator in ("oneOf", "anyOf"):
        return _choice(error)
    if error.validator == "format" and error.cause is not None:
        return str(error.cause)
    if error.validator == "additionalProperties" and isinstance(instance, dict):
        known = schema.get("properties", {})
        unknown = [str(name)[:80] for name in instance if name not in known]
        return f"has the unknown field(s) {', '.join(unknown)}; known: {', '.join(known) or 'none'}"
    return _MESSAGES[str(error.validator)](rule)


def _choice(error: jsonschema.ValidationError) -> str:
    """Returns the message for ``oneOf`` and ``anyOf``. If every branch only requires members, the message names them;
    otherwise it is the message of the first branch."""
    branches: Any = error.validator_value
    if all(branch.keys() == {"required"} for branch in branches):
        names = [", ".join(branch["required"]) for branch in branches]
        return (
            f"has {' and '.join(names)}: send one of them" if not error.context else f"is missing {' or '.join(names)}"
        )
    return _message(error.context[0]) if error.context else "must match only one of several schemas"
