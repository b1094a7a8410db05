"""A small MCP server for tests. Tests import it, or run it as ``example_server.py`` over stdio."""

from __future__ import annotations

import sys
import threading
from typing import Any

from cardapp.mcp.server import CallContext, McpServer, Tool, ToolFailure, serve_stdio

NUMBER = {"type": "number"}


def schema(required: list[str], **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def add(arguments: dict[str, Any], _context: CallContext) -> dict[str, Any]:
    sys.stdout.write("what a tool prints must not reach the peer\n")
    sys.stdout.flush()
    return {"sum": arguments["a"] + arguments["b"]}


def fail(_arguments: dict[str, Any], _context: CallContext) -> dict[str, Any]:
    raise ToolFailure("no_luck", "it cannot be done", attempts=3)


def fail_badly(_arguments: dict[str, Any], _context: CallContext) -> dict[str, Any]:
    raise ToolFailure("no_luck", "its details cannot be serialized", what=object())


def crash(_arguments: dict[str, Any], _context: CallContext) -> dict[str, Any]:
    raise ZeroDivisionError("an internal detail")


def example_server(**options: Any) -> McpServer:
    was_stopped = threading.Event()
    """Set when a count was cancelled."""

    def count(arguments: dict[str, Any], context: CallContext) -> dict[str, Any]:
        """Report each step. With ``hold``, wait after the last step until the call is cancelled."""
        steps = arguments["steps"]
        for step in range(1, steps + 1):
            context.progress(step, steps, f"step {step}")
        if arguments.get("hold") and context.cancelled.wait(60):
            was_stopped.set()
            raise ToolFailure("cancelled", "the count was cancelled")
        return {"counted": steps}

    def stopped(_arguments: dict[str, Any], _context: CallContext) -> dict[str, Any]:
        """Wait until a count was cancelled."""
        return {"stopped": was_stopped.wait(20)}

    nothing = schema([])
    steps = schema(["steps"], steps={"type": "integer", "minimum": 0}, hold={"type": "boolean"})
    counted = schema(["counted"], counted={"type": "integer"})
    total = schema(["sum"], sum=NUMBER)
    tools = (
        Tool("add", "Add", "Adds a and b.", schema(["a", "b"], a=NUMBER, b=NUMBER), total, add),
        Tool("count", "Count", "Counts, reporting each step.", steps, counted, count),
        Tool("stopped", "Stopped", "Waits.", nothing, schema(["stopped"], stopped={"const": True}), stopped),
        Tool("fail", "Fail", "Fails.", nothing, total, fail),
        Tool("fail_badly", "Fail badly", "Fails without JSON.", nothing, nothing, fail_badly),
        Tool("crash", "Crash", "Has a defect.", nothing, nothing, crash),
    )
    return McpServer("example", "1.0", tools, "Adds and counts.", **options)


if __name__ == "__main__":
    serve_stdio(example_server())
