"""Responses as bytes: their heads, partial writes, and whether the connection is kept."""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import ExitStack
from typing import Any

import pytest

from marketdata.http.wsgi import StartResponse
from tests.marketdata.api.conftest import eventually
from tests.marketdata.http.wire import HEALTH, answer, ask, connected, listening, quick, socket_with, with_small_buffers

BODY = bytes(range(256)) * 5 * 1024
"""More than is kept in memory."""


def head_of(client: socket.socket) -> tuple[str, list[tuple[str, str]]]:
    """Returns the status line of a response without a body, and its headers in their order."""
    data = b""
    while not data.endswith(b"\r\n\r\n"):
        data += client.recv(1)
    status, *lines = data.decode().split("\r\n")[:-2]
    return status, [(name.lower(), value) for name, _, value in (line.partition(": ") for line in lines)]


@pytest.mark.parametrize(
    ("raw", "line", "connection"),
    [
        (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 200 OK", None),
        (b"GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive\r\n\r\n", "HTTP/1.1 200 OK", None),
        (b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", "HTTP/1.1 200 OK", "close"),
        (b"GET / HTTP/1.0\r\n\r\n", "HTTP/1.0 200 OK", "close"),
        (b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", "HTTP/1.0 200 OK", "Keep-Alive"),
    ],
)
def test_a_head_states_whether_the_connection_is_kept(raw: bytes, line: str, connection: str | None) -> None:
    with listening(quick) as listener, connected(listener.port) as client:
        client.sendall(raw)
        status, headers = head_of(client)
        assert client.recv(2, socket.MSG_WAITALL) == b"ok"
        if connection == "close":
            assert client.recv(1) == b""
        else:
            client.sendall(HEALTH)
            assert answer(client)[0] == 200
    names = [name for name, _ in headers]
    assert (status, dict(headers).get("connection")) == (line, connection)
    assert names.count("date") == names.count("content-length") == 1
    assert dict(headers)["content-length"] == "2"


def test_a_head_alone_keeps_the_connection_and_has_both_headers_of_one_name() -> None:
    def bare(_environ: object, start: StartResponse) -> list[bytes]:
        start("200 OK", [("Content-Length", "7"), ("Vary", "Accept"), ("ETag", 'W/"1"'), ("Vary", "Accept-Encoding")])
        return []

    with listening(bare) as listener, connected(listener.port) as client:
        for _ in range(2):
            client.sendall(b"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n")
            status, headers = head_of(client)
            assert (status, dict(headers)["content-length"]) == ("HTTP/1.1 200 OK", "7")
            assert [value for name, value in headers if name == "vary"] == ["Accept", "Accept-Encoding"]


def test_an_answer_sent_in_several_writes_is_complete() -> None:
    """The kernel accepts a part at once. The rest is sent when the client reads, and the next response follows."""

    def large(_environ: object, start: StartResponse) -> list[bytes]:
        start("200 OK", [("Content-Length", str(len(BODY)))])
        return [BODY]

    with listening(large, shared=with_small_buffers()) as listener, connected(listener.port) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32 * 1024)  # so that the kernel does not enlarge it
        for _ in range(2):
            client.sendall(HEALTH)
            eventually(lambda: any(each.unsent and not each.is_in_worker for each in listener.connections()))
            status, _, body = answer(client)
            assert (status, body == BODY) == (200, True)


class Busy:
    """Answers at once, except ``/busy``, which waits for ``let_go``."""

    def __init__(self) -> None:
        self.begun, self.let_go = threading.Event(), threading.Event()

    def __call__(self, environ: dict[str, Any], start: StartResponse) -> list[bytes]:
        if environ["PATH_INFO"] == "/busy":
            self.begun.set()
            self.let_go.wait(60)
        return quick(environ, start)


BUSY = b"GET /busy HTTP/1.1\r\nHost: a\r\n\r\n"


def test_a_worker_stays_only_while_another_one_is_free() -> None:
    """Otherwise new connections would wait while all workers wait for next requests."""
    app = Busy()
    long_wait = socket_with(socket.SO_RCVTIMEO, struct.pack("@ll", 60, 0))
    with listening(app, workers=2, shared=long_wait) as listener, ExitStack() as held:
        first, second, third = (held.enter_context(connected(listener.port)) for _ in range(3))
        first.sendall(BUSY)
        assert app.begun.wait(30)
        for _ in range(3):
            for client in (second, third):
                client.sendall(HEALTH)
                assert answer(client)[2] == b"ok"
        app.let_go.set()
        assert answer(first)[2] == b"ok"


def test_an_urgent_request_is_answered_while_all_workers_are_busy() -> None:
    app = Busy()
    with listening(app, workers=2, urgent=frozenset({"/healthz"})) as listener, ExitStack() as held:
        clients = [held.enter_context(connected(listener.port)) for _ in range(4)]
        urgent = held.enter_context(connected(listener.port))
        for client in clients:
            client.sendall(BUSY)
        eventually(lambda: listener.backlog() == 2)
        # The reserved worker answers no further request of this connection.
        urgent.sendall(HEALTH + BUSY)
        assert [answer(urgent)[2], ask(listener.port, HEALTH)[2]] == [b"ok", b"ok"]
        app.let_go.set()
        assert [answer(client)[2] for client in clients] == [b"ok"] * 4
