from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from mcp_types.methods import validate_client_notification, validate_client_request

from cardapp.errors import McpClosed, McpProtocolError, McpRemoteError, McpTimeout
from cardapp.mcp.client import McpClient

PATIENCE = 20.0
MODERN = "2026-07-28"
NEXT = "2027-07-28"
SERVER_INFO = {"name": "scripted", "version": "0"}

Background = Callable[..., Future[Any]]


@pytest.fixture
def opening(pair: tuple[Any, socket.socket], background: Background) -> tuple[Any, Future[McpClient]]:
    """A scripted server, and the future of a client that negotiates with it."""
    peer, end = pair
    return peer, background(McpClient, end, end, timeout=PATIENCE)


def discovered(*versions: Any) -> dict[str, Any]:
    return {"resultType": "complete", "supportedVersions": list(versions), "capabilities": {}, "ttlMs": 0}


def shake_hands(peer: Any, revision: str = "2025-11-25") -> None:
    request = peer.expect("initialize")
    validate_client_request("initialize", "2025-11-25", request["params"])
    assert request["params"]["protocolVersion"] == "2025-11-25"
    peer.answer(request, {"protocolVersion": revision, "capabilities": {}, "serverInfo": SERVER_INFO})
    note = peer.expect("notifications/initialized")
    validate_client_notification("notifications/initialized", "2025-11-25", note["params"])


def finish(connecting: Future[McpClient]) -> tuple[str, str]:
    client = connecting.result(PATIENCE)
    client.close()
    return client.lifecycle, client.revision


# -- the modern era ----------------------------------------------------------------------------------------------------


def test_a_discover_result_means_a_modern_server(opening: tuple[Any, Future[McpClient]]) -> None:
    peer, connecting = opening
    probe = peer.expect("server/discover")
    validate_client_request("server/discover", MODERN, probe["params"])
    peer.answer(
        probe, {**discovered(NEXT, MODERN, "2025-11-25"), "_meta": {"io.modelcontextprotocol/serverInfo": SERVER_INFO}}
    )
    assert finish(connecting) == ("stateless", MODERN)
    assert connecting.result().server_info == SERVER_INFO
    assert peer.receive() is None  # no handshake after it


@pytest.mark.parametrize("meta", [None, [], {"io.modelcontextprotocol/serverInfo": "me"}])
def test_a_server_need_not_report_its_name(opening: tuple[Any, Future[McpClient]], meta: Any) -> None:
    peer, connecting = opening
    peer.answer(peer.expect("server/discover"), {**discovered(MODERN), "_meta": meta})
    assert finish(connecting) == ("stateless", MODERN)
    assert connecting.result().server_info == {}


def test_after_an_unsupported_version_a_listed_one_is_tried(opening: tuple[Any, Future[McpClient]]) -> None:
    peer, connecting = opening
    peer.refuse(peer.expect("server/discover"), -32022, {"supported": [NEXT, MODERN], "requested": "x"})
    peer.answer(peer.expect("server/discover"), discovered(MODERN))
    assert finish(connecting) == ("stateless", MODERN)


def test_a_server_that_refuses_a_version_it_lists_fails_the_negotiation(opening: tuple[Any, Future[McpClient]]) -> None:
    peer, connecting = opening
    for _ in range(2):
        peer.refuse(peer.expect("server/discover"), -32022, {"supported": [MODERN], "requested": MODERN})
    with pytest.raises(McpProtocolError, match=MODERN):
        finish(connecting)
    assert peer.receive() is None


@pytest.mark.parametrize("how", ["result", "error"])
def test_a_modern_server_without_a_common_revision_gets_no_handshake(
    opening: tuple[Any, Future[McpClient]], how: str
) -> None:
    peer, connecting = opening
    probe = peer.expect("server/discover")
    if how == "result":
        peer.answer(probe, discovered(NEXT))
    else:
        peer.refuse(probe, -32022, {"supported": [NEXT], "requested": MODERN})
    with pytest.raises(McpProtocolError, match=NEXT):
        finish(connecting)
    assert peer.receive() is None


