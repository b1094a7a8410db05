"""The inspector's command line on ``bin/card-session mcp`` of a real session; its client is the TypeScript SDK's."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.functional.registry import NpmPrograms
from tests.functional.serving import PROGRAM, Sessions, make_card

pytestmark = pytest.mark.functional

TOOL = Path(__file__).resolve().parents[2] / "bin" / "card-session"
LINE = next(number for number, line in enumerate(PROGRAM.splitlines(), 1) if "/* again */" in line)
FAILED = 5
"""The inspector's exit status for a tool that answered with isError."""

Inspect = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture(scope="module")
def sessions(npm_programs: NpmPrograms) -> Iterator[Sessions]:
    with tempfile.TemporaryDirectory(prefix="card-", dir="/tmp") as folder:
        started = Sessions(Path(folder) / "state")
        try:
            started.start(make_card(Path(folder) / "card"))
            yield started
        finally:
            started.stop()


@pytest.fixture(params=["legacy", "auto", "modern"])
def inspect(request: pytest.FixtureRequest, npm_programs: NpmPrograms, sessions: Sessions) -> Inspect:
    """``inspect(method, …)`` sends a request in one era and returns the exit status and the result, or the error."""

    def ask(method: str, *arguments: str) -> tuple[int, dict[str, Any]]:
        done = npm_programs.run(
            "mcp-inspector", "--cli", TOOL, "mcp", "s", "-e", f"CARD_STATE_DIR={sessions.state}",
            "--protocol-era", request.param, "--format", "json", "--quiet", "--method", method, *arguments,
        )  # fmt: skip
        response = json.loads(done.stdout or done.stderr)
        return done.returncode, response.get("result", response)

    return ask


def call(inspect: Inspect, name: str, arguments: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    return inspect("tools/call", "--tool-name", name, "--tool-args-json", json.dumps(arguments))


def test_the_opening_names_the_server_and_its_tools_capability(
    inspect: Inspect, request: pytest.FixtureRequest
) -> None:
    status, opened = inspect("initialize")
    assert (status, opened["serverInfo"]["name"], opened["capabilities"]) == (0, "card-session", {"tools": {}})
    era = request.node.callspec.params["inspect"]
    assert opened["protocolVersion"] == ("2025-11-25" if era == "legacy" else "2026-07-28")


def test_the_tools_have_schemas_that_any_client_can_read(inspect: Inspect) -> None:
    status, listed = inspect("tools/list", "--strict")
    assert status == 0, listed
    names = {tool["name"] for tool in listed["tools"]}
    assert names == {"session_binding", "checkpoint_replay", "target_reset", "pane_fit", "debugger_state"}
    assert all(tool["outputSchema"]["type"] == "object" for tool in listed["tools"])


def test_a_replay_leaves_the_program_at_its_stop(inspect: Inspect) -> None:
    status, result = call(inspect, "session_binding", {})
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
    status, read = call(inspect, "checkpoint_replay", replay)
    assert status == 0, read
    assert read["structuredContent"]["values"]["n"]["value"] == "2"
    assert json.loads(read["content"][0]["text"]) == read["structuredContent"]
    status, stood = call(inspect, "debugger_state", {})
    assert (status, stood["structuredContent"]["state"], stood["structuredContent"]["line"]) == (0, "stopped", LINE)
    status, refused = call(inspect, "checkpoint_replay", {**replay, "instance": "another"})
    assert (status, refused["isError"], refused["structuredContent"]["code"]) == (FAILED, True, "binding_mismatch")
    assert "call session_binding again" in refused["content"][0]["text"]


def test_wrong_arguments_are_reported_by_name(inspect: Inspect) -> None:
    status, refused = call(inspect, "pane_fit", {"cols": 3})
    assert (status, refused["isError"], refused["structuredContent"]["code"]) == (FAILED, True, "invalid_arguments")
    assert "/cols" in refused["content"][0]["text"]


def test_many_calls_at_once_all_succeed(inspect: Inspect) -> None:
    load = ("--load", "--load-requests", "40", "--load-concurrency", "8")
    status, summary = inspect("tools/call", "--tool-name", "debugger_state", *load)
    assert (status, summary["ok"], summary["toolErrors"], summary["errors"]) == (0, 40, 0, 0), summary


def test_prompts_are_empty_and_an_unknown_tool_is_named(inspect: Inspect) -> None:
    assert inspect("prompts/list") == (0, {"prompts": []})
    status, refused = inspect("tools/call", "--tool-name", "nope")
    assert (status, refused["error"]["code"]) == (FAILED, "tool_not_found")
