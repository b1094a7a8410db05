"""The listener on real sockets: requests on both transports, slow clients, failing starts, and the stop."""

from __future__ import annotations

import contextlib
import errno
import http.client
import json
import os
import socket
import stat
import struct
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cardapp import private_directories
from cardapp import settings as settings_module
from cardapp.errors import StateError, UsageError
from cardapp.settings import Settings
from cardapp.web import listener as listener_module
from cardapp.web.gate import HEADER_BYTES, JSON_LIMIT
from cardapp.web.listener import WORKERS, Listener
from cardapp.web.waitress_adapter import Limits
from tests.functional.serving import until

pytestmark = pytest.mark.functional

WAIT = 10.0
LONG = 16
"""The number of requests that wait for a replay while sixteen clients send other requests."""

JSON = ("Content-Type: application/json",)
CHUNKED = "Transfer-Encoding: chunked"

LARGE = 12_000_000
"""Bytes; more than the kernel's buffers of a socket, but fewer than the number at which a worker waits."""


class App:
    """``/wait`` answers when ``release`` is set, ``/big`` sends many bytes, other paths describe the request."""

    def __init__(self) -> None:
        self.waiting = threading.Semaphore(0)
        self.release = threading.Event()
        self.closed = threading.Event()

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        if path == "/same":
            start_response("304 Not Modified", [("ETag", '"a"')])
            return []
        if path in ("/wait", "/wait-large"):
            self.waiting.release()
            assert self.release.wait(3 * WAIT)  # longer than a client's timeout
        if path == "/wait-large":
            start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(LARGE))])
            return [b"x" * LARGE]
        if path == "/big":
            start_response("200 OK", [("Content-Type", "text/plain")])
            return self._stream()
        if path == "/broken":
            raise RuntimeError("the secret inside")
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        received = {"path": path, "length": len(body), "port": environ["SERVER_PORT"]}
        text = json.dumps(received).encode()
        start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(text)))])
        return [text]

    def _stream(self) -> Iterator[bytes]:
        try:
            while True:
                yield b"x" * 1_000_000
        finally:
            self.closed.set()


@pytest.fixture
def app() -> App:
    return App()


@pytest.fixture
def settings(state_dir: Path) -> Settings:
    return make_settings(state_dir)


def make_settings(state_dir: Path, **changes: str) -> Settings:
    names = {"CARD_STATE_DIR": str(state_dir), "CARD_API_PORT": "0", "CARD_EVIDENCE_MAX_BYTES": "300000"}
    return settings_module.load(names | changes)


@pytest.fixture
def listener(settings: Settings, app: App) -> Iterator[Listener]:
    listener = Listener(settings, app)
    listener.start()
    yield listener
    app.release.set()
    listener.stop()


def connect(listener: Listener, settings: Settings, transport: str) -> socket.socket:
    if transport == "tcp":
        client = socket.create_connection(("127.0.0.1", listener.port), timeout=WAIT)
    else:
        client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        client.settimeout(WAIT)
        client.connect(str(settings.api_socket))
    return client


@pytest.fixture(params=["tcp", "unix"])
def client(request: pytest.FixtureRequest, listener: Listener, settings: Settings) -> Iterator[socket.socket]:
    with connect(listener, settings, request.param) as client:
        yield client


def head(listener: Listener, line: str, *headers: str) -> bytes:
    return "\r\n".join([line, f"Host: 127.0.0.1:{listener.port}", *headers, "", ""]).encode()


def answer(client: socket.socket) -> tuple[int, dict[str, str], bytes]:
    """Read one response: status, headers, body."""
    response = http.client.HTTPResponse(client)
    response.begin()
    body = response.read()
    return response.status, {name.lower(): value for name, value in response.headers.items()}, body


def code(body: bytes) -> str:
    return str(json.loads(body)["code"])


def ended(client: socket.socket) -> bool:
    """Whether the peer closed the connection."""
    try:
        return client.recv(1) == b""
    except ConnectionResetError:
        return True


# -- requests ------------------------------------------------------------------------------------------------------


