"""A small MCP server for tests. Tests import its tools, or run it as ``example_server.py`` over stdio."""

from __future__ import annotations

import sys
import threading
from typing import Any

from cardapp.mcp.server import CallContext, McpServer, Tool, ToolFailure, serve_stdio

NUMBER = {"type": "number"}


def schema(required: list[str], **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


STOPPED = threading.Event()
"""Set when a count was cancelled."""


def add(arguments: dict[str, Any], _context: CallContext) -> dict[str, Any]:
    sys.stdout.write("what a tool prints must not reach the peer\n")
    sys.stdout.flush()
    return {"sum": arguments["a"] + arguments["b"]}


def count(arguments: dict[str, Any], context: CallContext) -> dict[str, Any]:
    """Report each step. With ``hold``, wait after the last step until the call is cancelled."""
    steps = arguments["steps"]
    for step in range(1, steps + 1):
        context.progress(step, steps, f"step {step}")
    if arguments.get("hold") and context.cancelled.wait(60):
        STOPPED.set()
        raise ToolFailure("cancelled", "the count was cancelled")
    return {"counted": steps}


def stopped(_arguments: dict[str, Any], _context: CallContext) -> dict[str, Any]:
    """Wait until a count was cancelled."""
    return {"stopped": STOPPED.wait(20)}


def fail(_arguments: dict[str, Any], _context: CallContext) -> dict[str, Any]:
    raise ToolFailure("no_luck", "it cannot be done", attempts=3)


def fail_badly(_arguments: dict[str, Any], _context: CallContext) -> dict[str, Any]:
    raise ToolFailure("no_luck", "its details cannot be serialized", what=object())


def crash(_arguments: dict[str, Any], _context: CallContext) -> dict[str, Any]:
    raise ZeroDivisionError("an internal detail")


TOOLS = (
    Tool("add", "Add", "Adds a and b.", schema(["a", "b"], a=NUMBER, b=NUMBER), schema(["sum"], sum=NUMBER), add),
    Tool(
        "count",
        "Count",
        "Counts, reporting each step.",
        schema(["steps"], steps={"type": "integer", "minimum": 0}, hold={"type": "boolean"}),
        schema(["counted"], counted={"type": "integer"}),
        count,
    ),
    Tool("stopped", "Stopped", "Waits for a stop.", schema([]), schema(["stopped"], stopped={"const": True}), stopped),
    Tool("fail", "Fail", "Fails.", schema([]), schema(["sum"], sum=NUMBER), fail),
    Tool("fail_badly", "Fail badly", "Fails without JSON.", schema([]), schema([]), fail_badly),
    Tool("crash", "Crash", "Has a defect.", schema([]), schema([]), crash),
)


def example_server(**options: Any) -> McpServer:
    return McpServer("example", "1.0", TOOLS, "Adds and counts.", **options)


if __name__ == "__main__":
    serve_stdio(example_server())
