"""Makes an example of a schema of the API description: the schema's own example, or one that is composed of the
examples of its parts. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Schema = Mapping[str, Any]

_OF_TYPES: Mapping[str, Any] = {
    "string": "text", "integer": 1, "number": 1.5, "boolean": True, "null": None, "array": [], "object": {},
}  # fmt: skip


def example(schema: Schema, components: Mapping[str, Schema]) -> Any:
    """An example. ``components`` are the schemas to which references lead, by name. An object has its required members
    alone."""
    schema = resolved(schema, components)
    for key in ("examples", "enum"):
        if key in schema:
            return schema[key][0]
    for key in ("const", "default"):
        if key in schema:
            return schema[key]
    if "properties" in schema or "allOf" in schema:
        return _object(schema, components)
    if alternatives := schema.get("anyOf") or schema.get("oneOf"):
        return example(alternatives[0], components)
    if "prefixItems" in schema:
        return [example(each, components) for each in schema["prefixItems"]]
    if "items" in schema:
        return [example(schema["items"], components)] * max(1, schema.get("minItems", 1))
    kind = schema.get("type", "object")
    return schema.get("minimum", _OF_TYPES[kind if isinstance(kind, str) else kind[0]])


def resolved(schema: Schema, components: Mapping[str, Schema]) -> Schema:
    """The schema to which ``schema`` refers, with the members that stand beside the reference."""
    if "$ref" not in schema:
        return schema
    rest = {key: value for key, value in schema.items() if key != "$ref"}
    return {**resolved(components[schema["$ref"].rpartition("/")[2]], components), **rest}


def _object(schema: Schema, components: Mapping[str, Schema]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for part in schema.get("allOf", ()):
        found |= example(part, components)
    required = list(schema.get("required", ()))
    for alternatives in (schema.get("oneOf"), schema.get("anyOf")):  # one alternative adds required members
        required += alternatives[0].get("required", ()) if alternatives else ()
    properties = schema.get("properties", {})
    return found | {name: example(properties[name], components) for name in required if name in properties}
