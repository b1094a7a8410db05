"""WebSocket connections. The listener passes their sockets to :class:`WebSockets`, which closes them at the end.

A connection has its own threads and occupies no worker of the listener. ``simple_websocket`` reads in one thread, and
the protocol's handler runs in another one. If a client receives nothing for ``SEND_SECONDS``, its connection is closed.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import logging
import socket
import struct
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any

from simple_websocket import ConnectionClosed, Server

from cardapp.web.failures import BadRequest, TooManyConnections, UpgradeRequired, problem_of
from cardapp.web.http import HandOver, StartResponse, WsgiApp, send
from cardapp.web.request_log import FIELD, VARIABLE

CONNECTIONS = 256
"""Maximum number of open connections. Each has two threads or more."""
MESSAGE_BYTES = 2 * 1024 * 1024
MESSAGES_WAITING, CHARACTERS_WAITING = 4096, 2 * MESSAGE_BYTES
"""Limits of the messages that the handler has not taken yet. If a client sends more, its connection is closed."""
SEND_SECONDS = 20
PING_SECONDS = 25.0
_CLOSE_SECONDS = 2.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Endpoint:
    """A path for WebSockets. ``handle`` serves one connection and returns when it ends."""

    path: str
    subprotocol: str
    handle: Callable[[Connection], None]


class WebSockets:
    """All connections of the service. ``stop`` may be called repeatedly."""

    def __init__(self, endpoints: Iterable[Endpoint], send_seconds: int = SEND_SECONDS) -> None:
        self._endpoints = {endpoint.path: endpoint for endpoint in endpoints}
        self._send_seconds = send_seconds
        self._lock = threading.Lock()
        self._open: dict[socket.socket, threading.Thread] = {}
        self._stopping = False

    def __len__(self) -> int:
        return len(self._open)

    def in_front_of(self, app: WsgiApp) -> WsgiApp:
        """An application that serves the endpoints and passes all other requests to ``app``."""

        def routed(environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
            endpoint = self._endpoints.get(environ["PATH_INFO"])
            if endpoint is None:
                return app(environ, start_response)
            try:
                self._check(environ, endpoint)
            except Exception as error:
                return send(problem_of(error, environ["PATH_INFO"]), start_response)
            raise HandOver(lambda sock: self._accept(sock, environ, endpoint))

        return routed

    def stop(self, timeout: float = 5.0) -> None:
        """Close every connection and wait for its threads."""
        deadline = monotonic() + timeout
        with self._lock:
            self._stopping = True
            connections = list(self._open.items())
        for sock, _ in connections:
            _shut(sock)
        for _, thread in connections:
            thread.join(max(deadline - monotonic(), 0.0))

    def _check(self, environ: Mapping[str, Any], endpoint: Endpoint) -> None:
        """Check the request of the handshake (RFC 6455, section 4.2.1)."""
        if environ.get("HTTP_UPGRADE", "").lower() != "websocket":
            raise UpgradeRequired(f"{endpoint.path} is a WebSocket endpoint: send Upgrade: websocket")
        offered = [name.strip() for name in environ.get("HTTP_SEC_WEBSOCKET_PROTOCOL", "").split(",")]
        tokens = [name.strip().lower() for name in environ.get("HTTP_CONNECTION", "").split(",")]
        if environ["REQUEST_METHOD"] != "GET" or "upgrade" not in tokens:
            raise BadRequest("a WebSocket handshake is a GET request with Connection: Upgrade")
        if environ.get("HTTP_SEC_WEBSOCKET_VERSION") != "13":
            raise UpgradeRequired("only version 13 of WebSocket is supported: send Sec-WebSocket-Version: 13")
        if not _is_key(environ.get("HTTP_SEC_WEBSOCKET_KEY", "")):
            raise BadRequest("Sec-WebSocket-Key is not 16 bytes in base64")
        if endpoint.subprotocol not in offered:
            raise BadRequest(f"offer the subprotocol {endpoint.subprotocol} in Sec-WebSocket-Protocol")
        if self._stopping or len(self._open) >= CONNECTIONS:
            raise TooManyConnections(f"{len(self._open)} WebSocket connections are open: close one, or try again later")

    def _accept(self, sock: socket.socket, environ: dict[str, Any], endpoint: Endpoint) -> None:
        """Start the connection's thread. Does not block, because the listener's loop calls it."""
        thread = threading.Thread(target=self._serve, args=(sock, environ, endpoint), name="websocket", daemon=True)
        with self._lock:
            if self._stopping:
                sock.close()
                return
            self._open[sock] = thread
        thread.start()

    def _serve(self, sock: socket.socket, environ: dict[str, Any], endpoint: Endpoint) -> None:
        connection = None
        try:
            connection = Connection(sock, environ, endpoint.subprotocol, self._send_seconds)
            endpoint.handle(connection)
        except OSError:
            pass  # the client has closed the connection
        except Exception:
            _log.exception("internal error in a WebSocket connection of %s", endpoint.path)
        finally:
            if connection is not None:
                connection.end()
            _shut(sock)
            sock.close()
            with self._lock:
                self._open.pop(sock, None)


class Connection:
    """An open WebSocket. Its methods raise OSError if the client has closed it. Only one thread may send at a time."""

    def __init__(self, sock: socket.socket, environ: Mapping[str, Any], subprotocol: str, send_seconds: int) -> None:
        self._sock = sock
        sock.setblocking(True)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("@ll", send_seconds, 0))
        if sock.family != socket.AF_UNIX:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # Without this header no compression is negotiated. On loopback, compression takes more time than it saves.
        head = {name: value for name, value in environ.items() if name != "HTTP_SEC_WEBSOCKET_EXTENSIONS"}
        identity = environ.get(VARIABLE)
        head["werkzeug.socket"] = guarded = _GuardedSocket(sock, f"{FIELD}: {identity}\r\n" if identity else "")
        self._server = Server(
            head, subprotocols=[subprotocol], max_message_size=MESSAGE_BYTES, ping_interval=PING_SECONDS,
            receive_bytes=64 * 1024, thread_class=_ReaderThread,
        )  # fmt: skip
        guarded.waiting = self._server.input_buffer

    def send(self, text: str) -> None:
        try:
            self._server.send(text)
        except ConnectionClosed as error:
            raise ConnectionResetError("the WebSocket is closed") from error
        except OSError:
            # A frame may be sent in part, so the connection cannot be used any more. This also ends ``receive``.
            _shut(self._sock)
            raise

    def receive(self, timeout: float) -> str | None:
        """The next text message, or None if none arrives within ``timeout`` seconds."""
        try:
            message = self._server.receive(timeout)
        except ConnectionClosed as error:
            raise ConnectionResetError("the WebSocket is closed") from error
        return message if message is None or isinstance(message, str) else ""

    def close(self, reason: str) -> None:
        with contextlib.suppress(ConnectionClosed):
            self._server.close(message=reason)

    def end(self) -> None:
        """Send a close frame. Then wait up to ``_CLOSE_SECONDS`` for the client's close frame, which ends the reader
        thread."""
        with contextlib.suppress(OSError):
            self.close("")
        reader: Any = self._server.thread
        reader.join(_CLOSE_SECONDS)


class _ReaderThread(threading.Thread):
    """A daemon thread, so that the end of the process does not wait for a client."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__(name="websocket-reader", daemon=True, **arguments)


