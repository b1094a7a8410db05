"""A listener over any application, and clients that write raw bytes."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

from marketdata.http import listener as listeners
from marketdata.http.listener import Listener
from marketdata.http.wsgi import StartResponse, WsgiApp

HEALTH = b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"


@contextmanager
def connected(port: int) -> Iterator[socket.socket]:
    with closing(socket.create_connection(("127.0.0.1", port), timeout=30)) as connection:
        yield connection


def answer(connection: socket.socket) -> tuple[int, dict[str, str], bytes]:
    """Reads one response with a Content-Length, and not further. Returns status, headers by lower-case name, and
    body."""
    data = b""
    while not data.endswith(b"\r\n\r\n"):
        more = connection.recv(1)
        assert more, f"closed after {data!r}"
        data += more
    lines = data.decode().split("\r\n")[:-2]
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:])}
    body = b""
    while len(body) < (size := int(headers.get("content-length", 0))):
        body += connection.recv(size - len(body))
    return int(lines[0].split()[1]), headers, body


def ask(port: int, raw: bytes) -> tuple[int, dict[str, str], bytes]:
    with connected(port) as connection:
        connection.sendall(raw)
        return answer(connection)


@contextmanager
def listening(app: WsgiApp, *, body_bytes: int = 1, **options: Any) -> Iterator[Listener]:
    options.setdefault("admit", lambda _head, _may_block: body_bytes)
    listener = Listener(app, "127.0.0.1", 0, body_bytes=body_bytes, **options)
    listener.start()
    try:
        yield listener
    finally:
        listener.stop()


def quick(_environ: object, start: StartResponse) -> list[bytes]:
    start("200 OK", [("Content-Length", "2")])
    return [b"ok"]


def socket_with(option: int, value: int | bytes) -> socket.socket:
    """A listening socket with an option that the accepted ones inherit."""
    shared = listeners.listening("127.0.0.1", 0, "api")
    shared.setsockopt(socket.SOL_SOCKET, option, value)
    return shared


def with_small_buffers() -> socket.socket:
    """A listening socket for which the kernel accepts only about 32 KiB for a client that does not read."""
    return socket_with(socket.SO_SNDBUF, 32 * 1024)
