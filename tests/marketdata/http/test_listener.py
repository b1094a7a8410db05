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
from marketdata.http.connection import MIN_SPOOL_RATE, Limits, arrival_limit
from marketdata.http.listener import WORKERS, Listener
from marketdata.http.wsgi import StartResponse
from marketdata.limits import MAX_CSV_BYTES
from tests.marketdata.api.conftest import eventually
from tests.marketdata.http.wire import HEALTH, answer, ask, connected, listening, quick, with_small_buffers

KIB = 1024


def request(line: str, *fields: str, host: str = "Host: a") -> bytes:
    return "\r\n".join([f"{line} HTTP/1.1", *([host] if host else ()), *fields, "", ""]).encode()


def test_a_malformed_request_is_answered_by_a_problem(service: Service) -> None:
    for raw, status, code in [
        (b"nonsense\r\n\r\n", 400, "bad_request"),
        (request("GET /healthz", host=""), 400, "bad_request"),
        (request("GET /healthz", "Host: b"), 400, "bad_request"),
        (request("GET /healthz", host="Host: a b/@"), 400, "bad_request"),
        (request("GET /healthz", "Content-Length: x"), 400, "bad_request"),
        (request("GET /healthz", f"Content-Length: {'1' * 4400}"), 400, "bad_request"),
        (request("GET /healthz", "X: b\r\n c"), 400, "bad_request"),
        (request("GET /healthz", "X: b\r\n\tc: d"), 400, "bad_request"),
        (request("GET /healthz", "X: b\r\n "), 400, "bad_request"),
        (request("GET http://[::1/healthz"), 400, "bad_request"),
        (request("POST /", "Content-Length: 1", "Transfer-Encoding: chunked"), 400, "bad_request"),
        (b"POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", 400, "bad_request"),
        (request("POST /", "Transfer-Encoding: gzip"), 501, "unknown_coding"),
        (request("GET /", f"X: {'x' * 20_000}"), 431, "headers_too_large"),
        (request("POST /v1/ingest/tick", f"Content-Length: {MAX_CSV_BYTES + 1}"), 413, "too_large"),
    ]:
        found, headers, body = ask(service.port, raw)
        problem = json.loads(body)
        assert (found, headers["content-type"]) == (status, "application/problem+json"), raw[:60]
        assert problem["code"] == code, raw[:60]
        if code == "too_large":
            assert problem["detail"] == f"the body is larger than {MAX_CSV_BYTES} bytes: send it in parts"


def test_a_repeated_authorization_header_is_refused(service: Service, read_token: str) -> None:
    status, headers, _ = ask(service.port, request("GET /v1/symbols", *[f"Authorization: Bearer {read_token}"] * 2))
    assert status == 400
    assert headers["www-authenticate"] == 'Bearer realm="marketdata", error="invalid_request"'


def test_a_chunked_batch_is_stored_and_a_stream_ends_with_its_last_chunk(
    service: Service, read_token: str, write_token: str
) -> None:
    tick = b'{"symbol":"CHUNK:A","id":"1","ts":1000000000000,"price":"1","size":"1"}\n'
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (tick[:20], tick[20:])) + b"0\r\n\r\n"
    fields = (f"Authorization: Bearer {write_token}", "Content-Type: application/x-ndjson")
    status, _, body = ask(service.port, request("POST /v1/ingest/tick", *fields, "Transfer-Encoding: chunked") + chunks)
    assert (status, json.loads(body)["rejected"]) == (200, [])
    with connected(service.port) as connection:
        path = "/v1/ticks?symbol=CHUNK:A&format=ndjson"
        connection.sendall(request(f"GET {path}", f"Authorization: Bearer {read_token}", "Connection: close"))
        head, _, body = b"".join(iter(lambda: connection.recv(65536), b"")).partition(b"\r\n\r\n")
    assert b"transfer-encoding: chunked" in head.lower()
    assert body.endswith(b"0\r\n\r\n")
    assert b'"id":"1"' in body


