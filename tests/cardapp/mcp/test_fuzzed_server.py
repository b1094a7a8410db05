"""Mutated messages to the session's server: each is answered or ignored, and the connection stays usable."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cardapp.mcp.server import McpServer
from tests.cardapp.mutation import Mutation, mutations

EXAMPLE = runpy.run_path(str(Path(__file__).with_name("example_server.py")))
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "scripted", "version": "0"},
    "io.modelcontextprotocol/clientCapabilities": {},
    "progressToken": "p",
}
OPENING = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "0"}}
SOUND: dict[str, dict[str, Any]] = {
    "a call": {
        "id": 1,
        "method": "tools/call",
        "params": {"name": "add", "arguments": {"a": 1, "b": 2}, "_meta": META},
    },
    "a list": {"id": 1, "method": "tools/list", "params": {"_meta": META}},
    "a discovery": {"id": 1, "method": "server/discover", "params": {"_meta": META}},
    "an opening": {"id": 1, "method": "initialize", "params": OPENING},
    "a cancellation": {"method": "notifications/cancelled", "params": {"requestId": 1, "reason": "?"}},
    "an answer": {"id": 1, "result": {"x": 1}},
}


@pytest.mark.parametrize("name", SOUND)
def test_a_mutated_message_is_answered_or_ignored(
    name: str, served: Callable[[McpServer], Any], loops: Callable[..., int]
) -> None:
    sound = {"jsonrpc": "2.0", **SOUND[name]}
    peer = served(EXAMPLE["example_server"]())
    asked = 0

    @settings(
        max_examples=loops(quick=30, full=600),
        deadline=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture],
    )
    @given(st.lists(mutations(sound), min_size=1, max_size=3))
    def check(drawn: list[Mutation]) -> None:
        nonlocal asked
        asked += 1
        for mutation in drawn:
            peer.send_raw(mutation.of(sound) + b"\n")
        peer.send({"id": f"still there {asked}", "method": "server/discover", "params": {"_meta": META}})
        while (answer := peer.receive()).get("id") != f"still there {asked}":
            assert answer["jsonrpc"] == "2.0"
            assert ("result" in answer) + ("error" in answer) + ("method" in answer) == 1
        assert "result" in answer

    check()
