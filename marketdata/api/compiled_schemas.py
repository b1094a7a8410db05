"""Schemas of query parameters compiled to predicates, for speed.

The jsonschema library interprets a schema for every value, which takes as long as a chart response. Values that a
predicate rejects are passed to the library, which explains why. A test asserts that both accept the same values.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from marketdata.api import schemas

Accepts = Callable[[Any], bool]

_KINDS: dict[str, tuple[type, ...]] = {"string": (str,), "integer": (int,), "number": (int, float)}
_IGNORED = {"description", "default", "title", "$ref"}


@cache
def accepts(name: str) -> Accepts:
    """The predicate for the schema ``name``; its argument maps names to strings and integers."""
    schema = schemas.definition(name)
    parts = {key: _value(part) for key, part in schema.get("properties", {}).items()}
    required = frozenset(schema.get("required", ()))
    choices = [_choice(schema[word], word) for word in ("oneOf", "anyOf") if word in schema]
    _check_known(schema, {"type", "properties", "required", "additionalProperties", "oneOf", "anyOf"})

    def accepted(value: Mapping[str, Any]) -> bool:
        return (
            required <= value.keys() <= parts.keys()
            and all(choice(value) for choice in choices)
            and all(parts[key](each) for key, each in value.items())
        )

    return accepted


def _choice(branches: list[Mapping[str, Any]], word: str) -> Accepts:
    """``oneOf`` and ``anyOf`` over ``required``: one of several parameters must be present."""
    wanted = [frozenset(branch["required"]) for branch in branches]
    most = 1 if word == "oneOf" else len(wanted)
    return lambda value: 1 <= sum(names <= value.keys() for names in wanted) <= most


def _value(schema: Mapping[str, Any]) -> Accepts:
    schema = {**schema, **schemas.resolved(dict(schema))}
    rules = [_RULES[word](rule) for word, rule in schema.items() if word in _RULES]
    _check_known(schema, _RULES.keys())
    return lambda value: all(rule(value) for rule in rules)


def _check_known(schema: Mapping[str, Any], known: Any) -> None:
    unknown = set(schema) - set(known) - _IGNORED
    if unknown:
        raise ValueError(f"these keywords cannot be compiled: {', '.join(sorted(unknown))}")


def _type(names: str | list[str]) -> Accepts:
    kinds = tuple(kind for name in ([names] if isinstance(names, str) else names) for kind in _KINDS[name])
    return lambda value: isinstance(value, kinds)


def _pattern(text: str) -> Accepts:
    search = re.compile(schemas.ended(text)).search
    return lambda value: not isinstance(value, str) or search(value) is not None


def _format(name: str) -> Accepts:
    return lambda value: schemas.conforms(name, value)


_RULES: dict[str, Callable[[Any], Accepts]] = {
    "type": _type,
    "enum": lambda values: values.__contains__,
    "pattern": _pattern,
    "format": _format,
    "minLength": lambda least: lambda value: not isinstance(value, str) or len(value) >= least,
    "maxLength": lambda most: lambda value: not isinstance(value, str) or len(value) <= most,
    "minimum": lambda least: lambda value: isinstance(value, str) or value >= least,
    "maximum": lambda most: lambda value: isinstance(value, str) or value <= most,
    "exclusiveMaximum": lambda bound: lambda value: isinstance(value, str) or value < bound,
}