def test_both_transports_answer(client: socket.socket, listener: Listener) -> None:
    client.sendall(head(listener, "GET /x HTTP/1.1"))
    status, headers, body = answer(client)
    assert (status, json.loads(body)["path"]) == (200, "/x")
    assert headers["x-content-type-options"] == "nosniff"
    assert "server" not in headers


def test_a_connection_serves_several_requests(client: socket.socket, listener: Listener) -> None:
    for number in range(3):
        client.sendall(head(listener, f"GET /{number} HTTP/1.1"))
        assert json.loads(answer(client)[2])["path"] == f"/{number}"


def test_requests_in_one_piece_are_answered_in_their_order(client: socket.socket, listener: Listener) -> None:
    client.sendall(b"".join(head(listener, f"GET /{number} HTTP/1.1") for number in range(4)))
    stream = client.makefile("rb")
    for number in range(4):
        assert stream.readline().startswith(b"HTTP/1.1 200")
        length = 0
        while (line := stream.readline()) != b"\r\n":
            if line.lower().startswith(b"content-length:"):
                length = int(line.partition(b":")[2])
        assert json.loads(stream.read(length))["path"] == f"/{number}"


def test_a_304_keeps_the_connection_open(client: socket.socket, listener: Listener) -> None:
    for _ in range(2):
        client.sendall(head(listener, "GET /same HTTP/1.1"))
        status, headers, body = answer(client)
        assert (status, body) == (304, b"")
        assert "connection" not in headers
    client.sendall(head(listener, "GET /same HTTP/1.1", "Connection: close"))
    assert answer(client)[1]["connection"] == "close"
    assert ended(client)


def test_the_connection_is_closed_after_an_http_1_0_request(client: socket.socket, listener: Listener) -> None:
    client.sendall(head(listener, "GET /x HTTP/1.0"))
    assert answer(client)[0] == 200
    assert ended(client)


def test_a_body_is_received_in_parts_and_in_chunks(client: socket.socket, listener: Listener) -> None:
    json_body = "Content-Type: application/json"
    client.sendall(head(listener, "POST /x HTTP/1.1", json_body, "Content-Length: 6"))
    for byte in b"{    }":
        client.sendall(bytes([byte]))
    assert json.loads(answer(client)[2])["length"] == 6
    client.sendall(head(listener, "POST /x HTTP/1.1", json_body, "Transfer-Encoding: chunked"))
    client.sendall(b"1\r\n{\r\n1\r\n}\r\n0\r\n\r\n")
    assert json.loads(answer(client)[2])["length"] == 2


def test_expect_100_continue_is_answered_before_the_body(client: socket.socket, listener: Listener) -> None:
    headers = ("Content-Type: application/json", "Content-Length: 2", "Expect: 100-continue")
    client.sendall(head(listener, "POST /x HTTP/1.1", *headers))
    assert client.recv(25) == b"HTTP/1.1 100 Continue\r\n\r\n"
    client.sendall(b"{}")
    assert json.loads(answer(client)[2])["length"] == 2


def test_a_half_closed_client_gets_its_answer(client: socket.socket, listener: Listener, app: App) -> None:
    client.sendall(head(listener, "GET /wait HTTP/1.1"))
    assert app.waiting.acquire(timeout=WAIT)
    client.shutdown(socket.SHUT_WR)
    app.release.set()
    assert answer(client)[0] == 200


def test_the_gate_checks_the_host_on_tcp_only(listener: Listener, settings: Settings) -> None:
    request = b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n"
    with connect(listener, settings, "tcp") as tcp, connect(listener, settings, "unix") as unix:
        tcp.sendall(request)
        assert (answer(tcp)[0]) == 421
        unix.sendall(request)
        assert (answer(unix)[0]) == 200


