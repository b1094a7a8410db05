"""Our client drives a server of the TypeScript reference implementation, over both transports, in every revision.

In ``test_mcp_inspector.py`` its client drives our server.
"""

from __future__ import annotations

import shutil
import subprocess
from contextlib import closing
from pathlib import Path

import pytest
from mcp_types.version import KNOWN_PROTOCOL_VERSIONS

from cardapp.errors import McpRemoteError
from cardapp.mcp.client import McpClient, ToolResult
from tests.functional.registry import NpmPrograms

pytestmark = pytest.mark.functional

SERVER = Path(__file__).with_name("mcp_typescript_server.mjs")
PATIENCE = 30.0


def drive(client: McpClient, revision: str) -> None:
    def call(name: str, **arguments: object) -> ToolResult:
        return client.call_tool(name, arguments, timeout=PATIENCE, maximum=PATIENCE)

    assert client.revision == revision
    assert client.server_info["name"] == "typescript"
    client.ping(timeout=PATIENCE)
    assert [tool["name"] for tool in client.list_tools()] == ["add", "fail", "count"]
    assert call("add", a=1, b=2) == ToolResult({"sum": 3}, False, "3")
    assert call("fail") == ToolResult(None, True, "no luck")
    assert call("add", a="one", b=2).is_error
    seen: list[object] = []
    client.call_tool("count", {}, timeout=PATIENCE, maximum=PATIENCE, on_progress=lambda *report: seen.append(report))
    assert seen == [(n, 3, f"step {n}") for n in (1, 2, 3)]
    with pytest.raises(McpRemoteError):
        call("nope")


@pytest.mark.parametrize("revision", KNOWN_PROTOCOL_VERSIONS)
@pytest.mark.parametrize("transport", ["socket", "stdio"])
def test_our_client_drives_the_typescript_server(
    npm_programs: NpmPrograms, revision: str, transport: str, state_dir: Path
) -> None:
    script = shutil.copy(SERVER, npm_programs.folder)  # Node.js resolves its imports from its own folder
    path = [] if transport == "stdio" else [state_dir / "s"]
    command = [npm_programs.node, script, revision, *path]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as server:
        try:
            assert None not in (server.stdin, server.stdout, server.stderr)
            if path:
                assert server.stderr.readline() == b"listening\n"
                client = McpClient.connect(path[0], timeout=PATIENCE)
            else:
                client = McpClient(server.stdout, server.stdin, timeout=PATIENCE)
            with closing(client):
                drive(client, revision)
            assert server.wait(PATIENCE) == 0
        finally:
            server.kill()
