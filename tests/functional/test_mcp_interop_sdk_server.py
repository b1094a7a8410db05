"""Our client drives servers of the reference implementation, over a Unix socket and over stdio, in every revision.

Without ``--full`` only one test runs. It uses every feature that the application uses in a session.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, LATEST_MODERN_VERSION

from cardapp.errors import McpCancelled, McpClosed, McpProtocolError, McpRemoteError, McpTimeout
from cardapp.mcp.client import McpClient, ToolResult

pytestmark = pytest.mark.functional

SERVER = Path(__file__).resolve().parents[1] / "cardapp" / "mcp" / "sdk_server.py"
PATIENCE = 30.0
REVISIONS = [
    *(pytest.param(each, marks=pytest.mark.full) for each in HANDSHAKE_PROTOCOL_VERSIONS),
    LATEST_MODERN_VERSION,
]
BOTH_ERAS = [HANDSHAKE_PROTOCOL_VERSIONS[-1], LATEST_MODERN_VERSION]

Start = Callable[[str, str], McpClient]


@pytest.fixture
def processes() -> Iterator[list[subprocess.Popen[bytes]]]:
    """The started servers. Each must end by itself after its client has closed the connection."""
    started: list[subprocess.Popen[bytes]] = []
    yield started
    for process in started:
        try:
            process.wait(PATIENCE)
        finally:
            process.kill()
            if process.stderr is not None:
                process.stderr.close()


@pytest.fixture(params=["socket", pytest.param("stdio", marks=pytest.mark.full)])
def start(request: pytest.FixtureRequest, state_dir: Path, processes: list[subprocess.Popen[bytes]]) -> Iterator[Start]:
    """``start(make, revision)`` starts a server and returns our client, connected to it."""
    clients: list[McpClient] = []

    def connect(make: str, revision: str) -> McpClient:
        command = [sys.executable, str(SERVER), make, revision]
        if request.param == "socket":
            process = subprocess.Popen([*command, str(state_dir / "s")], stderr=subprocess.PIPE)
            processes.append(process)
            assert process.stderr is not None
            assert process.stderr.readline() == b"listening\n"
            clients.append(McpClient.connect(state_dir / "s", timeout=PATIENCE))
            assert clients[-1].peer_pid == process.pid
        else:
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            processes.append(process)
            assert process.stdin is not None
            assert process.stdout is not None
            clients.append(McpClient(process.stdout, process.stdin, timeout=PATIENCE))
        return clients[-1]

    yield connect
    for client in clients:
        client.close()


def call(client: McpClient, name: str, _timeout: float = PATIENCE, **arguments: Any) -> ToolResult:
    return client.call_tool(name, arguments, timeout=_timeout, maximum=PATIENCE)


def progress(client: McpClient) -> list[tuple[float, float | None, str | None]]:
    seen: list[tuple[float, float | None, str | None]] = []
    client.call_tool(
        "count", {"steps": 3}, timeout=PATIENCE, maximum=PATIENCE, on_progress=lambda *report: seen.append(report)
    )
    return seen


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_server_made_by_hand_is_listed_called_and_its_faults_named(start: Start, revision: str) -> None:
    client = start("lowlevel", revision)
    assert client.revision == revision
    assert client.lifecycle == ("stateless" if revision == LATEST_MODERN_VERSION else "handshake")
    assert client.server_info["name"] == "by hand"
    client.ping(timeout=PATIENCE)
    assert [tool["name"] for tool in client.list_tools()] == ["add", "count", "stopped", "fail", "lie"]
    assert call(client, "add", a=1, b=2.5) == ToolResult({"sum": 3.5}, False, "3.5")
    assert progress(client) == [(n, 3, f"step {n}") for n in (1, 2, 3)]
    assert call(client, "fail") == ToolResult(None, True, "no luck")
    with pytest.raises(McpProtocolError, match="/sum"):
        call(client, "lie")
    with pytest.raises(McpRemoteError):
        client._request("resources/list", {}, timeout=PATIENCE)


@pytest.mark.full
@pytest.mark.parametrize("revision", BOTH_ERAS)
def test_a_server_made_by_decorators_is_called(start: Start, revision: str) -> None:
    client = start("decorated", revision)
    assert client.revision == revision
    assert call(client, "add", a=1, b=2).structured == {"sum": 3}
    assert call(client, "count", steps=2).structured == {"result": 2}
    assert progress(client) == [(n, 3, f"step {n}") for n in (1, 2, 3)]
    failed = call(client, "fail")
    assert failed.is_error
    assert "fail" in failed.text
    assert call(client, "add", a="one", b=2).is_error


@pytest.mark.full
@pytest.mark.parametrize("revision", BOTH_ERAS)
@pytest.mark.parametrize("how", ["timeout", "cancel"])
def test_a_call_given_up_is_stopped_at_the_server(start: Start, revision: str, how: str) -> None:
    client = start("lowlevel", revision)
    cancel = threading.Event()
    with pytest.raises(McpTimeout if how == "timeout" else McpCancelled):
        client.call_tool(
            "count",
            {"steps": 1, "hold": True},
            timeout=0.5 if how == "timeout" else PATIENCE,
            maximum=PATIENCE,
            on_progress=lambda *_report: cancel.set() if how == "cancel" else None,
            cancel=cancel,
        )
    assert not call(client, "stopped").is_error  # answers after the other call was cancelled


@pytest.mark.full
@pytest.mark.parametrize("revision", BOTH_ERAS)
def test_a_server_killed_during_a_call_closes_the_client(
    start: Start, processes: list[subprocess.Popen[bytes]], revision: str
) -> None:
    client = start("lowlevel", revision)
    with pytest.raises(McpClosed):
        client.call_tool(
            "count",
            {"steps": 1, "hold": True},
            timeout=PATIENCE,
            maximum=PATIENCE,
            on_progress=lambda *_report: processes[0].kill(),
        )
