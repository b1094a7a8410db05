"""Our server with the tools that the conformance suite calls by name, as far as our server supports tools of that
kind."""

from __future__ import annotations

from typing import Any

from cardapp.mcp.server import CallContext, McpServer, Tool, ToolFailure

NOTHING: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}
TEXT: dict[str, Any] = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
VOCABULARY: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef", "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"}, "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]}, "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]}, "else": {"required": ["email"]}, "additionalProperties": False,
}  # fmt: skip
"""The schema that the suite expects back without any change."""


def say(_arguments: dict[str, Any], _context: CallContext) -> dict[str, Any]:
    return {"text": "a text"}


def fail(_arguments: dict[str, Any], _context: CallContext) -> dict[str, Any]:
    raise ToolFailure("meant", "this tool always fails")


def progress(_arguments: dict[str, Any], context: CallContext) -> dict[str, Any]:
    for done in (0, 50, 100):
        context.progress(done, 100)
    return {"text": "done"}


def conformance_server() -> McpServer:
    described = {
        "test_simple_text": (NOTHING, say),
        "test_error_handling": (NOTHING, fail),
        "test_tool_with_progress": (NOTHING, progress),
        "test_logging_tool": (NOTHING, say),
        "test_streaming_elicitation": (NOTHING, progress),
        "json_schema_2020_12_tool": (VOCABULARY, say),
    }
    tools = [Tool(name, name, f"{name}.", schema, TEXT, handler) for name, (schema, handler) in described.items()]
    return McpServer("conformance", "1", tools)
