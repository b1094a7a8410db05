"""A scripted client or server: the test sends and reads its messages one by one."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from cardapp.mcp.client import McpClient
from cardapp.mcp.server import McpServer

PATIENCE = 30.0
"""Seconds after which a test fails if an expected event does not come."""


class ScriptedPeer:
    """One end of a socket pair. The test sends through it and reads what it receives."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end
        self._socket.settimeout(PATIENCE)
        self._lines = end.makefile("rb")

    def send(self, *messages: Any) -> None:
        """Send JSON-RPC members (``jsonrpc`` is added to objects), each on a line."""
        for message in messages:
            self.send_raw(json.dumps({"jsonrpc": "2.0", **message} if isinstance(message, dict) else message).encode())
            self.send_raw(b"\n")

    def send_raw(self, data: bytes) -> None:
        """Send bytes as they are."""
        self._socket.sendall(data)

    def receive(self) -> Any:
        """The next message; None if the other side has disconnected."""
        line = self._lines.readline()
        return json.loads(line) if line else None

    def expect(self, method: str) -> dict[str, Any]:
        """The next message, which must be a call of ``method``."""
        message = self.receive()
        assert message is not None, f"the other side disconnected instead of sending {method}"
        assert message.get("method") == method, message
        found: dict[str, Any] = message
        return found

    def answer(self, request: dict[str, Any], result: dict[str, Any]) -> None:
        """Answer ``request`` with a result."""
        self.send({"id": request["id"], "result": result})

    def refuse(self, request: dict[str, Any], code: int, data: Any = None) -> None:
        """Answer ``request`` with an error."""
        self.send({"id": request["id"], "error": {"code": code, "message": "no", "data": data}})

    def end_sending(self) -> None:
        """End this side of the connection, so that the other side reads an end of file."""
        self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Disconnect. Idempotent."""
        self._lines.close()
        self._socket.close()


DISCOVERED = {
    "resultType": "complete",
    "supportedVersions": ["2026-07-28"],
    "capabilities": {"tools": {}},
    "ttlMs": 0,
    "cacheScope": "private",
    "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "scripted", "version": "0"}},
}


@pytest.fixture
def background() -> Iterator[Callable[..., Future[Any]]]:
    """``background(function, …)`` runs the function in a thread and returns its future."""
    with ThreadPoolExecutor(max_workers=8) as pool:
        yield pool.submit


@pytest.fixture
def pair(background: Callable[..., Future[Any]]) -> Iterator[tuple[ScriptedPeer, socket.socket]]:
    """A scripted peer and the other end of its connection."""
    ours, theirs = socket.socketpair()
    peer = ScriptedPeer(ours)
    yield peer, theirs
    peer.close()
    theirs.close()


@pytest.fixture
def modern_client(
    pair: tuple[ScriptedPeer, socket.socket], background: Callable[..., Future[Any]]
) -> Iterator[tuple[McpClient, ScriptedPeer]]:
    """A client and a scripted server that have just negotiated the modern revision."""
    peer, end = pair
    connecting = background(McpClient, end, end, timeout=PATIENCE)
    peer.answer(peer.expect("server/discover"), DISCOVERED)
    client = connecting.result(PATIENCE)
    yield client, peer
    client.close()


@pytest.fixture
def handshake_client(
    pair: tuple[ScriptedPeer, socket.socket], background: Callable[..., Future[Any]], request: pytest.FixtureRequest
) -> Iterator[tuple[McpClient, ScriptedPeer]]:
    """A client and a scripted server after the handshake, with 2025-11-25 or the revision of the parameter."""
    peer, end = pair
    connecting = background(McpClient, end, end, timeout=PATIENCE)
    peer.refuse(peer.expect("server/discover"), -32601)
    opening = peer.expect("initialize")
    agreed = getattr(request, "param", "2025-11-25")
    server_info = {"name": "scripted", "version": "0"}
    peer.answer(opening, {"protocolVersion": agreed, "capabilities": {}, "serverInfo": server_info})
    peer.expect("notifications/initialized")
    client = connecting.result(PATIENCE)
    yield client, peer
    client.close()


@pytest.fixture
def listening(state_dir: Path) -> Iterator[tuple[Path, Callable[[], ScriptedPeer]]]:
    """A Unix socket, and a function that accepts the next connection as a scripted server."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(state_dir / "s"))
        listener.listen()
        listener.settimeout(PATIENCE)
        yield state_dir / "s", lambda: ScriptedPeer(listener.accept()[0])


@pytest.fixture
def served(pair: tuple[ScriptedPeer, socket.socket]) -> Iterator[Callable[[McpServer], ScriptedPeer]]:
    """``served(server)`` returns a scripted client of the server. At the end the serving thread must have ended."""
    peer, end = pair
    threads: list[threading.Thread] = []

    def serve(server: McpServer) -> ScriptedPeer:
        threads.append(threading.Thread(target=server.serve, args=(end, end)))
        threads[-1].start()
        return peer

    yield serve
    peer.close()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()
