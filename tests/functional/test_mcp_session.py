"""The reference implementation's client drives a real session: over its socket, and over ``card-session mcp``."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

from tests.cardapp.mcp.sdk_server import socket_streams
from tests.functional.serving import PROGRAM, Sessions, make_card

pytestmark = pytest.mark.functional

PATIENCE = 30.0
TOOLS = {"session_binding", "checkpoint_replay", "target_reset", "pane_fit", "debugger_state"} | {
    *("step", "next", "finish", "continue", "interrupt", "backtrace", "locals", "run_commands", "read_constants"),
    *("list_sources", "read_source", "restore_source"),
}
LINE = next(number for number, line in enumerate(PROGRAM.splitlines(), 1) if "/* again */" in line)


@pytest.fixture(scope="module")
def sessions() -> Iterator[Sessions]:
    with tempfile.TemporaryDirectory(prefix="card-", dir="/tmp") as folder:
        started = Sessions(Path(folder) / "state")
        try:
            started.start(make_card(Path(folder) / "card"))
            yield started
        finally:
            started.stop()


def over_stdio(sessions: Sessions) -> AbstractAsyncContextManager[Any]:
    command = ["-P", "-m", "cardapp.session_host", "mcp", "s"]
    environment = {**os.environ, "CARD_STATE_DIR": str(sessions.state)}
    return stdio_client(StdioServerParameters(command=sys.executable, args=command, env=environment))


@asynccontextmanager
async def over_socket(sessions: Sessions) -> AsyncIterator[Any]:
    async with socket_streams(await anyio.connect_unix(sessions.socket)) as streams:
        yield streams


@pytest.mark.parametrize(("era", "transport"), [("handshake", over_stdio), ("modern", over_socket)])
def test_a_foreign_client_brings_the_program_to_a_stop(
    sessions: Sessions, era: str, transport: Callable[[Sessions], AbstractAsyncContextManager[Any]]
) -> None:
    stages: list[str | None] = []

    async def progress(_done: float, _total: float | None, message: str | None) -> None:
        stages.append(message)

    async def script() -> None:
        with anyio.fail_after(PATIENCE):
            async with (
                transport(sessions) as (read, write),
                ClientSession(read, write, read_timeout_seconds=PATIENCE) as client,
            ):
                await (client.discover() if era == "modern" else client.initialize())
                tools = {tool.name for tool in (await client.list_tools()).tools}
                assert tools == TOOLS
                described = (await client.call_tool("session_binding", {})).structured_content
                assert described["target"] == "probe"
                binding = {name: described[name] for name in ("container_id", "instance", "profile", "target")}
                replay = {
                    **binding,
                    "generation": 1,
                    "snapshot_ref": "t1/b1/p1/quick/second",
                    "stop": {"file": "main.c", "line": LINE, "text": "/* again */", "hits": 1},
                    "expressions": ["n", "n + 1"],
                    "timeout_ms": 10_000,
                }
                result = await client.call_tool("checkpoint_replay", replay, progress_callback=progress)
                assert not result.is_error, result
                assert result.structured_content["values"]["n"]["value"] == "2"
                assert result.structured_content["function"] == "main"
                wrong = await client.call_tool("checkpoint_replay", {**replay, "instance": "another"})
                assert wrong.is_error
                assert wrong.structured_content["code"] == "binding_mismatch"
                stood = (await client.call_tool("debugger_state", {})).structured_content
                assert (stood["state"], stood["line"]) == ("stopped", LINE)
                moved = (await client.call_tool("next", {})).structured_content
                assert (moved["state"], moved["line"]) == ("stopped", LINE + 1)
                stack = (await client.call_tool("backtrace", {})).structured_content
                assert stack["frames"] == [{"level": 0, "function": "main", "file": "main.c", "line": LINE + 1}]

    anyio.run(script)
    assert stages == ["building", "resetting", "replaying", "verifying"]
