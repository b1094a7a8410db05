"""Peers that take the place of a session and send nonsense, too much, too little, or nothing."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from cardapp.mcp.revisions import LATEST_HANDSHAKE
from cardapp.session_host.session_tools import DESCRIBED

Behaviour = Callable[[socket.socket], None]
Answer = Callable[[str, dict[str, Any]], dict[str, Any]]


class Peer:
    """Listens on a Unix socket until ``close``. ``behave`` handles each connection in a separate thread."""

    def __init__(self, path: Path, behave: Behaviour) -> None:
        self._behave = behave
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen(64)
        self._connections: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self._connections.append(connection)
                self._threads.append(threading.Thread(target=self._serve, args=(connection,), daemon=True))
                self._threads[-1].start()

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError, ValueError), connection:
            self._behave(connection)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self._connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(10)
            assert not thread.is_alive()


def answering(answer: Answer) -> Behaviour:
    """A peer that follows JSON-RPC and the handshake. ``answer`` makes the members of each later answer."""

    def behave(connection: socket.socket) -> None:
        for line in connection.makefile("rb"):
            asked = json.loads(line)
            if "id" not in asked:
                continue
            reply = {"jsonrpc": "2.0", "id": asked["id"], **_opening(asked["method"])}
            if len(reply) == 2:
                reply |= answer(asked["method"], asked["params"])
            connection.sendall(json.dumps(reply).encode() + b"\n")

    return behave


def _opening(method: str) -> dict[str, Any]:
    agreed = {"protocolVersion": LATEST_HANDSHAKE.name, "capabilities": {}, "serverInfo": {}}
    refused = {"code": -32601, "message": "what?"}
    return {"server/discover": {"error": refused}, "initialize": {"result": agreed}}.get(method, {})


def saying(structured: Any, *, is_error: bool = False, tools: Sequence[dict[str, Any]] = ()) -> Behaviour:
    """A peer that lists ``tools``, and answers each tool call with ``structured``."""

    def answer(method: str, _params: dict[str, Any]) -> dict[str, Any]:
        if method == "tools/list":
            return {"result": {"tools": tools}}
        return {"result": {"content": [], "structuredContent": structured, "isError": is_error}}

    return answering(answer)


def listing(output_schema: Any, structured: Any) -> Behaviour:
    """A peer whose tools have the names of a session's tools and this output schema. All answer ``structured``."""
    tools = [{"name": described[0], "inputSchema": {}, "outputSchema": output_schema} for described in DESCRIBED]
    return saying(structured, tools=tools)


def sending(data: bytes) -> Behaviour:
    """A peer that reads once, sends ``data``, and then only reads."""

    def behave(connection: socket.socket) -> None:
        connection.recv(65536)
        connection.sendall(data)
        while connection.recv(65536):
            pass

    return behave


def flooding(data: bytes) -> Behaviour:
    """A peer that sends ``data`` again and again, and never reads."""

    def behave(connection: socket.socket) -> None:
        while True:
            connection.sendall(data)

    return behave


def endless_tools(method: str, params: dict[str, Any]) -> dict[str, Any]:
    """Pages of a thousand tools each, as many as are asked for."""
    page = int(params.get("cursor", "0"))
    tools = [{"name": f"{page}.{number}", "inputSchema": {"type": "object"}} for number in range(1000)]
    return {"result": {"tools": tools, "nextCursor": str(page + 1)}} if method == "tools/list" else {"result": {}}
