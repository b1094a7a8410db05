"""JSON Schema 2020-12 for tools. A schema may come from a peer, so its size is limited, and a reference to another
document is not loaded."""

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
"""Maximum work of one validation: the number of applied keywords and visited members. Without this limit, a chain of
references that doubles at each step would take practically forever. The longest result of a replay needs 130 000."""
_REFERENCE_WORK = 20
"""The work that following a reference counts as."""


class UnusableSchema(Exception):
    """The schema is not valid, is in another dialect, is too large, or refers to another document."""


_work: ContextVar[int] = ContextVar("work", default=0)
Rule = Callable[[Any, Any, Any, Any], Iterable[ValidationError] | None]


def _counting_work(keyword: str, rule: Rule) -> Rule:
    """Returns ``rule`` with a counter: it raises UnusableSchema when the validation has taken too much work."""
    cost = _REFERENCE_WORK if keyword in ("$ref", "$dynamicRef") else 1

    def apply(validator: Any, value: Any, instance: Any, schema: Any) -> Iterable[ValidationError] | None:
        members = len(instance) if isinstance(instance, dict | list) else 0
        work = _work.get() + cost + members + (len(value) if isinstance(value, dict | list) else 0)
        if keyword == "uniqueItems":
            work += members * members
        if work > MAX_WORK:
            raise UnusableSchema("the validation takes too long")
        _work.set(work)
        return rule(validator, value, instance, schema)

    return apply


_Validator: Any = validators.extend(  # type: ignore[no-untyped-call]
    Draft202012Validator,
    validators={name: _counting_work(name, rule) for name, rule in Draft202012Validator.VALIDATORS.items()},
)


class ToolSchema:
    """A compiled schema. Peers validate by the same schema, so this class follows the standard in every detail. For
    example, 1.0 is an integer."""

    def __init__(self, schema: Any) -> None:
        """Check and compile ``schema``. References are not followed here: only :meth:`faults` notices a reference whose
        target does not exist.

        :raises UnusableSchema: the schema cannot be used.
        """
        if not isinstance(schema, dict):
            raise UnusableSchema("a schema must be an object")
        if str(schema.get("$schema", DIALECT)).rstrip("#") != DIALECT:
            raise UnusableSchema(f"the dialect {schema['$schema']} is not supported; use {DIALECT}")
        _check_size(schema)
        try:
            Draft202012Validator.check_schema(schema)
        except SchemaError as why:
            raise UnusableSchema(f"{why.json_path}: {why.message}") from why
        # The registry is empty, because the default one would load an external $ref from the network.
        self._validator = _Validator(schema, registry=Registry())

    def faults(self, value: Any) -> tuple[FieldError, ...]:
        """The faults of ``value``, at most 20. Empty if ``value`` is valid.

        :raises UnusableSchema: a reference leads out of the schema, or the validation recurses too deeply or takes too
            long.
        """
        _work.set(0)
        try:
            return field_errors(self._validator, value)[:MAX_REPORTED]
        except Unresolvable as why:
            raise UnusableSchema(f"a reference leads outside the schema: {why}") from why
        except RecursionError as why:
            raise UnusableSchema("the value or the schema is nested too deeply") from why


def peer_schema(schema: Any) -> ToolSchema:
    """Compile a schema that a peer declares.

    :raises UnusableSchema: :class:`ToolSchema` refuses the schema, or the schema has a pattern. Matching a text against
    a pattern may take forever.
    """
    if isinstance(schema, dict):
        _check_size(schema, patterns=False)
    return ToolSchema(schema)


def _check_size(schema: dict[str, Any], *, patterns: bool = True) -> None:
    """Refuse a schema that is too deep or too large. If ``patterns`` is false, also refuse a schema that has a pattern.
    The function is not recursive, so no schema can exhaust the stack."""
    level: list[Any] = [schema]
    nodes = depth = 0
    while level:
        depth, nodes = depth + 1, nodes + len(level)
        if depth > MAX_DEPTH or nodes > MAX_NODES:
            raise UnusableSchema(f"a schema may have at most {MAX_DEPTH} levels and {MAX_NODES} nodes")
        if not patterns and any(_has_pattern(node) for node in level):
            raise UnusableSchema("a schema with a pattern is not used, because a match may take forever")
        level = [child for node in level for child in _children(node)]


def _has_pattern(node: Any) -> bool:
    """Whether ``node`` has a pattern. If a property is named ``pattern``, the value is a schema, not a string."""
    return isinstance(node, dict) and (isinstance(node.get("pattern"), str) or bool(node.get("patternProperties")))


def _children(node: Any) -> list[Any]:
    if isinstance(node, dict):
        return list(node.values())
    return node if isinstance(node, list) else []
