"""MCP with programs of the npm registry: the protocol's conformance suite, its inspector, and its TypeScript server.

``mcp_out_of_scope.yml`` lists the checks of the suite that do not apply here, with the reasons.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from cardapp.errors import McpRemoteError
from cardapp.mcp.client import McpClient, ToolResult
from cardapp.mcp.server import UnixListener
from tests.functional.registry import NpmPrograms
from tests.functional.serving import PROGRAM, Sessions, make_card
from tests.release.mcp_conformance_tools import conformance_server
from tests.release.mcp_http_bridge import HttpFront

pytestmark = pytest.mark.functional

HERE = Path(__file__).parent
CARD_SESSION = HERE.parents[1] / "bin" / "card-session"
PATIENCE = 30.0
MODERN = "2026-07-28"
CALLS = {"tools-list", "tools-call-simple-text", "tools-call-error", "tools-call-with-progress"}
STREAMS = CALLS | {"server-sse-multiple-streams", "json-schema-2020-12"}
SERVED = {
    "2025-06-18": CALLS | {"server-initialize", "server-session-lifecycle", "ping"},
    "2025-11-25": STREAMS | {"server-initialize", "ping"},
    MODERN: STREAMS,
    None: STREAMS | {"server-initialize", "ping"},
}
"""Without a revision the suite runs each scenario with the newest revision that it knows for the scenario, and the
extensions."""
LINE = next(number for number, line in enumerate(PROGRAM.splitlines(), 1) if "/* again */" in line)
TOOL_FAILED = 5
"""The inspector's exit status for a tool that answered with isError."""


@pytest.fixture(scope="module")
def sessions() -> Iterator[Sessions]:
    """A real session, for the inspector and for the scenarios that call none of the suite's tools."""
    with tempfile.TemporaryDirectory(prefix="card-", dir="/tmp") as folder:
        started = Sessions(Path(folder) / "state")
        try:
            started.start(make_card(Path(folder) / "card"))
            yield started
        finally:
            started.stop()


# -- the conformance suite ---------------------------------------------------------------------------------------------


def conformance(npm_programs: NpmPrograms, url: str, revision: str | None, *arguments: str) -> str:
    """The output of the suite's run against the server at ``url``, which must end without an unexpected result."""
    version = [] if revision is None else ["--spec-version", revision]
    out_of_scope = ["--expected-failures", HERE / "mcp_out_of_scope.yml"]
    done = npm_programs.run("conformance", "server", "--url", url, *version, *out_of_scope, *arguments)
    assert done.returncode == 0, done.stdout[done.stdout.rfind("SUMMARY") :] + done.stderr
    return done.stdout


@pytest.mark.parametrize("revision", SERVED)
def test_our_server_passes_the_suite(npm_programs: NpmPrograms, state_dir: Path, revision: str | None) -> None:
    listener = UnixListener(state_dir / "s", conformance_server())
    listener.start()
    with HttpFront(state_dir / "s") as front:
        said = conformance(npm_programs, front.url, revision, "--suite", "all")
    listener.stop()
    assert set(re.findall(r"^✓ (\S+): [1-9]\d* passed, 0 failed", said, re.MULTILINE)) >= SERVED[revision]


def test_a_real_session_passes_the_scenarios_without_tools_of_the_suite(
    npm_programs: NpmPrograms, sessions: Sessions
) -> None:
    with HttpFront(sessions.socket) as front:
        for revision, scenario in (
            ("2025-06-18", "tools-list"), ("2025-11-25", "server-session-lifecycle"), (MODERN, "caching"),
        ):  # fmt: skip
            said = conformance(npm_programs, front.url, revision, "--scenario", scenario)
            assert re.search(r"Passed: [1-9]", said), said