# -- refusals ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_bytes", "status", "code_"),
    [
        (b"NONSENSE\r\n\r\n", 400, "bad_request"),
        (b"get / HTTP/1.1\r\nHost: x\r\n\r\n", 400, "bad_request"),
        (b"GET / HTTP/1.1\r\nHost x\r\n\r\n", 400, "bad_request"),
        (b"GET / HTTP/1.1\r\n folded: x\r\n\r\n", 400, "bad_request"),
        (b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", 400, "bad_request"),
        (b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400, "bad_request"),
        (b"GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n", 501, "unknown_coding"),
        (b"GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n", 400, "bad_request"),
        (b"GET /http://[/ HTTP/1.1\r\n\x00: x\r\n\r\n", 400, "bad_request"),
        (b"GET http://[/ HTTP/1.1\r\nHost: x\r\n\r\n", 400, "bad_request"),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n", 400, "bad_request"),
        (b"POST / HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, "bad_request"),
        (b"GET / HTTP/1.1\r\nHost: x\r\nLong: " + b"x" * HEADER_BYTES + b"\r\n\r\n", 431, "headers_too_large"),
    ],
)  # fmt: skip
def test_invalid_http_is_a_problem(client: socket.socket, request_bytes: bytes, status: int, code_: str) -> None:
    client.sendall(request_bytes)
    found, headers, body = answer(client)
    assert (found, code(body)) == (status, code_)
    assert headers["content-type"] == "application/problem+json"
    assert headers["connection"] == "close"
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert b"waitress" not in body.lower()
    assert ended(client)


PIECE = b"10000\r\n" + b" " * 0x10000 + b"\r\n"


@pytest.mark.parametrize("rest", [b"2\r\n{}\r\n0\r\n\r\n", PIECE * 100])
def test_a_chunked_body_has_the_same_limits(client: socket.socket, listener: Listener, rest: bytes) -> None:
    client.sendall(head(listener, "POST /x HTTP/1.1", *JSON, CHUNKED) + PIECE + rest)
    status, _, body = answer(client)
    assert (status, code(body)) == (413, "too_large")
    assert ended(client)


@pytest.mark.parametrize(
    "chunks",
    [
        b"2\n\r\n{}\r\n0\r\n\r\n",
        b"2\n{}\r\n0\r\n\r\n",
        b"2;a=b\n\r\n{}\r\n0\r\n\r\n",
        b"\r\n2\r\n{}\r\n0\r\n\r\n",
        b"2\r\n{}\r\n0\r\nbad trailer\r\n\r\n",
        b"x\r\n",
    ],
)
def test_invalid_chunked_coding_is_refused(client: socket.socket, listener: Listener, chunks: bytes) -> None:
    client.sendall(head(listener, "POST /x HTTP/1.1", *JSON, CHUNKED) + chunks)
    status, _, body = answer(client)
    assert (status, code(body)) == (400, "bad_request")
    assert ended(client)


def test_a_refusal_does_not_wait_for_the_body(client: socket.socket, listener: Listener) -> None:
    """The client sends no byte of the body before it has the response."""
    client.sendall(head(listener, "POST /x HTTP/1.1", "Content-Type: text/plain", "Content-Length: 60000"))
    status, headers, body = answer(client)
    assert (status, code(body), headers["connection"]) == (415, "unsupported_media_type", "close")


def test_a_foreign_host_is_refused_before_its_body(listener: Listener, settings: Settings) -> None:
    with connect(listener, settings, "tcp") as client:
        upload = "Content-Type: image/png\r\nContent-Length: 300000\r\nExpect: 100-continue"
        client.sendall(f"POST /api/evidence HTTP/1.1\r\nHost: evil.example\r\n{upload}\r\n\r\n".encode())
        status, _, body = answer(client)
        assert (status, code(body)) == (421, "wrong_host"), "and the body is not asked for"


def test_a_request_without_a_body_is_refused_and_keeps_its_connection(listener: Listener, settings: Settings) -> None:
    with connect(listener, settings, "tcp") as client:
        for host, expected in ((b"evil.example", 421), (f"127.0.0.1:{listener.port}".encode(), 200)):
            client.sendall(b"GET /x HTTP/1.1\r\nHost: " + host + b"\r\n\r\n")
            assert answer(client)[0] == expected


def test_a_refused_head_request_gets_no_body(client: socket.socket, listener: Listener) -> None:
    client.sendall(head(listener, "HEAD /x HTTP/1.1", *JSON, "Content-Length: 999999"))
    assert client.recv(12) == b"HTTP/1.1 413"
    received = b"".join(iter(lambda: client.recv(65536), b""))
    assert received.endswith(b"\r\n\r\n")


def test_expect_100_continue_without_a_body_is_answered(client: socket.socket, listener: Listener) -> None:
    client.sendall(head(listener, "GET /x HTTP/1.1", "Expect: 100-continue"))
    assert answer(client)[0] == 200


# -- clients that write everything before they read --------------------------------------------------------------------


@pytest.mark.parametrize("size", [JSON_LIMIT + 1, 1_000_000, 20_000_000])
def test_a_body_that_is_too_large_gets_its_answer(listener: Listener, size: int) -> None:
    for _ in range(10):
        connection = http.client.HTTPConnection("127.0.0.1", listener.port, timeout=WAIT)
        with contextlib.closing(connection):
            connection.request("POST", "/x", b" " * size, {"Content-Type": "application/json"})
            response = connection.getresponse()
            assert (response.status, code(response.read())) == (413, "too_large")


def test_a_chunked_body_that_grows_too_large_gets_its_answer(listener: Listener) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", listener.port, timeout=WAIT)
    with contextlib.closing(connection):
        pieces = iter([b" " * 100_000] * 50)
        connection.request("POST", "/x", pieces, {"Content-Type": "application/json"}, encode_chunked=True)
        assert connection.getresponse().status == 413


@pytest.mark.parametrize("transport", ["tcp", "unix"])
def test_after_a_refusal_the_rest_is_read_up_to_a_size(settings: Settings, app: App, transport: str) -> None:
    listener = Listener(settings, app, Limits(linger_bytes=1_000_000))
    listener.start()
    try:
        with connect(listener, settings, transport) as client:
            client.sendall(head(listener, "POST /x HTTP/1.1", *JSON, "Content-Length: 999999999"))
            assert answer(client)[0] == 413
            with pytest.raises(ConnectionError):
                client.sendall(b" " * 100_000_000)
    finally:
        listener.stop()


def test_after_a_refusal_the_rest_is_read_for_a_limited_time(settings: Settings, app: App) -> None:
    listener = Listener(settings, app, Limits(linger=0.3))
    listener.start()
    try:
        with connect(listener, settings, "tcp") as client:
            client.sendall(head(listener, "POST /x HTTP/1.1", *JSON, "Content-Length: 999999999"))
            assert answer(client)[0] == 413
            assert ended(client), "the response is complete"
            with pytest.raises(ConnectionError):
                send_on(client)
    finally:
        listener.stop()


def send_on(client: socket.socket) -> None:
    """Send a byte from time to time until the connection breaks, or until the test's time is over."""
    pause = threading.Event()
    for _ in range(100):
        client.sendall(b" ")
        pause.wait(WAIT / 100)


# -- many bodies at once -----------------------------------------------------------------------------------------------


def held_bytes() -> int:
    """The total size of this process' unnamed temporary files, in bytes."""
    found = 0
    for descriptor in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            status = os.stat(f"/proc/self/fd/{descriptor}")
            found += status.st_size if stat.S_ISREG(status.st_mode) and status.st_nlink == 0 else 0
    return found


def send_what_is_taken(clients: list[socket.socket], data: bytes) -> None:
    """Each client sends as much of ``data`` as the server accepts, and does not read."""
    for client in clients:
        with contextlib.suppress(ConnectionError):
            client.sendall(data)


LARGE_PICTURES = 10_000_000
MANY = 12


def large_uploads(state_dir: Path, app: App, host: str, **limits: int) -> tuple[int, list[int]]:
    """``MANY`` clients send a large picture except for its end. Returns the bytes that are kept, and the statuses so
    far."""
    settings = make_settings(state_dir, CARD_EVIDENCE_MAX_BYTES=str(LARGE_PICTURES))
    listener = Listener(settings, app, Limits(**limits))
    listener.start()
    try:
        with contextlib.ExitStack() as stack:
            clients = [stack.enter_context(connect(listener, settings, "tcp")) for _ in range(MANY)]
            upload = f"Content-Type: image/png\r\nContent-Length: {LARGE_PICTURES}"
            name = host or f"127.0.0.1:{listener.port}"
            line = f"POST /api/evidence HTTP/1.1\r\nHost: {name}\r\n{upload}\r\n\r\n".encode()
            send_what_is_taken(clients, line + b"x" * (LARGE_PICTURES - 1))
            kept = held_bytes()
            statuses = [status for client in clients if (status := early_status(client))]
            with connect(listener, settings, "tcp") as small:
                small.sendall(head(listener, "POST /x HTTP/1.1", *JSON, "Content-Length: 2") + b"{}")
                assert answer(small)[0] == 200, "small requests are still accepted"
        return kept, statuses
    finally:
        listener.stop()


def early_status(client: socket.socket) -> int | None:
    """The status of the response; None if there is no response yet."""
    client.settimeout(0.5)
    try:
        status, headers, _ = answer(client)
    except TimeoutError:
        return None
    assert status != 503 or headers["retry-after"] == "1"
    return status


def test_bodies_of_refused_requests_are_not_kept(state_dir: Path, app: App) -> None:
    kept, statuses = large_uploads(state_dir, app, "evil.example")
    assert kept < LARGE_PICTURES
    assert statuses == [421] * MANY


@pytest.mark.full
def test_the_total_size_of_bodies_is_limited(state_dir: Path, app: App) -> None:
    kept, statuses = large_uploads(state_dir, app, "", bodies_bytes=4 * LARGE_PICTURES)
    assert kept <= 4 * LARGE_PICTURES
    assert statuses == [503] * (MANY - 4)


def test_every_body_returns_its_space_to_the_budget(state_dir: Path, app: App) -> None:
    """After many uploads that were complete, cut off or refused, one more is accepted."""
    settings = make_settings(state_dir)
    listener = Listener(settings, app, Limits(bodies_bytes=1))  # room for one picture
    listener.start()
    picture = ("Content-Type: image/png", "Content-Length: 300000")
    try:
        for size in (300_000, 200_000, 300_000, 100_000, 300_000):
            with connect(listener, settings, "unix") as client:
                client.sendall(head(listener, "POST /api/evidence HTTP/1.1", *picture) + b"x" * size)
                if size == 300_000:
                    assert answer(client)[0] == 200
            until(lambda: listener._bodies._free >= 300_000)
    finally:
        listener.stop()


def test_a_defect_is_answered_by_500_without_details(client: socket.socket, listener: Listener) -> None:
    client.sendall(head(listener, "GET /broken HTTP/1.1"))
    status, _, body = answer(client)
    assert (status, code(body)) == (500, "internal_error")
    assert b"secret" not in body


# -- slow and rude clients -------------------------------------------------------------------------------------------


def test_requests_that_never_end_hold_no_worker(listener: Listener, settings: Settings) -> None:
    with contextlib.ExitStack() as clients:
        for number in range(2 * WORKERS):
            slow = clients.enter_context(connect(listener, settings, "tcp" if number % 2 else "unix"))
            slow.sendall(
                head(listener, "POST /x HTTP/1.1", "Content-Type: application/json", "Content-Length: 9") + b"{"
            )
        with connect(listener, settings, "tcp") as quick:
            quick.sendall(head(listener, "GET /x HTTP/1.1"))
            assert answer(quick)[0] == 200


def test_waiting_requests_leave_room_for_sixteen_clients(listener: Listener, settings: Settings, app: App) -> None:
    with contextlib.ExitStack() as clients:
        for _ in range(LONG):
            clients.enter_context(connect(listener, settings, "unix")).sendall(head(listener, "GET /wait HTTP/1.1"))
            assert app.waiting.acquire(timeout=WAIT)
        others = [clients.enter_context(connect(listener, settings, "tcp")) for _ in range(16)]
        for other in others:
            other.sendall(head(listener, "GET /x HTTP/1.1"))
        assert [answer(other)[0] for other in others] == [200] * 16


def test_a_request_that_arrives_too_slowly_is_cut_off(settings: Settings, app: App) -> None:
    listener = Listener(settings, app, Limits(arrival=0.2))
    listener.start()
    try:
        with connect(listener, settings, "tcp") as client:
            client.sendall(b"GET / HTTP/1.1\r\nHost:")
            assert ended(client)
        with connect(listener, settings, "tcp") as client:
            client.sendall(head(listener, "GET /x HTTP/1.1"))
            assert answer(client)[0] == 200
    finally:
        listener.stop()


def test_a_connection_with_a_running_request_is_not_idle(settings: Settings, app: App) -> None:
    listener = Listener(settings, app, Limits(idle=0.2))
    listener.start()
    try:
        with connect(listener, settings, "tcp") as client:
            client.sendall(head(listener, "GET /wait HTTP/1.1"))
            assert app.waiting.acquire(timeout=WAIT)
            threading.Event().wait(0.8)
            app.release.set()
            assert answer(client)[0] == 200
            assert ended(client), "but the connection is idle afterwards"
    finally:
        listener.stop()


def test_a_client_that_leaves_ends_its_stream(client: socket.socket, listener: Listener, app: App) -> None:
    client.sendall(head(listener, "GET /big HTTP/1.1"))
    assert client.recv(100)
    client.close()
    assert app.closed.wait(WAIT)


def test_a_client_that_leaves_before_its_response_affects_no_other(
    client: socket.socket, listener: Listener, settings: Settings, app: App
) -> None:
    client.sendall(head(listener, "GET /wait HTTP/1.1"))
    assert app.waiting.acquire(timeout=WAIT)
    client.close()
    app.release.set()
    with connect(listener, settings, "tcp") as other:
        other.sendall(head(listener, "GET /x HTTP/1.1"))
        assert answer(other)[0] == 200


def test_a_refused_client_that_leaves_at_once_is_no_error(
    listener: Listener, settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    refused = head(listener, "POST /x HTTP/1.1", "Content-Type: text/plain", "Content-Length: 60000")
    for moment in range(300):
        client = connect(listener, settings, "tcp")
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.sendall(refused)
        time.sleep(moment / 300_000)
        client.close()  # resets the connection
    with connect(listener, settings, "tcp") as other:
        other.sendall(head(listener, "GET /x HTTP/1.1"))
        assert answer(other)[0] == 200
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == []


# -- start and stop ---------------------------------------------------------------------------------------------------


def threads() -> set[str]:
    return {thread.name for thread in threading.enumerate() if thread.name.startswith("api-")}


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_nothing_is_left_after_a_stop(settings: Settings, app: App) -> None:
    before = descriptors()
    listener = Listener(settings, app)
    listener.start()
    idle = connect(listener, settings, "tcp")
    half = connect(listener, settings, "unix")
    half.sendall(b"GET / HT")
    idle.sendall(head(listener, "GET /x HTTP/1.1"))
    assert answer(idle)[0] == 200
    listener.stop()
    assert ended(idle)
    assert ended(half)
    idle.close()
    half.close()
    assert not settings.api_socket.exists()
    assert threads() == set()
    assert descriptors() == before
    listener.stop()


def test_a_listener_that_never_started_can_be_stopped(settings: Settings, app: App) -> None:
    Listener(settings, app).stop()


def connect_until_refused(port: int) -> None:
    while True:
        socket.create_connection(("127.0.0.1", port), timeout=WAIT).close()


def test_a_running_request_ends_before_the_stop(listener: Listener, client: socket.socket, app: App) -> None:
    client.sendall(head(listener, "GET /wait HTTP/1.1"))
    assert app.waiting.acquire(timeout=WAIT)
    stopper = threading.Thread(target=listener.stop, args=(WAIT,))
    stopper.start()
    with pytest.raises(ConnectionError):  # refused, or reset if it was still in the queue
        connect_until_refused(listener.port)
    app.release.set()
    assert answer(client)[0] == 200
    stopper.join(WAIT)
    assert not stopper.is_alive()


def test_a_stop_waits_until_a_response_is_sent(listener: Listener, client: socket.socket, app: App) -> None:
    client.sendall(head(listener, "GET /wait-large HTTP/1.1"))
    assert app.waiting.acquire(timeout=WAIT)
    stopper = threading.Thread(target=listener.stop, args=(WAIT,))
    stopper.start()
    with pytest.raises(ConnectionError):
        connect_until_refused(listener.port)
    app.release.set()
    status, _, body = answer(client)
    stopper.join(WAIT)
    assert (status, len(body)) == (200, LARGE)


def test_a_stop_does_not_wait_for_a_request_that_does_not_end(settings: Settings, app: App) -> None:
    listener = Listener(settings, app)
    listener.start()
    with connect(listener, settings, "tcp") as client:
        client.sendall(head(listener, "GET /wait HTTP/1.1"))
        assert app.waiting.acquire(timeout=WAIT)
        listener.stop(timeout=0.2)
        assert ended(client)
    app.release.set()


def test_a_restarted_service_can_bind_its_port_at_once(settings: Settings, state_dir: Path, app: App) -> None:
    first = Listener(settings, app)
    first.start()
    with connect(first, settings, "tcp") as client:
        client.sendall(head(first, "GET /x HTTP/1.1"))
        assert answer(client)[0] == 200
        first.stop()  # the server closes first, so its port stays in TIME_WAIT
        second = Listener(make_settings(state_dir, CARD_API_PORT=str(first.port)), app)
        second.start()
        second.stop()
    assert second.port == first.port


def test_the_socket_is_private(listener: Listener, settings: Settings) -> None:
    found = settings.api_socket.lstat()
    assert stat.S_ISSOCK(found.st_mode)
    assert stat.S_IMODE(found.st_mode) == 0o600
    assert stat.S_IMODE(settings.state_dir.stat().st_mode) == 0o700


# -- starts that fail --------------------------------------------------------------------------------------------------


def refused(settings: Settings, app: App, code: str) -> StateError:
    """Start a listener, which must fail with this code and leave nothing behind."""
    before = descriptors()
    with pytest.raises(StateError) as caught:
        Listener(settings, app).start()
    assert caught.value.code == code
    assert descriptors() == before
    assert threads() == set()
    return caught.value


def test_a_second_instance_on_the_state_directory_is_refused(listener: Listener, settings: Settings, app: App) -> None:
    with pytest.raises(StateError) as caught:
        Listener(settings, app).start()
    assert caught.value.code == "state_in_use"
    assert str(os.getpid()) in caught.value.detail
    assert settings.api_socket.exists()


def test_a_port_in_use_is_named_in_the_error(settings: Settings, state_dir: Path, app: App) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = make_settings(state_dir, CARD_API_PORT=str(other.getsockname()[1]))
        error = refused(taken, app, "address_in_use")
        assert "CARD_API_PORT" in error.detail
    assert not taken.api_socket.exists()
    lock = private_directories.take_lock(state_dir / "api.lock")
    os.close(lock)


def test_a_live_socket_of_another_directory_is_refused(
    listener: Listener, settings: Settings, tmp_path: Path, app: App
) -> None:
    other = make_settings(tmp_path, CARD_API_SOCKET=str(settings.api_socket))
    with pytest.raises(StateError) as caught:
        Listener(other, app).start()
    assert caught.value.code == "socket_in_use"
    with connect(listener, settings, "unix") as client:
        client.sendall(head(listener, "GET /x HTTP/1.1"))
        assert answer(client)[0] == 200


def test_a_stale_socket_is_replaced(settings: Settings, app: App) -> None:
    with socket.socket(socket.AF_UNIX) as gone:
        gone.bind(str(settings.api_socket))
    listener = Listener(settings, app)
    listener.start()
    try:
        with connect(listener, settings, "unix") as client:
            client.sendall(head(listener, "GET /x HTTP/1.1"))
            assert answer(client)[0] == 200
    finally:
        listener.stop()


@pytest.mark.parametrize("kind", ["file", "directory", "link", "dangling link"])
def test_another_file_at_the_sockets_path_is_not_removed(
    settings: Settings, app: App, tmp_path: Path, kind: str
) -> None:
    place = settings.api_socket
    target = tmp_path / "target"
    if kind == "file":
        place.write_text("mine")
    elif kind == "directory":
        place.mkdir()
    else:
        if kind == "link":
            target.write_text("mine")
        place.symlink_to(target)
    refused(settings, app, "state_symlink" if "link" in kind else "state")
    assert os.path.lexists(place)
    assert target.exists() is (kind == "link")


def test_a_directory_open_to_others_is_refused(state_dir: Path, tmp_path: Path, app: App) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o755)
    (shared / "used").touch()
    refused(make_settings(state_dir, CARD_API_SOCKET=str(shared / "s")), app, "state_directory_open")
    shared.chmod(0o700)
    link = tmp_path / "link"
    link.symlink_to(shared)
    refused(make_settings(state_dir, CARD_API_SOCKET=str(link / "s")), app, "state_symlink")


def test_a_linked_lock_is_refused(settings: Settings, app: App, tmp_path: Path) -> None:
    (settings.state_dir / "api.lock").symlink_to(tmp_path / "elsewhere")
    refused(settings, app, "state_symlink")
    assert not (tmp_path / "elsewhere").exists()


def test_a_stop_does_not_remove_another_services_socket(settings: Settings, app: App) -> None:
    listener = Listener(settings, app)
    listener.start()
    settings.api_socket.unlink()
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(settings.api_socket))
        listener.stop()
        assert settings.api_socket.exists()