class _GuardedSocket:
    """Wraps the socket for ``simple_websocket``. Sends whole frames, and limits the messages that wait. The first data
    that is sent is the response to the handshake; ``fields`` are added to its headers.

    ``simple_websocket`` calls ``send`` from two threads: one for messages, the other for pongs and close frames.
    ``socket.send`` may send only a part of a frame, so the frames of the two threads could mix. ``simple_websocket``
    also keeps any number of messages until the handler takes them.
    """

    def __init__(self, sock: socket.socket, fields: str) -> None:
        self._sock = sock
        self._fields = fields.encode()
        self._lock = threading.Lock()
        self.waiting: Sequence[str | bytes] = ()
        """The messages that the handler has not taken yet."""

    def send(self, data: bytes) -> int:
        with self._lock:
            fields, self._fields = self._fields, b""
            self._sock.sendall(data.replace(b"\r\n", b"\r\n" + fields, 1) if fields else data)
        return len(data)

    def recv(self, size: int) -> bytes:
        waiting = self.waiting[:]
        if len(waiting) > MESSAGES_WAITING or sum(map(len, waiting)) > CHARACTERS_WAITING:
            raise ConnectionResetError("the client sends faster than its messages can be processed")
        return self._sock.recv(size)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sock, name)


def _is_key(text: str) -> bool:
    try:
        return len(base64.b64decode(text.strip(), validate=True)) == 16
    except (binascii.Error, ValueError):
        return False


def _shut(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)
