"""Our client as the conformance suite starts it: ``python -m tests.release.mcp_conformance_client URL``.

In every scenario it initializes the connection, lists the tools, calls each tool with arguments generated from the
tool's schema, and pings the server. A call may be refused. Any other error ends the client with a traceback.
"""

from __future__ import annotations

import contextlib
import sys
from typing import Any

from cardapp.errors import McpError
from cardapp.mcp.client import McpClient
from tests.release.mcp_http_bridge import HttpBack

PATIENCE = 10.0  # seconds; less than the suite's timeout for a client
CALL = 3.0

SAMPLES: dict[str, Any] = {"number": 5, "integer": 5, "string": "text", "boolean": True, "array": [], "object": {}}


def arguments(tool: dict[str, Any], tools: list[dict[str, Any]]) -> dict[str, Any]:
    """A value for each required argument. An argument named ``schema`` gets the schema of the first tool, as the server
    sent it."""
    schema = tool.get("inputSchema", {})
    wanted = {name: schema["properties"][name].get("type") for name in schema.get("required", ())}
    return {name: tools[0]["inputSchema"] if name == "schema" else SAMPLES.get(kind) for name, kind in wanted.items()}


def main(url: str) -> None:
    end = HttpBack(url).client_end
    client = McpClient(end, end, timeout=PATIENCE)
    for tool in (tools := client.list_tools()):
        with contextlib.suppress(McpError):
            client.call_tool(tool["name"], arguments(tool, tools), timeout=CALL, maximum=PATIENCE)
    client.ping()
    client.close()


if __name__ == "__main__":
    main(sys.argv[1])
