from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp_types.methods import validate_client_notification, validate_client_request

from cardapp.errors import McpClosed, McpProtocolError, McpTimeout
from cardapp.mcp.client import McpClient
from tests.cardapp.mcp.conftest import PATIENCE, ScriptedPeer

MODERN = "2026-07-28"
NEXT = "2027-07-28"
SERVER_INFO = {"name": "scripted", "version": "0"}
UNSUPPORTED = -32022

Background = Callable[..., Future[Any]]


class Opening:
    """A scripted server, and a client that negotiates with it in the background."""

    def __init__(self, background: Background, timeout: float) -> None:
        ours, theirs = socket.socketpair()
        self.peer = ScriptedPeer(ours)
        self._connecting = background(McpClient, theirs, theirs, timeout=timeout)

    def client(self) -> McpClient:
        found: McpClient = self._connecting.result(PATIENCE)
        return found

    def agreed(self) -> tuple[str, str]:
        client = self.client()
        client.close()
        return client.lifecycle, client.revision

    def probe(self) -> dict[str, Any]:
        request = self.peer.expect("server/discover")
        validate_client_request("server/discover", MODERN, request["params"])
        return request

    def shake_hands(self, revision: str = "2025-11-25") -> None:
        shake_hands(self.peer, revision)


@contextmanager
def opening(background: Background, timeout: float = PATIENCE) -> Iterator[Opening]:
    found = Opening(background, timeout)
    try:
        yield found
    finally:
        found.peer.close()


def discovered(*versions: Any) -> dict[str, Any]:
    return {"resultType": "complete", "supportedVersions": list(versions), "capabilities": {}, "ttlMs": 0}


def shake_hands(peer: ScriptedPeer, revision: str) -> None:
    request = peer.expect("initialize")
    validate_client_request("initialize", "2025-11-25", request["params"])
    assert request["params"]["protocolVersion"] == "2025-11-25"
    peer.answer(request, {"protocolVersion": revision, "capabilities": {}, "serverInfo": SERVER_INFO})
    note = peer.expect("notifications/initialized")
    validate_client_notification("notifications/initialized", "2025-11-25", note["params"])


def test_a_discover_result_means_a_modern_server(background: Background) -> None:
    """It need not report its name."""
    named = {"io.modelcontextprotocol/serverInfo": SERVER_INFO}
    wrong = {"io.modelcontextprotocol/serverInfo": "me"}
    for meta, info in ((named, SERVER_INFO), (None, {}), ([], {}), (wrong, {})):
        with opening(background) as opened:
            opened.peer.answer(opened.probe(), {**discovered(NEXT, MODERN, "2025-11-25"), "_meta": meta})
            assert opened.agreed() == ("stateless", MODERN)
            assert opened.client().server_info == info
            assert opened.peer.receive() is None  # no handshake after it


def test_after_an_unsupported_version_a_listed_one_is_tried_once(background: Background) -> None:
    refusal = {"supported": [NEXT, MODERN], "requested": MODERN}
    with opening(background) as opened:
        opened.peer.refuse(opened.probe(), UNSUPPORTED, refusal)
        opened.peer.answer(opened.probe(), discovered(MODERN))
        assert opened.agreed() == ("stateless", MODERN)
    with opening(background) as opened:
        for _ in range(2):
            opened.peer.refuse(opened.probe(), UNSUPPORTED, refusal)
        with pytest.raises(McpProtocolError, match=MODERN):
            opened.client()
        assert opened.peer.receive() is None


@pytest.mark.parametrize("how", ["result", "error"])
def test_the_listed_revisions_decide_how_the_client_goes_on(background: Background, how: str) -> None:
    def list_revisions(opened: Opening, *revisions: str) -> None:
        if how == "result":
            opened.peer.answer(opened.probe(), discovered(*revisions))
        else:
            opened.peer.refuse(opened.probe(), UNSUPPORTED, {"supported": [*revisions], "requested": MODERN})

    with opening(background) as opened:
        list_revisions(opened, NEXT)
        with pytest.raises(McpProtocolError, match=NEXT):
            opened.client()
        assert opened.peer.receive() is None
    with opening(background) as opened:
        list_revisions(opened, "2025-06-18", "2024-11-05", NEXT)
        opened.shake_hands("2025-06-18")
        assert opened.agreed() == ("handshake", "2025-06-18")


