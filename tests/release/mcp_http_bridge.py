"""A bridge from MCP's Streamable HTTP to Unix sockets, so that HTTP-only programs can test our server.

The bridge is small on purpose. It forwards messages and answers with the status codes that the transport requires. It
checks neither headers nor the origin, and stores no events for a client that reconnects. It listens on loopback while a
test runs.
"""

from __future__ import annotations

import contextlib
import json
import queue
import socket
import threading
import uuid
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

PATIENCE = 30.0
STATUS = {-32601: 404, -32603: 500}
"""HTTP status for each JSON-RPC error code in the modern era. Any other error gets 400."""

Message = dict[str, Any]


class Peer:
    """One connection to the server behind the bridge, for any number of threads."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.connect(str(path))
        self._lock = threading.Lock()
        self._waiting: dict[Any, queue.SimpleQueue[Message | None]] = {}
        self._ended = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def send(self, message: Message) -> None:
        with self._lock:
            self._socket.sendall(json.dumps(message).encode() + b"\n")

    def ask(self, request: Message) -> Iterator[Message]:
        """Yields the progress messages for ``request``, then its answer. If the server closes the connection, there is
        no answer."""
        token = (request.get("params") or {}).get("_meta", {}).get("progressToken")
        came: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        keys = [("answer", request["id"]), ("progress", token)]
        with self._lock:
            self._waiting.update(dict.fromkeys(keys, came))
            if self._ended:
                came.put(None)
        try:
            self.send(request)
            while (message := came.get(timeout=PATIENCE)) is not None:
                yield message
                if "method" not in message:
                    return
        finally:
            with self._lock:
                for key in keys:
                    self._waiting.pop(key, None)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._reader.join(PATIENCE)
        self._socket.close()

    def _read(self) -> None:
        with self._socket.makefile("rb") as lines:
            for line in lines:
                message = json.loads(line)
                progress = "method" in message
                key = ("progress", message["params"].get("progressToken")) if progress else ("answer", message["id"])
                with self._lock:
                    taker = self._waiting.get(key)
                if taker is not None:
                    taker.put(message)
        with self._lock:
            self._ended = True
            takers = list(self._waiting.values())
        for taker in takers:
            taker.put(None)


class _Handler(BaseHTTPRequestHandler):
    """HTTP/1.0, so that the end of the connection ends a stream of events."""

    server: HttpFront

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        session = self.headers.get("Mcp-Session-Id")
        if message.get("method") == "initialize":
            session = self.server.open()
        elif session is None:
            with contextlib.closing(Peer(self.server.path)) as peer:
                return self._exchange(peer, message, None)
        peer = self.server.sessions.get(session or "")
        if peer is None:
            return self.send_error(404, "no such session")
        self._exchange(peer, message, session)

    def do_DELETE(self) -> None:
        peer = self.server.sessions.pop(self.headers.get("Mcp-Session-Id", ""), None)
        if peer is not None:
            peer.close()
        self.send_error(404, "no such session") if peer is None else self._head(204)

    def do_GET(self) -> None:
        self.send_error(405, "the server sends nothing on its own")

    def _exchange(self, peer: Peer, message: Message, session: str | None) -> None:
        if "method" not in message or "id" not in message:
            peer.send(message)
            return self._head(202)
        events = peer.ask(message)
        first = next(events, None)
        if first is None:
            return self.send_error(502, "the server hung up")
        named = {} if session is None else {"Mcp-Session-Id": session}
        if "method" not in first:
            status = STATUS.get(first["error"]["code"], 400) if session is None and "error" in first else 200
            self._head(status, {"Content-Type": "application/json", **named})
            self.wfile.write(json.dumps(first).encode())
            return
        self._head(200, {"Content-Type": "text/event-stream", **named})
        for event in (first, *events):
            self.wfile.write(b"event: message\ndata: " + json.dumps(event).encode() + b"\n\n")
            self.wfile.flush()

    def _head(self, status: int, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, *_line: object) -> None:
        pass


class HttpFront(ThreadingHTTPServer):
    """``/mcp`` over HTTP for the server on the Unix socket ``path``.

    A handshake opens a session with a separate connection. A request without a session, as in the modern era, gets a
    connection for itself alone.
    """

    daemon_threads = True

    def __init__(self, path: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.path = path
        self.sessions: dict[str, Peer] = {}
        self.url = f"http://127.0.0.1:{self.server_address[1]}/mcp"
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    def open(self) -> str:
        name = uuid.uuid4().hex
        self.sessions[name] = Peer(self.path)
        return name

    def __enter__(self) -> HttpFront:
        self._thread.start()
        return self

    def __exit__(self, *_what: object) -> None:
        self.shutdown()
        self._thread.join()
        for peer in self.sessions.values():
            peer.close()
        self.server_close()