# -- the handshake era -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [-32601, -32602, -32600, -32603, -32000, 0, 1, 404])
def test_any_other_error_leads_to_the_handshake(opening: tuple[Any, Future[McpClient]], code: int) -> None:
    peer, connecting = opening
    peer.refuse(peer.expect("server/discover"), code)
    shake_hands(peer)
    assert finish(connecting) == ("handshake", "2025-11-25")
    assert connecting.result().server_info == SERVER_INFO


@pytest.mark.parametrize("data", [None, [], "x", {}, {"supported": "all"}, {"supported": []}, {"supported": [1]}])
def test_an_unsupported_version_error_without_a_list_leads_to_the_handshake(
    opening: tuple[Any, Future[McpClient]], data: Any
) -> None:
    peer, connecting = opening
    peer.refuse(peer.expect("server/discover"), -32022, data)
    shake_hands(peer)
    assert finish(connecting) == ("handshake", "2025-11-25")


@pytest.mark.parametrize("how", ["result", "error"])
def test_a_server_that_lists_only_old_revisions_gets_the_handshake(
    opening: tuple[Any, Future[McpClient]], how: str
) -> None:
    peer, connecting = opening
    probe = peer.expect("server/discover")
    if how == "result":
        peer.answer(probe, discovered("2025-06-18", "2024-11-05"))
    else:
        peer.refuse(probe, -32022, {"supported": ["2025-06-18"], "requested": MODERN})
    shake_hands(peer, "2025-06-18")
    assert finish(connecting) == ("handshake", "2025-06-18")


@pytest.mark.parametrize("result", [{}, {"supportedVersions": "2026-07-28"}, {"supportedVersions": [7]}])
def test_an_invalid_discover_result_leads_to_the_handshake(
    opening: tuple[Any, Future[McpClient]], result: dict[str, Any]
) -> None:
    peer, connecting = opening
    peer.answer(peer.expect("server/discover"), result)
    shake_hands(peer)
    assert finish(connecting) == ("handshake", "2025-11-25")


def test_without_an_answer_the_handshake_follows_and_a_late_answer_is_ignored(
    pair: tuple[Any, socket.socket], background: Background
) -> None:
    peer, end = pair
    connecting = background(McpClient, end, end, timeout=1.0)
    probe = peer.expect("server/discover")
    assert peer.expect("notifications/cancelled")["params"]["requestId"] == probe["id"]
    peer.answer(probe, discovered(MODERN))
    shake_hands(peer)
    assert finish(connecting) == ("handshake", "2025-11-25")


@pytest.mark.full
def test_a_slow_modern_server_is_found_by_its_refusal_of_the_handshake(
    pair: tuple[Any, socket.socket], background: Background
) -> None:
    peer, end = pair
    connecting = background(McpClient, end, end, timeout=5.0)
    peer.expect("server/discover")
    peer.expect("notifications/cancelled")
    peer.refuse(peer.expect("initialize"), -32022, {"supported": [MODERN]})
    peer.answer(peer.expect("server/discover"), discovered(MODERN))
    assert finish(connecting) == ("stateless", MODERN)


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
def test_another_known_revision_is_accepted(opening: tuple[Any, Future[McpClient]], revision: str) -> None:
    peer, connecting = opening
    peer.refuse(peer.expect("server/discover"), -32601)
    shake_hands(peer, revision)
    assert finish(connecting) == ("handshake", revision)


@pytest.mark.parametrize("revision", ["1999-01-01", MODERN, None, 7])
def test_an_unknown_revision_ends_the_connection(opening: tuple[Any, Future[McpClient]], revision: Any) -> None:
    peer, connecting = opening
    peer.refuse(peer.expect("server/discover"), -32601)
    peer.answer(peer.expect("initialize"), {"protocolVersion": revision, "capabilities": {}, "serverInfo": {}})
    with pytest.raises(McpProtocolError, match="revision"):
        connecting.result(PATIENCE)
    assert peer.receive() is None


