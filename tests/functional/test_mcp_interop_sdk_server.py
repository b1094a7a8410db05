"""Our client drives servers of the reference implementation."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, LATEST_MODERN_VERSION

from cardapp.errors import McpCancelled, McpClosed, McpProtocolError, McpRemoteError
from cardapp.mcp.client import McpClient, ToolResult

pytestmark = pytest.mark.functional

SERVER = Path(__file__).resolve().parents[1] / "cardapp" / "mcp" / "sdk_server.py"
PATIENCE = 30.0

Start = Callable[[str, str], tuple[McpClient, subprocess.Popen[bytes]]]


@pytest.fixture
def start(state_dir: Path) -> Iterator[Start]:
    """``start(transport, revision)`` starts a server. Returns our client, connected to it, and the server's process,
    which must end by itself after the client has closed the connection."""
    with ExitStack() as stack:

        def connect(transport: str, revision: str) -> tuple[McpClient, subprocess.Popen[bytes]]:
            command, pipe = [sys.executable, str(SERVER), revision], subprocess.PIPE
            if transport == "socket":
                process = stack.enter_context(subprocess.Popen([*command, str(state_dir / "s")], stderr=pipe))
                stack.callback(process.kill)
                assert process.stderr is not None
                assert process.stderr.readline() == b"listening\n"
                client = McpClient.connect(state_dir / "s", timeout=PATIENCE)
                assert client.peer_pid == process.pid
            else:
                process = stack.enter_context(subprocess.Popen(command, stdin=pipe, stdout=pipe))
                stack.callback(process.kill)
                assert process.stdin is not None
                assert process.stdout is not None
                client = McpClient(process.stdout, process.stdin, timeout=PATIENCE)
            stack.callback(process.wait, PATIENCE)
            stack.callback(client.close)
            return client, process

        yield connect


def call(client: McpClient, name: str, **arguments: Any) -> ToolResult:
    return client.call_tool(name, arguments, timeout=PATIENCE, maximum=PATIENCE)


def hold(client: McpClient, cancel: threading.Event, on_progress: Callable[[], object]) -> None:
    client.call_tool(
        "count", {"steps": 1, "hold": True}, timeout=PATIENCE, maximum=PATIENCE,
        on_progress=lambda *_report: on_progress(), cancel=cancel,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("revision", "transport"),
    [("2024-11-05", "stdio"), (HANDSHAKE_PROTOCOL_VERSIONS[-1], "socket"), (LATEST_MODERN_VERSION, "socket")],
)
def test_our_client_drives_a_server_of_each_era(start: Start, revision: str, transport: str) -> None:
    client, process = start(transport, revision)
    assert client.revision == revision
    assert client.lifecycle == ("stateless" if revision == LATEST_MODERN_VERSION else "handshake")
    assert client.server_info["name"] == "by hand"
    client.ping(timeout=PATIENCE)
    assert [tool["name"] for tool in client.list_tools()] == ["add", "count", "stopped", "fail", "lie"]
    assert call(client, "add", a=1, b=2.5) == ToolResult({"sum": 3.5}, False, "3.5")
    assert call(client, "fail") == ToolResult(None, True, "no luck")
    with pytest.raises(McpProtocolError, match="/sum"):
        call(client, "lie")
    with pytest.raises(McpRemoteError, match="no such tool"):
        call(client, "nope")
    seen: list[Any] = []
    client.call_tool(
        "count", {"steps": 3}, timeout=PATIENCE, maximum=PATIENCE, on_progress=lambda *report: seen.append(report)
    )
    assert seen == [(n, 3, f"step {n}") for n in (1, 2, 3)]
    cancel = threading.Event()
    with pytest.raises(McpCancelled):
        hold(client, cancel, cancel.set)
    assert not call(client, "stopped").is_error  # answers after the other call was cancelled
    with pytest.raises(McpClosed):
        hold(client, threading.Event(), process.kill)
