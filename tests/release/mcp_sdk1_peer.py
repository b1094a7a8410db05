"""A peer made with release 1.x of the reference implementation ``mcp``: ``serve`` over stdio, or ``drive COMMAND…``.

It runs in a Python that has such a release and no code of this repository. ``drive`` starts a server and prints its
findings as JSON.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import sys
from typing import Any

from mcp import ClientSession, McpError, StdioServerParameters, types
from mcp.client.stdio import stdio_client
from mcp.server import Server
from mcp.server.stdio import stdio_server

NUMBER = {"type": "number"}
BOTH = {"type": "object", "properties": {"a": NUMBER, "b": NUMBER}, "required": ["a", "b"]}

server: Any = Server("first line")


@server.list_tools()
async def list_tools() -> list[types.Tool]:
    nothing = {"type": "object", "properties": {}}
    return [
        types.Tool(name="add", description="Adds a and b.", inputSchema=BOTH),
        types.Tool(name="count", description="Counts to three.", inputSchema=nothing),
        types.Tool(name="fail", description="Fails.", inputSchema=nothing),
    ]


@server.call_tool()
async def call_tool(name: str, arguments: dict[str, Any]) -> list[types.TextContent]:
    if name == "fail":
        raise ValueError("no luck")
    if name == "count":
        context = server.request_context
        for done in (1, 2, 3):
            await context.session.send_progress_notification(context.meta.progressToken, done, 3)
        return []
    return [types.TextContent(type="text", text=str(arguments["a"] + arguments["b"]))]


async def serve() -> None:
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


async def refused(request: Any) -> bool:
    try:
        await request
    except McpError:
        return True
    return False


async def drive(command: str, *arguments: str) -> dict[str, Any]:
    seen: list[float] = []

    async def note(progress: float, *_more: object) -> None:
        seen.append(progress)

    parameters = StdioServerParameters(command=command, args=list(arguments))
    async with stdio_client(parameters) as (read, write), ClientSession(read, write) as session:
        opened = await session.initialize()
        await session.send_ping()
        tools = [tool.name for tool in (await session.list_tools()).tools]
        added, failed = await session.call_tool("add", {"a": 1, "b": 2}), await session.call_tool("fail", {})
        watched = "progress_callback" in inspect.signature(session.call_tool).parameters
        await session.call_tool("count", {"steps": 3}, **({"progress_callback": note} if watched else {}))
        return {
            "revision": opened.protocolVersion,
            "server": opened.serverInfo.name,
            "tools": tools,
            "added": [added.content[0].text, getattr(added, "structuredContent", None)],
            "failed": [failed.isError, failed.content[0].text],
            "progress": seen if watched else None,
            "unknown tool refused": await refused(session.call_tool("nope", {})),
            "unknown method refused": await refused(session.list_prompts()),
        }


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        asyncio.run(serve())
    else:
        sys.stdout.write(json.dumps(asyncio.run(drive(*sys.argv[2:]))))
