"""The listener over real sockets: malformed requests, slow and idle clients, limits on bodies and connections."""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import pytest

from marketdata.api.serve import Service
from marketdata.errors import StateError
from marketdata.http.listener import WORKERS, Listener
from marketdata.http.listener import listening as bind
from marketdata.http.wsgi import StartResponse
from marketdata.limits import MAX_CSV_BYTES
from tests.marketdata.api.conftest import eventually
from tests.marketdata.http.wire import HEALTH, answer, ask, connected, listening, quick, small_send_buffers


@pytest.mark.parametrize(
    ("raw", "status", "code"),
    [
        (b"nonsense\r\n\r\n", 400, "bad_request"),
        (b"GET /healthz HTTP/1.1\r\n\r\n", 400, "bad_request"),
        (b"GET /healthz HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400, "bad_request"),
        (b"GET /healthz HTTP/1.1\r\nHost: a b/@\r\n\r\n", 400, "bad_request"),
        (b"GET /healthz HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n", 400, "bad_request"),
        (b"GET /healthz HTTP/1.1\r\nHost: a\r\nContent-Length: " + b"1" * 4400 + b"\r\n\r\n", 400, "bad_request"),
        (b"GET /healthz HTTP/1.1\r\nHost: a\r\nX: b\r\n c\r\n\r\n", 400, "bad_request"),
        (b"GET /healthz HTTP/1.1\r\nHost: a\r\nX: b\r\n\tc: d\r\n\r\n", 400, "bad_request"),
        (b"GET /healthz HTTP/1.1\r\nHost: a\r\nX: b\r\n \r\n\r\n", 400, "bad_request"),
        (b"GET http://[::1/healthz HTTP/1.1\r\nHost: a\r\n\r\n", 400, "bad_request"),
        (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400, "bad_request"),
        (b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n", 501, "unknown_coding"),
        (b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 20_000 + b"\r\n\r\n", 431, "headers_too_large"),
        (
            b"POST /v1/ingest/tick HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % (MAX_CSV_BYTES + 1),
            413,
            "too_large",
        ),
    ],
)
def test_a_malformed_request_is_answered_by_a_problem(service: Service, raw: bytes, status: int, code: str) -> None:
    found, headers, body = ask(service.port, raw)
    assert (found, headers["content-type"]) == (status, "application/problem+json")
    problem = json.loads(body)
    assert problem["code"] == code
    assert (
        code != "too_large" or problem["detail"] == f"the body is larger than {MAX_CSV_BYTES} bytes: send it in parts"
    )


def test_a_repeated_authorization_header_is_refused(service: Service, read_token: str) -> None:
    line = f"Authorization: Bearer {read_token}\r\n".encode()
    status, headers, _ = ask(service.port, b"GET /v1/symbols HTTP/1.1\r\nHost: a\r\n" + line * 2 + b"\r\n")
    assert status == 400
    assert headers["www-authenticate"] == 'Bearer realm="marketdata", error="invalid_request"'


def test_a_connection_outlives_a_304_and_a_problem(service: Service, read_token: str) -> None:
    request = f"GET /v1/symbols HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {read_token}\r\n%s\r\n"
    with connected(service.port) as connection:
        connection.sendall((request % "").encode())
        status, headers, _ = answer(connection)
        assert status == 200
        for _ in range(2):
            connection.sendall((request % f"If-None-Match: {headers['etag']}\r\n").encode())
            assert answer(connection)[0] == 304
        connection.sendall(b"GET /nothing HTTP/1.1\r\nHost: a\r\n\r\n")
        assert answer(connection)[0] == 404
        connection.sendall((request % "").encode())
        assert answer(connection)[0] == 200


def test_a_chunked_batch_is_stored(service: Service, write_token: str) -> None:
    tick = b'{"symbol":"CHUNK:A","id":"1","ts":1000000000000,"price":"1","size":"1"}\n'
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (tick[:20], tick[20:])) + b"0\r\n\r\n"
    head = (
        f"POST /v1/ingest/tick HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {write_token}\r\n"
        "Content-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    status, _, body = ask(service.port, head.encode() + chunks)
    assert (status, json.loads(body)["rejected"]) == (200, [])


def test_a_stream_ends_with_its_last_chunk(service: Service, read_token: str, write_token: str) -> None:
    test_a_chunked_batch_is_stored(service, write_token)
    with connected(service.port) as connection:
        path = "/v1/ticks?symbol=CHUNK:A&format=ndjson"
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {read_token}\r\n\r\n".encode())
        data = b""
        while more := connection.recv(65536):
            data += more
    head, _, body = data.partition(b"\r\n\r\n")
    assert b"transfer-encoding: chunked" in head.lower()
    assert body.endswith(b"0\r\n\r\n")
    assert b'"id":"1"' in body


def test_an_address_in_use_is_a_state_error(service: Service) -> None:
    second = Listener(quick, "127.0.0.1", service.port, admit=lambda _head, _may_block: 0, body_bytes=1)
    with pytest.raises(StateError, match="MARKET_API_PORT"):
        second.start()
    second.stop()


def test_a_request_that_arrives_too_slowly_is_cut_off() -> None:
    with listening(quick, arrival_seconds=0.2) as listener, connected(listener.port) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHo")
        assert connection.recv(1) == b""
    listener.stop()


def test_more_kept_connections_than_workers_are_all_served(service: Service) -> None:
    """A worker stays with its connection only while no other connection waits."""
    requests = 25
    connections = [socket.create_connection(("127.0.0.1", service.port), timeout=30) for _ in range(WORKERS + 14)]
    try:
        for _ in range(requests):
            for connection in connections:
                connection.sendall(HEALTH)
            assert [answer(connection)[0] for connection in connections] == [200] * len(connections)
    finally:
        for connection in connections:
            connection.close()


def test_beyond_the_limit_the_longest_idle_connections_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("marketdata.http.listener.BEGIN_SECONDS", 0.0)
    with listening(quick, connections=50) as listener, ExitStack() as held:
        clients = [held.enter_context(connected(listener.port)) for _ in range(150)]
        for client in clients[-20:]:
            client.sendall(HEALTH)
            assert answer(client)[2] == b"ok"
        assert clients[0].recv(1) == b"", "the first one was closed"


def test_a_new_connection_waits_while_all_others_are_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    let_go = threading.Event()

    def busy(environ: object, start: StartResponse) -> list[bytes]:
        let_go.wait(30)
        return quick(environ, start)

    monkeypatch.setattr("marketdata.http.listener.WORKERS", 5)
    with listening(busy, connections=20) as listener, ExitStack() as held:
        clients = [held.enter_context(connected(listener.port)) for _ in range(40)]
        for client in clients:
            client.sendall(HEALTH)
        let_go.set()
        assert [answer(client)[0] for client in clients] == [200] * 40


def test_an_idle_connection_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("marketdata.http.connection.IDLE_SECONDS", 0.3)
    with listening(quick, arrival_seconds=0.1) as listener, connected(listener.port) as client:
        client.sendall(HEALTH)
        assert answer(client)[0] == 200
        assert client.recv(1) == b""


@pytest.mark.parametrize("jump", [-86_400.0, 86_400.0])
def test_a_wall_clock_that_jumps_cuts_no_connection(monkeypatch: pytest.MonkeyPatch, jump: float) -> None:
    wall = [time.time()]
    monkeypatch.setattr("time.time", lambda: wall[0])
    with listening(quick) as listener, connected(listener.port) as first, connected(listener.port) as second:
        for shift in (0.0, jump, jump):
            wall[0] += shift
            for client in (first, second, first, second):  # each answer is a turn of the loop
                client.sendall(HEALTH)
                assert answer(client)[0] == 200
                threading.Event().wait(0.02)


def test_pipelined_requests_are_answered_in_their_order(service: Service, read_token: str) -> None:
    paths = ["/healthz", "/nothing", "/v1/udf/config", "/v1/symbols"] * 8
    with connected(service.port) as connection:
        lines = f"Host: a\r\nAuthorization: Bearer {read_token}\r\n\r\n"
        whole = "".join(f"GET {path} HTTP/1.1\r\n{lines}" for path in paths).encode()
        for start in range(0, len(whole), 333):  # cut anywhere
            connection.sendall(whole[start : start + 333])
        received = b""
        while received.count(b"HTTP/1.1 ") < len(paths):
            received += connection.recv(65536)
    assert [int(part[:3]) for part in received.split(b"HTTP/1.1 ")[1:]] == [200, 404, 200, 200] * 8


def test_a_reset_while_the_worker_stays_affects_no_other_client(service: Service) -> None:
    for _ in range(200):
        connection = socket.create_connection(("127.0.0.1", service.port), timeout=30)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.sendall(HEALTH)
        connection.recv(1)
        connection.close()  # a reset, often with bytes still unread
    assert ask(service.port, HEALTH)[0] == 200


KIB = 1024

RATE = 1024 * KIB
"""Bytes per second that a slow client reads."""


class Endless:
    """Answers ``/healthz`` at once, and any other path with an endless stream. ``streaming`` contains the threads that
    stream now; ``begun`` counts all streams."""

    def __init__(self) -> None:
        self.streaming: set[int] = set()
        self.begun = 0

    def __call__(self, environ: dict[str, Any], start: StartResponse) -> Iterable[bytes]:
        if environ["PATH_INFO"] == "/healthz":
            return quick(environ, start)
        start("200 OK", [])
        return self._pieces()

    def _pieces(self) -> Iterator[bytes]:
        worker = threading.get_ident()
        self.streaming.add(worker)
        self.begun += 1
        try:
            while True:
                yield b"x" * 32 * KIB
        finally:
            self.streaming.remove(worker)


@pytest.fixture
def shallow(monkeypatch: pytest.MonkeyPatch) -> None:
    """A listener of two workers that block on a client after some hundred kilobytes."""
    monkeypatch.setattr("marketdata.http.listener.WORKERS", 2)
    monkeypatch.setattr("marketdata.http.connection.MAX_UNSENT_BYTES", 128 * KIB)
    small_send_buffers(monkeypatch)


@contextmanager
def slow_clients(port: int, count: int) -> Iterator[None]:
    """Opens ``count`` clients of an endless stream; each reads ``RATE`` bytes per second."""
    left = threading.Event()

    def read() -> None:
        with connected(port) as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32 * KIB)
            client.sendall(b"GET /endless HTTP/1.1\r\nHost: a\r\n\r\n")
            began, taken, data = time.monotonic(), 0, b"some"
            with suppress(ConnectionError):
                while data and not left.wait(0.01):
                    data = client.recv(max(int((time.monotonic() - began) * RATE) - taken, 1))
                    taken += len(data)

    readers = [threading.Thread(target=read) for _ in range(count)]
    for reader in readers:
        reader.start()
    try:
        yield
    finally:
        left.set()
        for reader in readers:
            reader.join()


@pytest.mark.usefixtures("shallow")
def test_the_stream_of_a_too_slow_client_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("marketdata.http.connection.MIN_RATE", 4 * RATE)
    endless = Endless()
    with listening(endless) as listener, slow_clients(listener.port, 2):
        eventually(lambda: endless.begun == 2)
        eventually(lambda: not endless.streaming)
        assert status_of(listener.port, HEALTH) == 200


@pytest.mark.full
@pytest.mark.usefixtures("shallow")
def test_the_stream_of_a_client_that_is_slow_but_not_too_slow_goes_on() -> None:
    endless = Endless()
    with listening(endless, arrival_seconds=0.1) as listener, slow_clients(listener.port, 2):
        eventually(lambda: len(endless.streaming) == 2)
        with connected(listener.port) as waiting:
            waiting.sendall(HEALTH)
            waiting.settimeout(1.6)
            with pytest.raises(TimeoutError):
                waiting.recv(1)
        assert len(endless.streaming) == 2


def post(size: int, framing: str = "length") -> bytes:
    """A request with a body of ``size`` bytes, as one length or in chunks of 10 KiB, from a client without a token."""
    head = b"POST / HTTP/1.1\r\nHost: a\r\n"
    if framing == "length":
        return head + b"Content-Length: %d\r\n\r\n" % size + b"x" * size
    chunks = b"".join(b"2800\r\n" + b"x" * 10 * KIB + b"\r\n" for _ in range(size // (10 * KIB)))
    return head + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"


def status_of(port: int, raw: bytes) -> int:
    return ask(port, raw)[0]


@pytest.mark.parametrize("framing", ["length", "chunks"])
def test_the_total_of_arriving_bodies_is_bounded(framing: str) -> None:
    with listening(quick, body_bytes=1024 * KIB, bodies_bytes=300 * KIB) as listener:
        port = listener.port
        with connected(port) as first, connected(port) as second:
            for client in (first, second):
                client.sendall(post(140 * KIB, framing)[:-1])
            eventually(lambda: listener._bodies._left < 21 * KIB)
            status, headers, body = ask(port, post(100 * KIB, framing))
            assert (status, headers["retry-after"], json.loads(body)["code"]) == (429, "1", "saturated")
            assert status_of(port, post(10 * KIB, framing)) == 200, "a single tick passes"
            first.sendall(post(140 * KIB, framing)[-1:])
            assert answer(first)[0] == 200
            eventually(lambda: status_of(port, post(100 * KIB, framing)) == 200)  # an answered one is no longer counted
        eventually(lambda: status_of(port, post(280 * KIB, framing)) == 200)  # nor is a request whose client left
        assert status_of(port, post(310 * KIB, framing)) == 429


def test_a_request_without_a_body_is_answered_even_if_it_expects_100_continue() -> None:
    with listening(quick) as listener, connected(listener.port) as client:
        for _ in range(2):
            client.sendall(HEALTH.replace(b"\r\n\r\n", b"\r\nExpect: 100-continue\r\n\r\n"))
            assert answer(client)[::2] == (200, b"ok")


def test_the_refusal_of_a_head_request_has_no_body(service: Service) -> None:
    with connected(service.port) as client:
        client.sendall(b"HEAD /v1/symbols HTTP/1.1\r\nHost: a\r\nContent-Length: 20000\r\n\r\n")
        client.shutdown(socket.SHUT_WR)
        received = b"".join(iter(lambda: client.recv(65536), b""))
    head, _, body = received.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 4")
    assert body == b""


def test_a_failed_start_leaves_no_worker_and_no_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("marketdata.http.listener.Server", lambda *_, **__: 1 / 0)
    before = threading.active_count()
    listener = Listener(quick, "127.0.0.1", 0, body_bytes=1, admit=lambda _head, _may_block: 1)
    with pytest.raises(ZeroDivisionError):
        listener.start()
    eventually(lambda: threading.active_count() == before)
    socket.create_server(("127.0.0.1", listener.port)).close()


def test_a_pause_of_a_shared_socket_is_kept_by_the_sweep(caplog: pytest.LogCaptureFixture) -> None:
    shared = bind("127.0.0.1", 0, "api")
    with ExitStack() as clients:
        waiting = [clients.enter_context(connected(shared.getsockname()[1])) for _ in range(3)]
        with listening(quick, shared=shared):
            for each in waiting:
                each.sendall(HEALTH)
                assert answer(each)[0] == 200
    assert not caplog.records
