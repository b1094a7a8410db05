"""An MCP server for tools, over a Unix socket, standard streams or a pair of pipes. It serves many peers at once."""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from cardapp import unix_socket
from cardapp.errors import StateError
from cardapp.mcp.protocol import Protocol
from cardapp.mcp.server_connection import Connection
from cardapp.mcp.tool import CallContext, Handler, Tool, ToolFailure
from cardapp.mcp.transport import Stream, Transport

__all__ = ["CallContext", "Handler", "McpServer", "Tool", "ToolFailure", "UnixListener", "serve_stdio"]

MAX_CALLS = 16
MAX_CONNECTIONS = 32
_ACCEPT_PAUSE = 0.1


class McpServer:
    """Serves tools to many peers at once. Each peer may use any known revision of the protocol."""

    def __init__(
        self,
        name: str,
        version: str,
        tools: Sequence[Tool],
        instructions: str = "",
        *,
        max_calls: int = MAX_CALLS,
        grace: float = 5.0,
    ) -> None:
        """All peers together may run at most ``max_calls`` calls at once; further calls fail with ``busy``. When a peer
        disconnects, its calls are cancelled, and the server waits at most ``grace`` seconds for their end.

        :raises ValueError: two tools have the same name. :raises UnusableSchema: a tool's schema is not valid.
        """
        self._protocol = Protocol(name, version, tools, instructions)
        self._slots = threading.BoundedSemaphore(max_calls)
        self._grace = grace

    def serve(self, reader: Stream, writer: Stream) -> None:
        """Serve one peer over two streams with file descriptors. When the peer ends its side, close both streams."""
        self.serve_transport(Transport(reader, writer))

    def serve_transport(self, transport: Transport) -> None:
        """Serve one peer until it ends its side or ``transport`` is shut, then close the transport."""
        Connection(self._protocol, transport, self._slots, self._grace).run()


def serve_stdio(server: McpServer) -> None:
    """Serve the parent process over standard input and output, until the input ends.

    Tools and their child processes must not read or write the protocol's streams. So descriptors 0 and 1 are replaced
    first: what a tool prints goes to standard error, and a tool that reads its standard input finds it empty.
    """
    sys.stdout.flush()
    with open(os.dup(0), "rb", buffering=0) as reader, open(os.dup(1), "wb", buffering=0) as writer:
        with open(os.devnull, "rb") as nothing:
            os.dup2(nothing.fileno(), 0)
        os.dup2(2, 1)
        server.serve(reader, writer)


class UnixListener:
    """Accepts peers on a Unix socket (mode 0600) and serves each in a thread."""

    def __init__(self, path: str | os.PathLike[str], mcp_server: McpServer, *, max_connections: int = MAX_CONNECTIONS):
        """Connections above ``max_connections`` are closed at once."""
        self._path = Path(path)
        self._server = mcp_server
        self._max_connections = max_connections
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._peers: dict[threading.Thread, Transport] = {}
        self._thread: threading.Thread | None = None
        self._socket: socket.socket | None = None
        self._socket_file: unix_socket.SocketIdentity | None = None

    def start(self) -> None:
        """Start listening. Raises the errors of :func:`cardapp.unix_socket.bind`."""
        listening = unix_socket.bind(self._path, "CARD_STATE_DIR")
        try:
            listening.listen()
        except OSError as why:
            listening.close()
            raise StateError(f"cannot listen on {self._path}: {why.strerror}") from why
        self._socket, self._socket_file = listening, unix_socket.identity(self._path)
        self._thread = threading.Thread(target=self._accept, args=(listening,), name="mcp-listener", daemon=True)
        self._thread.start()

    def stop(self, timeout: float = 5.0) -> None:
        """Stop listening, disconnect all peers and remove the socket file, in at most ``timeout`` seconds. Idempotent.

        If a handler ignores ``cancelled``, its call continues until the process ends.
        """
        deadline = time.monotonic() + timeout
        thread, self._thread = self._thread, None
        if thread is None or self._socket is None:
            return
        self._stopping.set()
        self._socket.shutdown(socket.SHUT_RDWR)  # wakes accept()
        thread.join(max(0.0, deadline - time.monotonic()))
        self._socket.close()
        with self._lock:
            peers = dict(self._peers)
        for transport in peers.values():
            transport.shut()
        for peer in peers:
            peer.join(max(0.0, deadline - time.monotonic()))
        unix_socket.remove(self._path, self._socket_file)

    def _accept(self, listening: socket.socket) -> None:
        while True:
            try:
                accepted, _ = listening.accept()
            except OSError:
                # Either the listener was stopped, or no descriptor or memory is left. In the second case try again.
                if self._stopping.wait(_ACCEPT_PAUSE):
                    return
            else:
                self._add_peer(accepted)

    def _add_peer(self, accepted: socket.socket) -> None:
        with self._lock:
            if len(self._peers) >= self._max_connections:
                return accepted.close()
        transport = Transport(accepted, accepted)
        while not self._started(transport):
            if self._stopping.wait(_ACCEPT_PAUSE):
                return accepted.close()

    def _started(self, transport: Transport) -> bool:
        """Start the thread of a peer. Returns False if the system has no thread left; try again later."""
        thread = threading.Thread(target=self._serve, args=(transport,), name="mcp-peer", daemon=True)
        with self._lock:
            self._peers[thread] = transport
        try:
            thread.start()
        except RuntimeError:
            with self._lock:
                del self._peers[thread]
            return False
        return True

    def _serve(self, transport: Transport) -> None:
        try:
            self._server.serve_transport(transport)
        finally:
            with self._lock:
                del self._peers[threading.current_thread()]