def test_a_refused_handshake_is_reported(opening: tuple[Any, Future[McpClient]]) -> None:
    peer, connecting = opening
    peer.refuse(peer.expect("server/discover"), -32601)
    peer.refuse(peer.expect("initialize"), -32603)
    with pytest.raises(McpRemoteError) as caught:
        connecting.result(PATIENCE)
    assert caught.value.rpc_code == -32603
    assert peer.receive() is None


def test_initialize_is_never_cancelled(pair: tuple[Any, socket.socket], background: Background) -> None:
    peer, end = pair
    connecting = background(McpClient, end, end, timeout=1.0)
    peer.refuse(peer.expect("server/discover"), -32601)
    peer.expect("initialize")
    with pytest.raises(McpTimeout, match="try again, or restart the server") as silent:
        connecting.result(PATIENCE)
    assert peer.receive() is None
    assert "cancelled" not in silent.value.detail


def test_a_server_may_ping_during_the_negotiation(opening: tuple[Any, Future[McpClient]]) -> None:
    peer, connecting = opening
    peer.refuse(peer.expect("server/discover"), -32601)
    request = peer.expect("initialize")
    peer.send({"id": "theirs", "method": "ping"})
    assert peer.receive() == {"jsonrpc": "2.0", "id": "theirs", "result": {}}
    peer.answer(request, {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": SERVER_INFO})
    peer.expect("notifications/initialized")
    finish(connecting)


# -- nobody there ------------------------------------------------------------------------------------------------------


def test_a_server_that_disconnects_fails_the_negotiation(opening: tuple[Any, Future[McpClient]]) -> None:
    peer, connecting = opening
    peer.expect("server/discover")
    peer.close()
    with pytest.raises(McpClosed):
        connecting.result(PATIENCE)


Listening = tuple[Path, Callable[[], Any]]


def test_a_server_that_disconnects_at_the_probe_is_connected_again(
    listening: Listening, background: Background
) -> None:
    path, take_call = listening
    connecting = background(McpClient.connect, path, timeout=PATIENCE)
    first = take_call()
    first.expect("server/discover")
    first.close()
    second = take_call()
    shake_hands(second, "2024-11-05")
    assert finish(connecting) == ("handshake", "2024-11-05")
    second.close()


def test_a_server_that_disconnects_at_the_handshake_too_fails_the_connection(
    listening: Listening, background: Background
) -> None:
    path, take_call = listening
    connecting = background(McpClient.connect, path, timeout=PATIENCE)
    for method in ("server/discover", "initialize"):
        peer = take_call()
        peer.expect(method)
        peer.close()
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

LISTEN = """
import socket, sys
listening = socket.socket(socket.AF_UNIX)
listening.bind(sys.argv[1])
listening.listen()
print("listening", flush=True)
peer, _ = listening.accept()
request = peer.recv(65536)
answer = b'{"jsonrpc":"2.0","id":1,"result":{"supportedVersions":["2026-07-28"],"capabilities":{}}}'
peer.sendall(answer + b"\\n")
peer.recv(65536)
"""


def test_the_process_behind_the_socket_is_named_by_pid_and_start(state_dir: Path) -> None:
    path = state_dir / "s"
    command = [sys.executable, "-c", LISTEN, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        client = McpClient.connect(path, timeout=PATIENCE)
        client.close()
        started = Path(f"/proc/{process.pid}/stat").read_text(encoding="ascii").split()[21]  # a name without a space
        assert (client.peer_pid, client.peer_start) == (process.pid, int(started))


def test_other_streams_have_no_known_process(background: Background) -> None:
    in_read, in_write = os.pipe()
    out_read, out_write = os.pipe()
    connecting = background(McpClient, os.fdopen(in_read, "rb"), os.fdopen(out_write, "wb"), timeout=PATIENCE)
    with open(out_read, "rb") as requests, open(in_write, "wb", buffering=0) as answers:
        requests.readline()
        answers.write(b'{"jsonrpc":"2.0","id":1,"result":{"supportedVersions":["2026-07-28"]}}\n')
        client = connecting.result(PATIENCE)
        assert (client.peer_pid, client.peer_start) == (None, None)
        client.close()
