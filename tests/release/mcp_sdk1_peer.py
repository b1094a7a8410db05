"""A client made with release 1.x of the reference implementation ``mcp``. It runs in a Python that has such a release
and no code of this repository: it starts the server COMMAND… and prints its findings as JSON.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import sys
from typing import Any

from mcp import ClientSession, McpError, StdioServerParameters
from mcp.client.stdio import stdio_client


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
    sys.stdout.write(json.dumps(asyncio.run(drive(*sys.argv[1:]))))
