"""Mutated messages to the session's server: each is answered or ignored, and the connection stays usable."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cardapp.mcp.server import McpServer
from tests.cardapp.mcp.conftest import ScriptedPeer
from tests.cardapp.mcp.example_server import example_server
from tests.cardapp.mutation import Mutation, mutations

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "scripted", "version": "0"},
    "io.modelcontextprotocol/clientCapabilities": {},
    "progressToken": "p",
}
OPENING = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "0"}}
CALL = {"name": "add", "arguments": {"a": 1, "b": 2}, "_meta": META}
NUMBERS = itertools.count()
SOUND: tuple[dict[str, Any], ...] = (
    {"id": 1, "method": "tools/call", "params": CALL},
    {"id": 1, "method": "tools/list", "params": {"_meta": META}},
    {"id": 1, "method": "server/discover", "params": {"_meta": META}},
    {"id": 1, "method": "initialize", "params": OPENING},
    {"method": "notifications/cancelled", "params": {"requestId": 1, "reason": "?"}},
    {"id": 1, "result": {"x": 1}},
)


@st.composite
def lines(draw: st.DrawFn) -> bytes:
    """A mutated message."""
    sound = {"jsonrpc": "2.0", **draw(st.sampled_from(SOUND))}
    mutation: Mutation = draw(mutations(sound))
    return mutation.of(sound)


@pytest.fixture
def peer(served: Callable[[McpServer], ScriptedPeer]) -> ScriptedPeer:
    return served(example_server())


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(lines(), min_size=1, max_size=3))
def test_a_mutated_message_is_answered_or_ignored(peer: ScriptedPeer, drawn: list[bytes]) -> None:
    last = f"still there {next(NUMBERS)}"
    for line in drawn:
        peer.send_raw(line + b"\n")
    peer.send({"id": last, "method": "server/discover", "params": {"_meta": META}})
    while (answer := peer.receive()).get("id") != last:
        assert answer["jsonrpc"] == "2.0"
        assert ("result" in answer) + ("error" in answer) + ("method" in answer) == 1
    assert "result" in answer
