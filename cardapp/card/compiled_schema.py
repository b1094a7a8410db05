"""Compiles the schema of a card's source to one Python function that only says whether a document is valid.

jsonschema interprets the schema for every value, which takes 0.8 seconds for a card of 2 000 steps and eight for one of
20 000 snapshots. It writes the messages about a document that this function refuses; tests compare the two.
"""

from __future__ import annotations

from collections.abc import Callable, KeysView, Mapping
from typing import Any

from cardapp.schema import matcher

IsValid = Callable[[Any], bool]

_IGNORED = {"$schema", "$id", "$defs", "title", "description"}
_TYPES: dict[str, type] = {"object": dict, "array": list, "string": str, "integer": int}


def compile_schema(schema: Mapping[str, Any]) -> IsValid:
    """A function that says whether a JSON value is valid. All references of ``schema`` must lead to its own ``$defs``.

    :raises ValueError: the schema has a keyword, or a value of one, that is not implemented here.
    """
    return _Compiler(schema["$defs"]).compile(schema)


class _Compiler:
    """Compiles the parts of a schema; a part in ``$defs`` is compiled once."""

    def __init__(self, defs: Mapping[str, Mapping[str, Any]]) -> None:
        self._defs = defs
        self._compiled: dict[str, IsValid] = {}

    def compile(self, part: Mapping[str, Any]) -> IsValid:
        rules = [self._rule(word, rule, part) for word, rule in part.items() if word not in _IGNORED]
        return rules[0] if len(rules) == 1 else lambda value: all(rule(value) for rule in rules)

    def _rule(self, word: str, rule: Any, part: Mapping[str, Any]) -> IsValid:
        match word:
            case "$ref":
                return self._reference(rule.removeprefix("#/$defs/"))
            case "properties":
                return self._properties(rule)
            case "additionalProperties":
                return self._additional_properties(part.get("properties", {}).keys(), rule)
            case "items":
                return self._items(rule)
            case "propertyNames":
                return self._property_names(rule)
            case "oneOf":
                branches = [self.compile(branch) for branch in rule]
                return lambda value: sum([branch(value) for branch in branches]) == 1
            case "uniqueItems" if rule and self._are_strings(part.get("items", {})):
                return _unique
            case _ if word in _KEYWORDS:
                return _KEYWORDS[word](rule)
        raise _not_implemented(word, rule)

    def _are_strings(self, part: Mapping[str, Any]) -> bool:
        target = self._defs[part["$ref"].removeprefix("#/$defs/")] if "$ref" in part else {}
        return "string" in (part.get("type"), target.get("type"))

    def _reference(self, name: str) -> IsValid:
        if name not in self._compiled:
            self._compiled[name] = self.compile(self._defs[name])
        return self._compiled[name]

    def _properties(self, parts: Mapping[str, Mapping[str, Any]]) -> IsValid:
        rules = {name: self.compile(part) for name, part in parts.items()}

        def accepted(value: Any) -> bool:
            if not isinstance(value, dict):
                return True
            return all(rules[name](each) for name, each in value.items() if name in rules)

        return accepted

    def _additional_properties(self, known: KeysView[str], part: Mapping[str, Any] | bool) -> IsValid:
        if part is False:
            return lambda value: not isinstance(value, dict) or value.keys() <= known
        rule = self.compile(part)  # type: ignore[arg-type]
        return lambda value: not isinstance(value, dict) or all(rule(value[name]) for name in value.keys() - known)

    def _items(self, part: Mapping[str, Any]) -> IsValid:
        rule = self.compile(part)
        return lambda value: not isinstance(value, list) or all(rule(each) for each in value)

    def _property_names(self, part: Mapping[str, Any]) -> IsValid:
        rule = self.compile(part)
        return lambda value: not isinstance(value, dict) or all(rule(name) for name in value)


def _not_implemented(keyword: str, value: Any) -> ValueError:
    return ValueError(f"the schema keyword {keyword!r} with the value {value!r} is not implemented")


# -- keywords without subschemas -----------------------------------------------------------------------------------


def _type(name: str) -> IsValid:
    type_ = _TYPES.get(name)
    if type_ is None:
        raise _not_implemented("type", name)
    return lambda value: isinstance(value, type_) and not isinstance(value, bool)


def _const(wanted: Any) -> IsValid:
    if not isinstance(wanted, str):
        raise _not_implemented("const", wanted)
    return lambda value: isinstance(value, str) and value == wanted


def _pattern(pattern: str) -> IsValid:
    search = matcher(pattern).search
    return lambda value: not isinstance(value, str) or search(value) is not None


def _required(names: list[str]) -> IsValid:
    wanted = frozenset(names)
    return lambda value: not isinstance(value, dict) or wanted <= value.keys()


def _unique(value: Any) -> bool:
    """Whether the strings in an array are unique; the items' own schema refuses anything but strings."""
    strings = [each for each in value if isinstance(each, str)] if isinstance(value, list) else []
    return len(set(strings)) == len(strings)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_KEYWORDS: Mapping[str, Callable[[Any], IsValid]] = {
    "type": _type,
    "const": _const,
    "pattern": _pattern,
    "required": _required,
    "minItems": lambda least: lambda value: not isinstance(value, list) or len(value) >= least,
    "minLength": lambda least: lambda value: not isinstance(value, str) or len(value) >= least,
    "maxLength": lambda most: lambda value: not isinstance(value, str) or len(value) <= most,
    "minimum": lambda least: lambda value: not _is_number(value) or value >= least,
    "maximum": lambda most: lambda value: not _is_number(value) or value <= most,
}
