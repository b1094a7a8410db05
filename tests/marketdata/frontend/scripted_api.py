"""An API whose responses a test decides, and which keeps the requests. It can respond as the real API never does."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"


@dataclass(frozen=True)
class Received:
    line: str
    fields: list[tuple[str, str]]
    body: bytes

    def all(self, name: str) -> list[str]:
        return [value for key, value in self.fields if key.lower() == name]


def answered(status: str, *fields: str, body: bytes = b"") -> bytes:
    return "\r\n".join([f"HTTP/1.1 {status}", *fields, "", ""]).encode() + body


@dataclass
class ScriptedApi:
    """``script`` takes a request and its connection. It returns the bytes to send, or None to close the connection."""

    port: int = 0
    script: Callable[[Received, socket.socket], bytes | None] = lambda _request, _connection: OK
    received: list[Received] = field(default_factory=list)
    connections: int = 0

    def serve(self, listening: socket.socket) -> None:
        with suppress(OSError):
            while True:
                connection, _ = listening.accept()
                self.connections += 1
                threading.Thread(target=self._serve_one, args=(connection,), daemon=True).start()

    def _serve_one(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            rest = b""
            while (found := _request(connection, rest)) is not None:
                request, rest = found
                self.received.append(request)
                answer = self.script(request, connection)
                if answer is None:
                    return
                connection.sendall(answer)


def _request(connection: socket.socket, data: bytes) -> tuple[Received, bytes] | None:
    while b"\r\n\r\n" not in data:
        more = connection.recv(65536)
        if not more:
            return None
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    line, *lines = head.decode("latin-1").split("\r\n")
    fields = [(name, value) for name, _, value in (each.partition(": ") for each in lines)]
    length = next((int(value) for name, value in fields if name.lower() == "content-length"), 0)
    while len(body) < length:
        body += connection.recv(65536)
    return Received(line, fields, body[:length]), body[length:]


@contextmanager
def scripted_api(tls: ssl.SSLContext | None = None) -> Iterator[ScriptedApi]:
    with _listening(tls) as listening:
        api = ScriptedApi(listening.getsockname()[1])
        thread = threading.Thread(target=api.serve, args=(listening,), daemon=True)
        thread.start()
        try:
            yield api
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join(5)


def _listening(tls: ssl.SSLContext | None) -> socket.socket:
    plain = socket.create_server(("127.0.0.1", 0))
    # Each connection's thread does its handshake, so that a failed handshake ends no other connection.
    return tls.wrap_socket(plain, server_side=True, do_handshake_on_connect=False) if tls else plain