def test_only_loopback_is_bound() -> None:
    for host in ("0.0.0.0", "192.0.2.1", "::"):
        with pytest.raises(UsageError):
            listener_module.bind_tcp(host, 0)


# -- IPv6 --------------------------------------------------------------------------------------------------------------


def ipv6() -> bool:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


needs_ipv6 = pytest.mark.skipif(not ipv6(), reason="this machine has no IPv6 loopback address")


def bound(host: str, port: int = 0) -> list[tuple[str, int]]:
    with contextlib.ExitStack() as stack:
        return [stack.enter_context(each).getsockname()[:2] for each in listener_module.bind_tcp(host, port)]


@needs_ipv6
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_both_addresses_of_localhost_are_bound(host: str) -> None:
    (first, port), second = bound(host)
    assert (first, second) == ("127.0.0.1", ("::1", port))


@pytest.mark.parametrize("host", ["127.0.0.2", pytest.param("::1", marks=needs_ipv6)])
def test_another_address_is_bound_alone(host: str) -> None:
    assert [address for address, _ in bound(host)] == [host]


@needs_ipv6
def test_the_service_answers_on_ipv6(listener: Listener) -> None:
    assert listener.addresses == (f"http://127.0.0.1:{listener.port}", f"http://[::1]:{listener.port}")
    with socket.create_connection(("::1", listener.port), timeout=WAIT) as client:
        client.sendall(f"GET /x HTTP/1.1\r\nHost: [::1]:{listener.port}\r\n\r\n".encode())
        assert answer(client)[0] == 200