# -- the inspector, on ``bin/card-session mcp``; its client is the TypeScript SDK's ------------------------------------


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_the_inspector_lists_the_tools_and_brings_the_program_to_a_stop(
    npm_programs: NpmPrograms, sessions: Sessions, era: str
) -> None:
    def inspect(method: str, *arguments: str) -> tuple[int, dict[str, Any]]:
        """The exit status and the result, or the error."""
        done = npm_programs.run(
            "mcp-inspector", "--cli", CARD_SESSION, "mcp", "s", "-e", f"CARD_STATE_DIR={sessions.state}",
            "--protocol-era", era, "--format", "json", "--quiet", "--method", method, *arguments,
        )  # fmt: skip
        response = json.loads(done.stdout or done.stderr)
        return done.returncode, response.get("result", response)

    def call(name: str, arguments: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        return inspect("tools/call", "--tool-name", name, "--tool-args-json", json.dumps(arguments))

    status, opened = inspect("initialize")
    assert (status, opened["serverInfo"]["name"], opened["capabilities"]) == (0, "card-session", {"tools": {}})
    assert opened["protocolVersion"] == ("2025-11-25" if era == "legacy" else MODERN)
    status, listed = inspect("tools/list", "--strict")
    assert status == 0, listed
    assert {"session_binding", "checkpoint_replay", "debugger_state"} <= {tool["name"] for tool in listed["tools"]}
    assert all(tool["outputSchema"]["type"] == "object" for tool in listed["tools"])

    status, result = call("session_binding", {})
    assert (status, result["isError"], result["structuredContent"]["target"]) == (0, False, "probe")
    binding = {name: result["structuredContent"][name] for name in ("container_id", "instance", "profile", "target")}
    replay = {
        **binding,
        "generation": 1,
        "snapshot_ref": "t1/b1/p1/quick/second",
        "stop": {"file": "main.c", "line": LINE, "text": "/* again */", "hits": 1},
        "expressions": ["n", "n + 1"],
        "timeout_ms": 10_000,
    }
    status, read = call("checkpoint_replay", replay)
    assert status == 0, read
    assert read["structuredContent"]["values"]["n"]["value"] == "2"
    assert json.loads(read["content"][0]["text"]) == read["structuredContent"]
    status, stood = call("debugger_state", {})
    assert (status, stood["structuredContent"]["state"], stood["structuredContent"]["line"]) == (0, "stopped", LINE)
    status, refused = call("checkpoint_replay", {**replay, "instance": "another"})
    assert (status, refused["isError"]) == (TOOL_FAILED, True)
    assert refused["structuredContent"]["code"] == "binding_mismatch"
    status, refused = call("pane_fit", {"cols": 3})
    assert (status, refused["structuredContent"]["code"]) == (TOOL_FAILED, "invalid_arguments")

    load = ("--load", "--load-requests", "40", "--load-concurrency", "8")
    status, summary = inspect("tools/call", "--tool-name", "debugger_state", *load)
    assert (status, summary["ok"], summary["toolErrors"], summary["errors"]) == (0, 40, 0, 0), summary
    assert inspect("prompts/list") == (0, {"prompts": []})


# -- the TypeScript server ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("revision", "transport"), [("2024-11-05", "stdio"), ("2025-11-25", "socket"), (MODERN, "socket")]
)
def test_our_client_drives_the_typescript_server(
    npm_programs: NpmPrograms, revision: str, transport: str, state_dir: Path
) -> None:
    # Node.js resolves its imports from its own folder.
    script = shutil.copy(HERE / "mcp_typescript_server.mjs", npm_programs.folder)
    path = [] if transport == "stdio" else [state_dir / "s"]
    command, pipe = [npm_programs.node, script, revision, *path], subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as server:
        try:
            assert server.stdin is not None
            assert server.stdout is not None
            assert server.stderr is not None
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


def drive(client: McpClient, revision: str) -> None:
    def call(name: str, **arguments: object) -> ToolResult:
        return client.call_tool(name, arguments, timeout=PATIENCE, maximum=PATIENCE)

    assert (client.revision, client.server_info["name"]) == (revision, "typescript")
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