def test_any_other_answer_to_the_probe_leads_to_the_handshake(background: Background) -> None:
    errors = [{"code": code, "message": "no"} for code in (-32601, -32602, -32600, -32603, -32000, 0, 1, 404)]
    for data in (None, [], "x", {}, {"supported": "all"}, {"supported": []}, {"supported": [1]}):
        errors.append({"code": UNSUPPORTED, "message": "no", "data": data})
    results: tuple[dict[str, Any], ...] = ({}, {"supportedVersions": MODERN}, {"supportedVersions": [7]})
    for answer in (*({"error": error} for error in errors), *({"result": result} for result in results)):
        with opening(background) as opened:
            opened.peer.send({"id": opened.probe()["id"], **answer})
            opened.shake_hands()
            assert opened.agreed() == ("handshake", "2025-11-25"), answer
            assert opened.client().server_info == SERVER_INFO


def test_without_an_answer_the_handshake_follows_and_a_late_answer_is_ignored(background: Background) -> None:
    with opening(background, timeout=3.0) as opened:
        probe = opened.probe()
        assert opened.peer.expect("notifications/cancelled")["params"]["requestId"] == probe["id"]
        opened.peer.answer(probe, discovered(MODERN))
        opened.shake_hands()
        assert opened.agreed() == ("handshake", "2025-11-25")


def test_only_a_known_revision_of_the_handshake_is_accepted(background: Background) -> None:
    for revision in ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"):
        with opening(background) as opened:
            opened.peer.refuse(opened.probe(), -32601)
            opened.shake_hands(revision)
            assert opened.agreed() == ("handshake", revision)
    for unknown in ("1999-01-01", MODERN, None, 7):
        with opening(background) as opened:
            opened.peer.refuse(opened.probe(), -32601)
            answer = {"protocolVersion": unknown, "capabilities": {}, "serverInfo": {}}
            opened.peer.answer(opened.peer.expect("initialize"), answer)
            with pytest.raises(McpProtocolError, match="no common revision"):
                opened.client()
            assert opened.peer.receive() is None


def test_initialize_is_never_cancelled(background: Background) -> None:
    with opening(background, timeout=1.0) as opened:
        opened.peer.refuse(opened.probe(), -32601)
        opened.peer.expect("initialize")
        with pytest.raises(McpTimeout, match="try again, or restart the server") as silent:
            opened.client()
        assert opened.peer.receive() is None
        assert "cancelled" not in silent.value.detail


# -- nobody there ------------------------------------------------------------------------------------------------------


def test_a_server_that_disconnects_fails_the_negotiation(background: Background) -> None:
    with opening(background) as opened:
        opened.probe()
        opened.peer.close()
        with pytest.raises(McpClosed):
            opened.client()


def test_a_server_that_disconnects_at_the_probe_is_connected_again_once(
    listening: tuple[Path, Callable[[], ScriptedPeer]], background: Background
) -> None:
    path, take_call = listening

    def disconnect_at(method: str) -> None:
        peer = take_call()
        peer.expect(method)
        peer.close()

    connecting = background(McpClient.connect, path, timeout=PATIENCE)
    disconnect_at("server/discover")
    second = take_call()
    shake_hands(second, "2024-11-05")
    client = connecting.result(PATIENCE)
    assert (client.lifecycle, client.revision) == ("handshake", "2024-11-05")
    client.close()
    second.close()
    connecting = background(McpClient.connect, path, timeout=PATIENCE)
    disconnect_at("server/discover")
    disconnect_at("initialize")
    with pytest.raises(McpClosed):
        connecting.result(PATIENCE)


def test_connecting_to_a_path_without_a_listener_fails(state_dir: Path) -> None:
    for name in ("nothing", "x" * 200):
        with pytest.raises(McpClosed, match="no MCP server listens"):
            McpClient.connect(state_dir / name, timeout=PATIENCE)
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(state_dir / "dead"))
        with pytest.raises(McpClosed, match="refused"):
            McpClient.connect(state_dir / "dead", timeout=PATIENCE)


# -- who is there ------------------------------------------------------------------------------------------------------
