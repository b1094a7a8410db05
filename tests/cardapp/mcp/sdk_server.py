"""An MCP server made with the reference implementation, for tests: ``sdk_server.py REVISION [SOCKET]``.

With the modern REVISION the server accepts both eras, otherwise only the handshake with REVISION. It serves one peer:
the first that connects to SOCKET, or without SOCKET the process that started it. Clients of the reference
implementation use ``socket_streams`` too.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.abc
import mcp_types as types
from mcp import MCPError
from mcp.server import runner
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

STOPPED = anyio.Event()


@asynccontextmanager
async def socket_streams(stream: anyio.abc.ByteStream) -> AsyncIterator[Any]:
    """A transport of the reference implementation over a connected socket. Closes the socket at the end."""
    to_session, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outgoing, from_session = anyio.create_memory_object_stream[SessionMessage](0)

    async def read() -> None:
        rest = b""
        async with to_session:
            async for data in stream:
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
                    await to_session.send(SessionMessage(message))

    async def write() -> None:
        async with from_session:
            async for each in from_session:
                text = each.message.model_dump_json(by_alias=True, exclude_unset=True)
                await stream.send(text.encode() + b"\n")

    async with stream, anyio.create_task_group() as tasks:
        tasks.start_soon(read)
        tasks.start_soon(write)
        yield incoming, outgoing
        tasks.cancel_scope.cancel()


async def hold() -> None:
    try:
        await anyio.sleep(60)
    except anyio.get_cancelled_exc_class():
        STOPPED.set()
        raise


NUMBER = {"type": "number"}
BOTH = {"type": "object", "properties": {"a": NUMBER, "b": NUMBER}, "required": ["a", "b"]}
SUM = {"type": "object", "properties": {"sum": NUMBER}, "required": ["sum"]}
OUTPUTS: dict[str, dict[str, Any] | None] = {"add": SUM, "count": None, "stopped": None, "fail": None, "lie": SUM}


async def list_tools(_context: Any, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
    """One tool a page."""
    names = list(OUTPUTS)
    at = int(params.cursor) if params is not None and params.cursor else 0
    schema = BOTH if names[at] == "add" else {"type": "object"}
    tool = types.Tool(name=names[at], input_schema=schema, output_schema=OUTPUTS[names[at]])
    return types.ListToolsResult(tools=[tool], next_cursor=str(at + 1) if at + 1 < len(names) else None)


async def call_tool(context: ServerRequestContext[Any], params: types.CallToolRequestParams) -> types.CallToolResult:
    arguments = params.arguments or {}
    if params.name == "add":
        total = arguments["a"] + arguments["b"]
        content = [types.TextContent(type="text", text=str(total))]
        return types.CallToolResult(content=[*content], structured_content={"sum": total})
    if params.name == "count":
        for step in range(1, arguments["steps"] + 1):
            await context.session.report_progress(step, arguments["steps"], f"step {step}")
        if arguments.get("hold"):
            await hold()
    elif params.name == "stopped":
        await STOPPED.wait()
    elif params.name == "lie":
        return types.CallToolResult(content=[], structured_content={"sum": "not a number"})
    elif params.name == "fail":
        return types.CallToolResult(content=[types.TextContent(type="text", text="no luck")], is_error=True)
    else:
        raise MCPError(types.INVALID_PARAMS, "no such tool")
    return types.CallToolResult(content=[])


async def serve(revision: str, streams: Any) -> None:
    server: Server[Any] = Server("by hand", version="1", on_list_tools=list_tools, on_call_tool=call_tool)
    async with streams as (incoming, outgoing):
        if revision in MODERN_PROTOCOL_VERSIONS:
            await server.run(incoming, outgoing, server.create_initialization_options())
        else:
            # Like a server of that time, it answers the client's newer offer with the newest revision that it knows.
            runner.HANDSHAKE_PROTOCOL_VERSIONS, runner.LATEST_HANDSHAKE_VERSION = (revision,), revision
            async with server.lifespan(server) as state:
                await runner.serve_loop(server, incoming, outgoing, lifespan_state=state)


async def main(revision: str, *path: str) -> None:
    if not path:
        return await serve(revision, stdio_server())
    listener = await anyio.create_unix_listener(path[0])
    sys.stderr.write("listening\n")
    async with listener:
        stream = await listener.accept()
    await serve(revision, socket_streams(stream))


if __name__ == "__main__":
    anyio.run(lambda: main(*sys.argv[1:]))
