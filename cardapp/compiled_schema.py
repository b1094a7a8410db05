"""A schema as one predicate: a quick yes for a document that is valid.

The library walks a schema anew for every value, which takes eight seconds for a card of 20 000 snapshots. What the
predicate refuses is given to the library, which knows to say why; tests hold the two equal.
"""

from __future__ import annotations

from collections.abc import Callable, KeysView, Mapping
from typing import Any

from cardapp.schema import matcher

IsValid = Callable[[Any], bool]

_IGNORED = {"$schema", "$id", "$defs", "title", "description"}
_KINDS: dict[str, type] = {"object": dict, "array": list, "string": str, "integer": int}


def compile_schema(schema: Mapping[str, Any]) -> IsValid:
    """Whether a JSON value is valid by ``schema``, whose references lead to its own ``$defs``; ValueError for a
    keyword or a rule that is not known here."""
    return _Compiler(schema["$defs"]).compiled(schema)


class _Compiler:
    """Makes a predicate of each part of a schema; one that is referred to is made once."""

    def __init__(self, named: Mapping[str, Mapping[str, Any]]) -> None:
        self._named = named
        self._made: dict[str, IsValid] = {}

    def compiled(self, part: Mapping[str, Any]) -> IsValid:
        rules = [self._rule(word, rule, part) for word, rule in part.items() if word not in _IGNORED]
        return rules[0] if len(rules) == 1 else lambda value: all(rule(value) for rule in rules)

    def _rule(self, word: str, rule: Any, part: Mapping[str, Any]) -> IsValid:
        match word:
            case "$ref":
                return self._referred(rule.removeprefix("#/$defs/"))
            case "properties":
                return self._properties(rule)
            case "additionalProperties":
                return self._others(part.get("properties", {}).keys(), rule)
            case "items":
                return self._items(rule)
            case "propertyNames":
                return self._names(rule)
            case "oneOf":
                branches = [self.compiled(branch) for branch in rule]
                return lambda value: sum([branch(value) for branch in branches]) == 1
            case "uniqueItems" if rule and self._are_texts(part.get("items", {})):
                return _unique
            case _ if word in _SIMPLE:
                return _SIMPLE[word](rule)
        raise ValueError(f"no predicate for {word}: {rule}")

    def _are_texts(self, part: Mapping[str, Any]) -> bool:
        named = self._named[part["$ref"].removeprefix("#/$defs/")] if "$ref" in part else {}
        return "string" in (part.get("type"), named.get("type"))

    def _referred(self, name: str) -> IsValid:
        if name not in self._made:
            self._made[name] = self.compiled(self._named[name])
        return self._made[name]

    def _properties(self, parts: Mapping[str, Mapping[str, Any]]) -> IsValid:
        rules = {name: self.compiled(part) for name, part in parts.items()}

        def accepted(value: Any) -> bool:
            if not isinstance(value, dict):
                return True
            return all(rules[name](each) for name, each in value.items() if name in rules)

        return accepted

    def _others(self, known: KeysView[str], part: Mapping[str, Any] | bool) -> IsValid:
        if part is False:
            return lambda value: not isinstance(value, dict) or value.keys() <= known
        rule = self.compiled(part)  # type: ignore[arg-type]
        return lambda value: not isinstance(value, dict) or all(rule(value[name]) for name in value.keys() - known)

    def _items(self, part: Mapping[str, Any]) -> IsValid:
        rule = self.compiled(part)
        return lambda value: not isinstance(value, list) or all(rule(each) for each in value)

    def _names(self, part: Mapping[str, Any]) -> IsValid:
        rule = self.compiled(part)
        return lambda value: not isinstance(value, dict) or all(rule(name) for name in value)


# -- keywords without parts ----------------------------------------------------------------------------------------


def _type(name: str) -> IsValid:
    kind = _KINDS.get(name)
    if kind is None:
        raise ValueError(f"no predicate for type: {name}")
    return lambda value: isinstance(value, kind) and not isinstance(value, bool)


def _const(wanted: Any) -> IsValid:
    if not isinstance(wanted, str):
        raise ValueError(f"no predicate for const: {wanted}")
    return lambda value: isinstance(value, str) and value == wanted


def _pattern(pattern: str) -> IsValid:
    search = matcher(pattern).search
    return lambda value: not isinstance(value, str) or search(value) is not None


def _required(names: list[str]) -> IsValid:
    wanted = frozenset(names)
    return lambda value: not isinstance(value, dict) or wanted <= value.keys()


def _unique(value: Any) -> bool:
    """Of texts; whatever else stands among them its own rule refuses."""
    texts = [each for each in value if isinstance(each, str)] if isinstance(value, list) else []
    return len(set(texts)) == len(texts)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_SIMPLE: Mapping[str, Callable[[Any], IsValid]] = {
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
