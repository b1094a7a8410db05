"""The reference implementation's client drives our server in every revision."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import Client, ClientSession, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, LATEST_MODERN_VERSION

from cardapp.mcp.server import UnixListener
from tests.cardapp.mcp import example_server
from tests.cardapp.mcp.sdk_server import socket_streams

pytestmark = pytest.mark.functional

REVISIONS = [*HANDSHAKE_PROTOCOL_VERSIONS, LATEST_MODERN_VERSION]
STRUCTURED = {"2025-06-18", "2025-11-25", LATEST_MODERN_VERSION}
PATIENCE = 30.0

Transport = Callable[[], AbstractAsyncContextManager[Any]]


@pytest.fixture
def over_socket(state_dir: Path) -> Iterator[Transport]:
    """Opens a new connection to our example server."""
    listener = UnixListener(state_dir / "s", example_server.example_server())
    listener.start()

    @asynccontextmanager
    async def connect() -> AsyncIterator[Any]:
        async with socket_streams(await anyio.connect_unix(state_dir / "s")) as streams:
            yield streams

    yield connect
    listener.stop()


def over_stdio() -> AbstractAsyncContextManager[Any]:
    return stdio_client(StdioServerParameters(command=sys.executable, args=[str(example_server.__file__)]))


@asynccontextmanager
async def session(transport: Transport, revision: str) -> AsyncIterator[ClientSession]:
    """A session at exactly this revision, which the client would not choose by itself."""
    async with transport() as (read, write), ClientSession(read, write, read_timeout_seconds=PATIENCE) as opened:
        if revision == LATEST_MODERN_VERSION:
            await opened.discover()
        else:
            params = types.InitializeRequestParams(
                protocol_version=revision,
                capabilities=types.ClientCapabilities(),
                client_info=types.Implementation(name="sdk", version="2"),
            )
            opened.adopt(await opened.send_request(types.InitializeRequest(params=params), types.InitializeResult))
            await opened.send_notification(types.InitializedNotification())
        assert opened.protocol_version == revision
        yield opened


async def called(opened: ClientSession, name: str, **arguments: Any) -> tuple[bool | None, str, Any]:
    """Whether the tool failed, its text and its structured result."""
    result = await opened.call_tool(name, arguments)
    assert isinstance(result, types.CallToolResult)
    text = "".join(part.text for part in result.content if isinstance(part, types.TextContent))
    return result.is_error, text, result.structured_content


def drive(transport: Transport, revision: str) -> None:
    seen: list[tuple[float, float | None, str | None]] = []
    begun = anyio.Event()

    async def note(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, total, message))
        begun.set()

    async def script(opened: ClientSession) -> None:
        nonlocal begun
        assert opened.server_info is not None
        assert (opened.server_info.name, opened.instructions) == ("example", "Adds and counts.")
        assert [tool.name for tool in (await opened.list_tools()).tools][:2] == ["add", "count"]
        structured = revision in STRUCTURED
        assert await called(opened, "add", a=1, b=2) == (False, '{"sum": 3}', {"sum": 3} if structured else None)
        failure = {"code": "no_luck", "reason": "it cannot be done", "attempts": 3}
        assert await called(opened, "fail") == (True, "it cannot be done", failure if structured else None)
        for name, code in (("nope", types.INVALID_PARAMS), ("crash", types.INTERNAL_ERROR)):
            with pytest.raises(MCPError) as refused:
                await opened.call_tool(name)
            assert refused.value.code == code
        await opened.call_tool("count", {"steps": 3}, progress_callback=note)
        assert seen == [(n, 3, None if revision == "2024-11-05" else f"step {n}") for n in (1, 2, 3)]
        begun = anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: opened.call_tool("count", {"steps": 1, "hold": True}, progress_callback=note))
            await begun.wait()
            tasks.cancel_scope.cancel()
        assert (await called(opened, "stopped"))[1] == '{"stopped": true}'  # answers after the other was cancelled

    async def run() -> None:
        with anyio.fail_after(PATIENCE):
            async with session(transport, revision) as opened:
                await script(opened)

    anyio.run(run)


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_client_of_each_revision_drives_our_server(over_socket: Transport, revision: str) -> None:
    drive(over_socket, revision)


def test_a_client_drives_our_server_over_stdio() -> None:
    drive(over_stdio, "2025-11-25")


def test_a_client_finds_an_era_by_itself(over_socket: Transport) -> None:
    async def run(mode: Any, revision: str) -> None:
        with anyio.fail_after(PATIENCE):
            async with Client(over_socket(), mode=mode) as client:
                assert client.session.protocol_version == revision
                assert (await client.call_tool("add", {"a": 2, "b": 2})).structured_content == {"sum": 4}
                assert (await client.list_tools()).tools[0].name == "add"

    for mode, revision in (("auto", LATEST_MODERN_VERSION), ("legacy", "2025-11-25")):
        anyio.run(run, mode, revision)
