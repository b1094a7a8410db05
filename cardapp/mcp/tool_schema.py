"""JSON Schema 2020-12 for tools: schemas may come from a peer, so they are bounded and never reach for the network."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextvars import ContextVar
from typing import Any

from jsonschema import Draft202012Validator, validators
from jsonschema.exceptions import SchemaError, ValidationError
from referencing import Registry
from referencing.exceptions import Unresolvable

from cardapp.errors import FieldError
from cardapp.schema import field_errors

DIALECT = "https://json-schema.org/draft/2020-12/schema"
MAX_DEPTH = 64
MAX_NODES = 20_000
MAX_REPORTED = 20
MAX_WORK = 200_000
"""What one check may take, in keywords applied and members looked at: without it a few references, each to two of the
next, would take for ever. A replay's longest answer takes 130 000."""
_REFERENCE = 20
"""The work of following a reference."""


class UnusableSchema(Exception):
    """A schema that nothing can be checked against: not valid, another dialect, too deep, a reference to elsewhere."""


_work: ContextVar[int] = ContextVar("work", default=0)
Rule = Callable[[Any, Any, Any, Any], Iterable[ValidationError] | None]


def _bounded(keyword: str, rule: Rule) -> Rule:
    least = _REFERENCE if keyword in ("$ref", "$dynamicRef") else 1

    def apply(validator: Any, value: Any, instance: Any, schema: Any) -> Iterable[ValidationError] | None:
        members = len(instance) if isinstance(instance, dict | list) else 0
        work = _work.get() + least + members + (len(value) if isinstance(value, dict | list) else 0)
        if keyword == "uniqueItems":
            work += members * members
        if work > MAX_WORK:
            raise UnusableSchema("to check the value by the schema takes too long")
        _work.set(work)
        return rule(validator, value, instance, schema)

    return apply


_Validator: Any = validators.extend(  # type: ignore[no-untyped-call]
    Draft202012Validator,
    validators={name: _bounded(name, rule) for name, rule in Draft202012Validator.VALIDATORS.items()},
)


class ToolSchema:
    """One compiled schema, by the standard's own rules (1.0 is an integer): a peer wrote it or will read it."""

    def __init__(self, schema: Any) -> None:
        """:raises UnusableSchema: for all but a dangling reference, which only a check finds."""
        if not isinstance(schema, dict):
            raise UnusableSchema("a schema must be an object")
        if str(schema.get("$schema", DIALECT)).rstrip("#") != DIALECT:
            raise UnusableSchema(f"the dialect {schema['$schema']} is not supported; use {DIALECT}")
        _bound(schema)
        try:
            Draft202012Validator.check_schema(schema)
        except SchemaError as why:
            raise UnusableSchema(f"{why.json_path}: {why.message}") from why
        # An explicit registry without a retriever: the library's default one would fetch a foreign $ref.
        self._validator = _Validator(schema, registry=Registry())

    def faults(self, value: Any) -> tuple[FieldError, ...]:
        """What in ``value`` breaks the schema, empty when nothing does (at most 20).

        :raises UnusableSchema: a reference leads out of the schema, value and schema recurse without end, or the check
            takes too long.
        """
        _work.set(0)
        try:
            return field_errors(self._validator, value)[:MAX_REPORTED]
        except Unresolvable as why:
            raise UnusableSchema(f"a reference leads outside the schema: {why}") from why
        except RecursionError as why:
            raise UnusableSchema("the value or the schema is nested too deeply") from why


def compiled(schema: Any) -> ToolSchema:
    """The :class:`ToolSchema` of a schema that a peer declares.

    :raises UnusableSchema: as :class:`ToolSchema` does, and for a pattern, whose match may take for ever.
    """
    if isinstance(schema, dict):
        _bound(schema, patterns=False)
    return ToolSchema(schema)


def _bound(schema: dict[str, Any], *, patterns: bool = True) -> None:
    """Refuse what would take the validator too deep or too long; a walk of our own, so that no input recurses here."""
    level: list[Any] = [schema]
    nodes = depth = 0
    while level:
        depth, nodes = depth + 1, nodes + len(level)
        if depth > MAX_DEPTH or nodes > MAX_NODES:
            raise UnusableSchema(f"a schema may have {MAX_DEPTH} levels and {MAX_NODES} nodes")
        if not patterns and any(_has_pattern(node) for node in level):
            raise UnusableSchema("a pattern in it is not followed: it may match for ever")
        level = [child for node in level for child in _children(node)]


def _has_pattern(node: Any) -> bool:
    """Of a property with such a name the value is a schema, and no text."""
    return isinstance(node, dict) and (isinstance(node.get("pattern"), str) or bool(node.get("patternProperties")))


def _children(node: Any) -> list[Any]:
    if isinstance(node, dict):
        return list(node.values())
    return node if isinstance(node, list) else []
