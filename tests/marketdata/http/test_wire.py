"""Responses as bytes: their heads, partial writes, and whether the connection is kept."""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import ExitStack
from typing import Any

import pytest

from marketdata.http import listener as listener_module
from marketdata.http.wsgi import StartResponse
from tests.marketdata.api.conftest import eventually
from tests.marketdata.http.wire import HEALTH, answer, ask, connected, listening, quick, small_send_buffers

BODY = bytes(range(256)) * 16 * 1024
"""4 MiB."""


def head_of(port: int, raw: bytes) -> tuple[str, list[tuple[str, str]], bool]:
    """Returns the status line, the headers in their order with lower-case names, and whether the connection is
    closed."""
    with connected(port) as client:
        client.sendall(raw)
        client.settimeout(1)
        data, is_closed = b"", False
        try:
            while not is_closed:
                more = client.recv(65536)
                is_closed = not more
                data += more
        except TimeoutError:
            pass
    status, *lines = data.partition(b"\r\n\r\n")[0].decode().split("\r\n")
    pairs = (line.partition(": ") for line in lines)
    return status, [(name.lower(), value) for name, _, value in pairs], is_closed


@pytest.mark.parametrize(
    ("raw", "line", "connection", "is_closed"),
    [
        (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 200 OK", None, False),
        (b"GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive\r\n\r\n", "HTTP/1.1 200 OK", None, False),
        (b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", "HTTP/1.1 200 OK", "close", True),
        (b"GET / HTTP/1.0\r\n\r\n", "HTTP/1.0 200 OK", "close", True),
        (b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", "HTTP/1.0 200 OK", "Keep-Alive", False),
    ],
)
def test_a_head_states_whether_the_connection_is_kept(
    raw: bytes, line: str, connection: str | None, is_closed: bool
) -> None:
    with listening(quick) as listener:
        status, headers, closed = head_of(listener.port, raw)
    names = [name for name, _ in headers]
    assert (status, dict(headers).get("connection"), closed) == (line, connection, is_closed)
    assert names.count("date") == names.count("content-length") == 1
    assert dict(headers)["content-length"] == "2"


def test_a_head_without_its_body_keeps_the_connection() -> None:
    def bare(_environ: object, start: StartResponse) -> list[bytes]:
        start("200 OK", [("Content-Length", "7"), ("ETag", 'W/"1"')])
        return []

    with listening(bare) as listener:
        status, headers, closed = head_of(listener.port, b"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n")
    assert (status, closed) == ("HTTP/1.1 200 OK", False)
    assert dict(headers)["content-length"] == "7"


def test_two_headers_of_one_name_both_arrive() -> None:
    def doubled(_environ: object, start: StartResponse) -> list[bytes]:
        start("200 OK", [("Content-Length", "2"), ("Vary", "Accept"), ("Vary", "Accept-Encoding")])
        return [b"ok"]

    with listening(doubled) as listener:
        _, headers, _ = head_of(listener.port, HEALTH)
    assert [value for name, value in headers if name == "vary"] == ["Accept", "Accept-Encoding"]


@pytest.mark.full
def test_an_answer_sent_in_several_writes_is_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel accepts a part at once. The rest is sent when the client reads, and the next response follows."""
    small_send_buffers(monkeypatch)

    def large(_environ: object, start: StartResponse) -> list[bytes]:
        start("200 OK", [("Content-Length", str(len(BODY)))])
        return [BODY]

    with listening(large) as listener, connected(listener.port) as client:
        for _ in range(3):
            client.sendall(HEALTH)
            threading.Event().wait(0.1)
            status, _, body = answer(client)
            assert (status, body == BODY) == (200, True)


def test_a_worker_leaves_a_silent_connection_and_resumes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("marketdata.http.listener.WORKERS", 2)
    with listening(quick) as listener, connected(listener.port) as silent, connected(listener.port) as other:
        for _ in range(3):
            for client in (silent, other, other):
                client.sendall(HEALTH)
                assert answer(client)[2] == b"ok"
            threading.Event().wait(0.05)


def test_a_worker_stays_only_while_another_one_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise new connections would wait while all workers wait for next requests."""
    long_wait = (socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("@ll", 60, 0))
    monkeypatch.setattr(listener_module, "_SOCKET_OPTIONS", (*listener_module._SOCKET_OPTIONS, long_wait))
    monkeypatch.setattr("marketdata.http.listener.WORKERS", 2)
    busy, let_go = threading.Event(), threading.Event()

    def app(environ: dict[str, Any], start: StartResponse) -> list[bytes]:
        if environ["PATH_INFO"] == "/busy":
            busy.set()
            let_go.wait(30)
        return quick(environ, start)

    with listening(app) as listener, ExitStack() as held:
        first, second, third = (held.enter_context(connected(listener.port)) for _ in range(3))
        first.sendall(b"GET /busy HTTP/1.1\r\nHost: a\r\n\r\n")
        assert busy.wait(30)
        for _ in range(3):
            for client in (second, third):
                client.settimeout(10)
                client.sendall(HEALTH)
                assert answer(client)[2] == b"ok"
        let_go.set()
        assert answer(first)[2] == b"ok"


def test_an_urgent_request_is_answered_while_all_workers_are_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("marketdata.http.listener.WORKERS", 2)
    let_go = threading.Event()

    def app(environ: dict[str, Any], start: StartResponse) -> list[bytes]:
        if environ["PATH_INFO"] == "/busy":
            let_go.wait(30)
        return quick(environ, start)

    with listening(app, urgent=frozenset({"/healthz"})) as listener, ExitStack() as held:
        clients = [held.enter_context(connected(listener.port)) for _ in range(4)]
        urgent = held.enter_context(connected(listener.port))
        for client in clients:
            client.sendall(b"GET /busy HTTP/1.1\r\nHost: a\r\n\r\n")
        eventually(lambda: listener.backlog() == 2)
        # The reserved worker answers no further request of this connection.
        urgent.sendall(HEALTH + b"GET /busy HTTP/1.1\r\nHost: a\r\n\r\n")
        assert [answer(urgent)[2], ask(listener.port, HEALTH)[2]] == [b"ok", b"ok"]
        let_go.set()
        assert [answer(client)[2] for client in clients] == [b"ok"] * 4