def test_an_address_in_use_is_a_state_error(service: Service) -> None:
    second = Listener(quick, "127.0.0.1", service.port, admit=lambda _head, _may_block: 0, body_bytes=1)
    with pytest.raises(StateError, match="MARKET_API_PORT"):
        second.start()
    second.stop()


def test_a_slow_and_an_idle_connection_are_closed() -> None:
    with listening(quick, arrival_seconds=0.2) as listener, connected(listener.port) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHo")
        assert connection.recv(1) == b""
    limits = Limits(idle_seconds=0.3)
    with listening(quick, arrival_seconds=0.1, limits=limits) as listener, connected(listener.port) as client:
        client.sendall(HEALTH)
        assert answer(client)[0] == 200
        assert client.recv(1) == b""


def test_a_body_in_a_file_may_take_longer_by_its_size() -> None:
    assert arrival_limit(120.0, 0) == 120.0
    assert arrival_limit(120.0, 100 * MIN_SPOOL_RATE) == 220.0


def test_more_kept_connections_than_workers_are_all_served(service: Service) -> None:
    """A worker stays with its connection only while no other connection waits."""
    with ExitStack() as held:
        connections = [held.enter_context(connected(service.port)) for _ in range(WORKERS + 14)]
        for _ in range(10):
            for connection in connections:
                connection.sendall(HEALTH)
            assert [answer(connection)[0] for connection in connections] == [200] * len(connections)


def test_beyond_the_limit_the_longest_idle_connections_are_closed() -> None:
    with listening(quick, connections=50, workers=5) as listener, ExitStack() as held:
        clients = [held.enter_context(connected(listener.port)) for _ in range(150)]
        for client in clients[-20:]:
            client.sendall(HEALTH)
            assert answer(client)[2] == b"ok"
        assert clients[0].recv(1) == b"", "the first one was closed"
        clients[-1].sendall(HEALTH)
        assert answer(clients[-1])[2] == b"ok"
        # The connections that were idle for less than a second are spared at first.
        eventually(lambda: ask(listener.port, HEALTH)[0] == 200 and len(listener.connections()) <= 51)


def test_a_new_connection_waits_while_all_others_are_in_use() -> None:
    let_go = threading.Event()

    def busy(environ: object, start: StartResponse) -> list[bytes]:
        let_go.wait(30)
        return quick(environ, start)

    with listening(busy, connections=20, workers=5) as listener, ExitStack() as held:
        clients = [held.enter_context(connected(listener.port)) for _ in range(40)]
        for client in clients:
            client.sendall(HEALTH)
        let_go.set()
        assert [answer(client)[0] for client in clients] == [200] * 40


def test_pipelined_requests_are_answered_in_their_order(service: Service, read_token: str) -> None:
    paths = ["/healthz", "/nothing", "/v1/udf/config", "/v1/symbols"] * 8
    with connected(service.port) as connection:
        whole = b"".join(request(f"GET {path}", f"Authorization: Bearer {read_token}") for path in paths)
        for start in range(0, len(whole), 333):  # cut anywhere
            connection.sendall(whole[start : start + 333])
        assert [answer(connection)[0] for _ in paths] == [200, 404, 200, 200] * 8


def test_a_reset_while_the_worker_stays_affects_no_other_client(service: Service) -> None:
    for _ in range(100):
        with connected(service.port) as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.sendall(HEALTH)
            connection.recv(1)  # and then a reset, often with bytes still unread
    assert ask(service.port, HEALTH)[0] == 200


# -- slow readers ------------------------------------------------------------------------------------------------------

RATE = 1024 * KIB
"""Bytes per second that a slow client reads, at most."""
FEW_UNSENT = 128 * KIB


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