@needs_ipv6
def test_a_port_that_another_program_has_on_ipv6_is_refused(settings: Settings, state_dir: Path, app: App) -> None:
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as other:
        port = other.getsockname()[1]
        error = refused(make_settings(state_dir, CARD_API_PORT=str(port)), app, "address_in_use")
        assert "::1" in error.detail


@needs_ipv6
def test_a_port_of_the_kernels_choice_is_free_on_ipv4_and_ipv6(monkeypatch: pytest.MonkeyPatch) -> None:
    real, tried = listener_module._bound, []

    def taken_once(address: str, port: int) -> socket.socket:
        if address == "::1":
            tried.append(port)
            if len(tried) == 1:
                raise StateError("taken", code="address_in_use")
        return real(address, port)

    monkeypatch.setattr(listener_module, "_bound", taken_once)
    (_, port), (_, port6) = bound("127.0.0.1")
    assert port == port6 == tried[-1]
    assert len(tried) == 2


@pytest.mark.parametrize("number", [errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL])
def test_without_ipv6_only_ipv4_is_bound(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    class OldSocket(socket.socket):
        def __init__(self, family: int, kind: int) -> None:
            if family == socket.AF_INET6 and number == errno.EAFNOSUPPORT:
                raise OSError(number, os.strerror(number))
            super().__init__(family, kind)

        def bind(self, address: Any) -> None:
            if self.family == socket.AF_INET6:
                raise OSError(number, os.strerror(number))
            super().bind(address)

    monkeypatch.setattr(listener_module.socket, "socket", OldSocket)
    assert [address for address, _ in bound("127.0.0.1")] == ["127.0.0.1"]
