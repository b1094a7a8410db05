"""The reference implementation's client drives our server, over a Unix socket and over stdio, in every revision.

Without ``--full`` only one test runs: a client of the oldest and one of the newest revision use the same server.
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
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

pytestmark = pytest.mark.functional

HERE = Path(__file__).resolve().parent
EXAMPLE = HERE.parent / "cardapp" / "mcp" / "example_server.py"
PEER = runpy.run_path(str(HERE.parent / "cardapp" / "mcp" / "sdk_server.py"))
REVISIONS = [*HANDSHAKE_PROTOCOL_VERSIONS, LATEST_MODERN_VERSION]
STRUCTURED = {"2025-06-18", "2025-11-25", LATEST_MODERN_VERSION}
PATIENCE = 30.0

Transport = Callable[[], AbstractAsyncContextManager[Any]]


@pytest.fixture(params=["socket", pytest.param("stdio", marks=pytest.mark.full)])
def transport(request: pytest.FixtureRequest, state_dir: Path) -> Iterator[Transport]:
    """Opens a new transport to our example server."""
    if request.param == "stdio":
        yield lambda: stdio_client(StdioServerParameters(command=sys.executable, args=[str(EXAMPLE)]))
        return
    listener = UnixListener(state_dir / "s", runpy.run_path(str(EXAMPLE))["example_server"]())
    listener.start()

    @asynccontextmanager
    async def connect() -> AsyncIterator[Any]:
        async with PEER["socket_streams"](await anyio.connect_unix(state_dir / "s")) as streams:
            yield streams

    yield connect
    listener.stop()


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


def in_session(transport: Transport, revision: str, script: Callable[[ClientSession], Awaitable[None]]) -> None:
    async def run() -> None:
        with anyio.fail_after(PATIENCE):
            async with session(transport, revision) as opened:
                await script(opened)

    anyio.run(run)


def text_of(result: Any) -> str:
    return "".join(part.text for part in result.content)


@pytest.mark.full
@pytest.mark.parametrize("revision", REVISIONS)
def test_opening_names_the_server_and_lists_its_tools(transport: Transport, revision: str) -> None:
    async def script(opened: ClientSession) -> None:
        assert opened.server_info is not None
        assert (opened.server_info.name, opened.instructions) == ("example", "Adds and counts.")
        tools = (await opened.list_tools()).tools
        assert [tool.name for tool in tools][:2] == ["add", "count"]
        assert (tools[0].output_schema is not None) == (revision in STRUCTURED)
        assert (tools[0].title is not None) == (revision in STRUCTURED)
        if revision != LATEST_MODERN_VERSION:
            await opened.send_ping()

    in_session(transport, revision, script)


@pytest.mark.full
@pytest.mark.parametrize("revision", REVISIONS)
def test_a_call_returns_text_and_since_2025_06_structure(transport: Transport, revision: str) -> None:
    async def script(opened: ClientSession) -> None:
        result = await opened.call_tool("add", {"a": 1, "b": 2})
        assert isinstance(result, types.CallToolResult)
        assert (result.is_error, text_of(result)) == (False, '{"sum": 3}')
        assert result.structured_content == ({"sum": 3} if revision in STRUCTURED else None)
        failed = await opened.call_tool("fail")
        assert isinstance(failed, types.CallToolResult)
        assert (failed.is_error, text_of(failed)) == (True, "it cannot be done")
        if revision in STRUCTURED:
            assert failed.structured_content == {"code": "no_luck", "reason": "it cannot be done", "attempts": 3}

    in_session(transport, revision, script)


@pytest.mark.full
@pytest.mark.parametrize("revision", REVISIONS)
def test_what_is_wrong_is_refused_with_the_code_of_the_revision(transport: Transport, revision: str) -> None:
    async def script(opened: ClientSession) -> None:
        with pytest.raises(MCPError) as unknown:
            await opened.call_tool("nope")
        assert unknown.value.code == types.INVALID_PARAMS
        with pytest.raises(MCPError) as defect:
            await opened.call_tool("crash")
        assert defect.value.code == types.INTERNAL_ERROR
        with pytest.raises(MCPError) as absent:
            await opened.list_resources()
        assert absent.value.code == types.METHOD_NOT_FOUND
        if revision in ("2025-11-25", LATEST_MODERN_VERSION):
            result = await opened.call_tool("add", {"a": "1"})
            assert isinstance(result, types.CallToolResult)
            assert result.is_error
        else:
            with pytest.raises(MCPError) as wrong:
                await opened.call_tool("add", {"a": "1"})
            assert wrong.value.code == types.INVALID_PARAMS

    in_session(transport, revision, script)


@pytest.mark.full
@pytest.mark.parametrize("revision", REVISIONS)
def test_progress_is_reported_with_its_message(transport: Transport, revision: str) -> None:
    seen: list[tuple[float, float | None, str | None]] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, total, message))

    async def script(opened: ClientSession) -> None:
        await opened.call_tool("count", {"steps": 3}, progress_callback=note)

    in_session(transport, revision, script)
    assert seen == [(n, 3, None if revision == "2024-11-05" else f"step {n}") for n in (1, 2, 3)]


@pytest.mark.full
@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("how", ["timeout", "cancel"])
def test_an_abandoned_call_is_cancelled(transport: Transport, revision: str, how: str) -> None:
    async def script(opened: ClientSession) -> None:
        begun = anyio.Event()

        async def note(progress: float, total: float | None, message: str | None) -> None:
            begun.set()

        async def count() -> None:
            await opened.call_tool("count", {"steps": 1, "hold": True}, progress_callback=note)

        if how == "timeout":
            with pytest.raises(MCPError) as late:
                await opened.call_tool("count", {"steps": 1, "hold": True}, read_timeout_seconds=0.3)
            assert late.value.code == types.REQUEST_TIMEOUT
        else:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(count)
                await begun.wait()
                tasks.cancel_scope.cancel()
        result = await opened.call_tool("stopped")  # responds after the other call was cancelled
        assert isinstance(result, types.CallToolResult)
        assert text_of(result) == '{"stopped": true}'

    in_session(transport, revision, script)


@pytest.mark.full
@pytest.mark.parametrize("mode", ["auto", "legacy", LATEST_MODERN_VERSION])
def test_the_client_finds_an_era_by_itself(transport: Transport, mode: Any) -> None:
    async def run() -> None:
        with anyio.fail_after(PATIENCE):
            async with Client(transport(), mode=mode) as client:
                result = await client.call_tool("add", {"a": 2, "b": 2})
                assert result.structured_content == {"sum": 4}
                assert (await client.list_tools()).tools[0].name == "add"

    anyio.run(run)


def test_an_old_and_a_new_client_share_the_server(transport: Transport) -> None:
    async def script(opened: ClientSession) -> None:
        await opened.call_tool("add", {"a": 2, "b": 2})

    in_session(transport, "2024-11-05", script)
    in_session(transport, LATEST_MODERN_VERSION, script)
