"""A listener over any application, and clients that write raw bytes."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest

from marketdata.http import listener as listener_module
from marketdata.http.listener import Listener
from marketdata.http.wsgi import StartResponse, WsgiApp

HEALTH = b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"


@contextmanager
def connected(port: int) -> Iterator[socket.socket]:
    with closing(socket.create_connection(("127.0.0.1", port), timeout=30)) as connection:
        yield connection


def answer(connection: socket.socket) -> tuple[int, dict[str, str], bytes]:
    """Reads one response with a Content-Length. Returns status, headers by lower-case name, and body."""
    data = b""
    while b"\r\n\r\n" not in data:
        more = connection.recv(65536)
        assert more, f"closed after {data!r}"
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:])}
    while len(body) < int(headers.get("content-length", 0)):
        body += connection.recv(65536)
    return int(lines[0].split()[1]), headers, body


def ask(port: int, raw: bytes) -> tuple[int, dict[str, str], bytes]:
    with connected(port) as connection:
        connection.sendall(raw)
        return answer(connection)


@contextmanager
def listening(app: WsgiApp, *, body_bytes: int = 1, **limits: Any) -> Iterator[Listener]:
    limits.setdefault("admit", lambda _head, _may_block: body_bytes)
    listener = Listener(app, "127.0.0.1", 0, body_bytes=body_bytes, **limits)
    listener.start()
    try:
        yield listener
    finally:
        listener.stop()


def quick(_environ: object, start: StartResponse) -> list[bytes]:
    start("200 OK", [("Content-Length", "2")])
    return [b"ok"]


def small_send_buffers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the kernel accept only about 32 KiB for a client that does not read."""
    option = (socket.SOL_SOCKET, socket.SO_SNDBUF, 32 * 1024)
    monkeypatch.setattr(listener_module, "_SOCKET_OPTIONS", (*listener_module._SOCKET_OPTIONS, option))