@contextmanager
def slow_clients(port: int) -> Iterator[list[int]]:
    """Two clients of an endless stream. Gives how many bytes each has read."""
    left, taken = threading.Event(), [0, 0]

    def read(number: int) -> None:
        with connected(port) as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32 * KIB)
            client.sendall(b"GET /endless HTTP/1.1\r\nHost: a\r\n\r\n")
            began, data = time.monotonic(), b"some"
            with suppress(ConnectionError):
                while data and not left.wait(0.01):
                    data = client.recv(max(int((time.monotonic() - began) * RATE) - taken[number], 1))
                    taken[number] += len(data)

    readers = [threading.Thread(target=read, args=(number,)) for number in range(2)]
    for reader in readers:
        reader.start()
    try:
        yield taken
    finally:
        left.set()
        for reader in readers:
            reader.join()


def test_the_stream_of_a_too_slow_client_ends() -> None:
    endless, limits = Endless(), Limits(rate=4 * RATE, unsent_bytes=FEW_UNSENT)
    with (
        listening(endless, workers=2, limits=limits, shared=with_small_buffers()) as listener,
        slow_clients(listener.port),
    ):
        eventually(lambda: endless.begun == 2)
        eventually(lambda: not endless.streaming)
        assert ask(listener.port, HEALTH)[0] == 200


def test_the_stream_of_a_client_that_is_slow_but_not_too_slow_goes_on() -> None:
    endless, limits = Endless(), Limits(rate=RATE // 100, unsent_bytes=FEW_UNSENT)
    with (
        listening(endless, workers=2, limits=limits, arrival_seconds=0.1, shared=with_small_buffers()) as listener,
        slow_clients(listener.port) as taken,
    ):
        eventually(lambda: min(taken) > 5 * FEW_UNSENT)
        assert len(endless.streaming) == 2


# -- bodies ------------------------------------------------------------------------------------------------------------


def post(size: int, framing: str = "length") -> bytes:
    """A request with a body of ``size`` bytes, as one length or in chunks of 10 KiB, from a client without a token."""
    if framing == "length":
        return request("POST /", f"Content-Length: {size}") + b"x" * size
    chunks = b"".join(b"2800\r\n" + b"x" * 10 * KIB + b"\r\n" for _ in range(size // (10 * KIB)))
    return request("POST /", "Transfer-Encoding: chunked") + chunks + b"0\r\n\r\n"


@pytest.mark.parametrize("framing", ["length", "chunks"])
def test_the_total_of_arriving_bodies_is_bounded(framing: str) -> None:
    with listening(quick, body_bytes=1024 * KIB, bodies_bytes=300 * KIB) as listener:
        port = listener.port
        with connected(port) as first, connected(port) as second:
            for client in (first, second):
                client.sendall(post(140 * KIB, framing)[:-1])
            eventually(lambda: listener.bodies_left < 21 * KIB)
            status, headers, body = ask(port, post(100 * KIB, framing))
            assert (status, headers["retry-after"], json.loads(body)["code"]) == (429, "1", "saturated")
            assert ask(port, post(10 * KIB, framing))[0] == 200, "a single tick passes"
            first.sendall(post(140 * KIB, framing)[-1:])
            assert answer(first)[0] == 200
            eventually(lambda: ask(port, post(100 * KIB, framing))[0] == 200)  # an answered one is no longer counted
        eventually(lambda: ask(port, post(280 * KIB, framing))[0] == 200)  # nor is a request whose client left
        assert ask(port, post(310 * KIB, framing))[0] == 429


def test_a_request_without_a_body_is_answered_even_if_it_expects_100_continue() -> None:
    with listening(quick) as listener, connected(listener.port) as client:
        for _ in range(2):
            client.sendall(request("GET /healthz", "Expect: 100-continue"))
            assert answer(client)[::2] == (200, b"ok")


def test_the_refusal_of_a_head_request_has_no_body(service: Service) -> None:
    with connected(service.port) as client:
        client.sendall(request("HEAD /v1/symbols", "Content-Length: 20000"))
        client.shutdown(socket.SHUT_WR)
        received = b"".join(iter(lambda: client.recv(65536), b""))
    head, _, body = received.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 4")
    assert body == b""
