"""The listener on real sockets: requests on both transports, refusals, limits, failing starts, and the stop."""

from __future__ import annotations

import contextlib
import errno
import http.client
import json
import os
import select
import socket
import stat
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cardapp import private_directories
from cardapp.errors import StateError, UsageError
from cardapp.settings import Settings
from cardapp.web.gate import HEADER_BYTES, JSON_LIMIT
from cardapp.web.listener import Listener, bind_tcp, bound
from cardapp.web.waitress_adapter import Limits
from tests.capabilities import needs
from tests.functional.listening import (
    IPV6,
    WAIT,
    Served,
    answer,
    counts,
    ended,
    has_ipv6,
    make_settings,
    problem,
    serve,
)
from tests.functional.serving import until

__all__ = ["serve"]
pytestmark = pytest.mark.functional

JSON = "Content-Type: application/json"
PNG = "Content-Type: image/png"
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
        if path in ("/wait", "/wait-large"):
            self.waiting.release()
            assert self.release.wait(3 * WAIT)  # longer than a client's timeout
        if path == "/wait-large":
            start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(LARGE))])
            return [b"x" * LARGE]
        if path == "/big":
            start_response("200 OK", [("Content-Type", "text/plain")])
            return self._stream()
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        text = json.dumps({"path": path, "length": len(body)}).encode()
        start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(text)))])
        return [text]

    def _stream(self) -> Iterator[bytes]:
        try:
            while True:
                yield b"x" * 1_000_000
        finally:
            self.closed.set()

    def waits_for(self, client: socket.socket) -> socket.socket:
        """``client``, whose request for ``/wait`` has reached this application."""
        assert self.waiting.acquire(timeout=WAIT)
        return client


@pytest.fixture
def app() -> Iterator[App]:
    app = App()
    yield app
    app.release.set()


@pytest.fixture
def served(serve: Callable[..., Served], app: App) -> Iterator[Served]:
    served: Served = serve(app)
    yield served
    app.release.set()


@pytest.fixture
def settings(state_dir: Path) -> Settings:
    return make_settings(state_dir)


def described(client: socket.socket) -> Any:
    status, _, body = answer(client)
    assert status == 200, body
    return json.loads(body)


# -- requests ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("transport", ["tcp", "unix"])
def test_a_connection_serves_several_requests(served: Served, transport: str) -> None:
    client = served.connect(transport)
    for number in range(3):
        client.sendall(served.head(f"GET /{number} HTTP/1.1"))
        status, headers, body = answer(client)
        assert (status, json.loads(body)["path"]) == (200, f"/{number}")
        assert headers["x-content-type-options"] == "nosniff"
        assert "server" not in headers
    client.sendall(b"".join(served.head(f"GET /{number} HTTP/1.1") for number in range(4)))
    stream = client.makefile("rb")
    for number in range(4):  # in the order of the requests
        assert stream.readline().startswith(b"HTTP/1.1 200")
        while stream.readline() != b"\r\n":
            pass
        assert json.loads(stream.read(len(b'{"path": "/0", "length": 0}')))["path"] == f"/{number}"
    client.sendall(served.head("GET /x HTTP/1.0"))
    assert answer(client)[0] == 200
    assert ended(client), "after a request of HTTP/1.0"


def test_a_body_is_received_in_parts_in_chunks_and_when_it_is_asked_for(served: Served) -> None:
    client = served.send("POST /x HTTP/1.1", JSON, "Content-Length: 6")
    for byte in b"{    }":
        client.sendall(bytes([byte]))
    assert described(client)["length"] == 6
    client.sendall(served.head("POST /x HTTP/1.1", JSON, CHUNKED) + b"1\r\n{\r\n1\r\n}\r\n0\r\n\r\n")
    assert described(client)["length"] == 2
    client.sendall(served.head("POST /x HTTP/1.1", JSON, "Content-Length: 2", "Expect: 100-continue"))
    assert client.recv(25) == b"HTTP/1.1 100 Continue\r\n\r\n"
    client.sendall(b"{}")
    assert described(client)["length"] == 2
    client.sendall(served.head("GET /x HTTP/1.1", "Expect: 100-continue"))
    assert described(client)["length"] == 0


# -- refusals ----------------------------------------------------------------------------------------------------------

INVALID = (
    (b"NONSENSE\r\n\r\n", 400),
    (b"get / HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    (b"GET / HTTP/1.1\r\nHost x\r\n\r\n", 400),
    (b"GET / HTTP/1.1\r\n folded: x\r\n\r\n", 400),
    (b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", 400),
    (b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
    (b"GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n", 501),
    (b"GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n", 400),
    (b"GET /http://[/ HTTP/1.1\r\n\x00: x\r\n\r\n", 400),
    (b"GET http://[/ HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n", 400),
    (b"POST / HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    (b"GET / HTTP/1.1\r\nHost: x\r\nLong: " + b"x" * HEADER_BYTES + b"\r\n\r\n", 431),
)
CODES = {400: "bad_request", 431: "headers_too_large", 501: "unknown_coding"}


def test_invalid_http_is_a_problem(served: Served) -> None:
    for request, status in INVALID:
        client = served.connect()
        client.sendall(request)
        found, headers, body = answer(client)
        assert (found, json.loads(body)["code"]) == (status, CODES[status]), request[:100]
        assert headers["content-type"] == "application/problem+json"
        assert headers["connection"] == "close"
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert b"waitress" not in body.lower()
        assert ended(client)


def test_a_chunked_body_is_refused_for_its_coding_and_its_size(served: Served) -> None:
    piece = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    for chunks, refusal in (
        (b"2\n\r\n{}\r\n0\r\n\r\n", (400, "bad_request")),
        (b"2\r\n{}\r\n0\r\nbad trailer\r\n\r\n", (400, "bad_request")),
        (piece + b"2\r\n{}\r\n0\r\n\r\n", (413, "too_large")),
        (piece * 100, (413, "too_large")),
    ):
        client = served.send("POST /x HTTP/1.1", JSON, CHUNKED, body=chunks)
        assert problem(client) == refusal, chunks[:20]
        assert ended(client)


def test_a_refusal_does_not_wait_for_the_body(served: Served) -> None:
    client = served.send("POST /x HTTP/1.1", "Content-Type: text/plain", "Content-Length: 60000")
    status, headers, body = answer(client)
    assert (status, json.loads(body)["code"], headers["connection"]) == (415, "unsupported_media_type", "close")
    client = served.connect()
    upload = f"{PNG}\r\nContent-Length: 300000\r\nExpect: 100-continue"
    client.sendall(f"POST /api/evidence HTTP/1.1\r\nHost: evil.example\r\n{upload}\r\n\r\n".encode())
    assert problem(client) == (421, "wrong_host"), "and the body is not asked for"
    client = served.send("HEAD /x HTTP/1.1", JSON, "Content-Length: 999999")
    received = b"".join(iter(lambda: client.recv(65536), b""))
    assert received.startswith(b"HTTP/1.1 413")
    assert received.endswith(b"\r\n\r\n"), "a HEAD request gets no body"


# -- clients that write everything before they read --------------------------------------------------------------------


def test_a_body_that_is_too_large_gets_its_answer(served: Served) -> None:
    for body in (b" " * (JSON_LIMIT + 1), b" " * 20_000_000, [b" " * 100_000] * 50):
        for _ in range(3):
            connection = http.client.HTTPConnection("127.0.0.1", served.listener.port, timeout=WAIT)
            with contextlib.closing(connection):
                is_chunked = isinstance(body, list)
                headers = {"Content-Type": "application/json"}
                connection.request("POST", "/x", body, headers, encode_chunked=is_chunked)
                assert connection.getresponse().status == 413


def test_after_a_refusal_the_rest_is_read_up_to_a_size(serve: Callable[..., Served], app: App) -> None:
    refused = ("POST /x HTTP/1.1", JSON, "Content-Length: 999999999")
    served = serve(app, linger_bytes=1_000_000)
    for transport in ("tcp", "unix"):
        client = served.send(*refused, transport=transport)
        assert answer(client)[0] == 413
        with pytest.raises(ConnectionError):
            client.sendall(b" " * 100_000_000)


# -- many bodies at once -----------------------------------------------------------------------------------------------


def test_every_body_returns_its_space_to_the_budget(serve: Callable[..., Served], app: App) -> None:
    """After uploads that were complete or cut off, one more is accepted."""
    served = serve(app, bodies_bytes=1)  # room for one picture
    upload = ("POST /api/evidence HTTP/1.1", PNG, "Content-Length: 300000")
    held = [served.send(*upload, body=b"x" * 299_999) for _ in range(2)]
    (refused,) = until(lambda: select.select(held, [], [], 0)[0], WAIT)
    status, headers, _ = answer(refused)
    assert (status, headers["retry-after"]) == (503, "1")
    for client in held:
        client.close()
    for size in (200_000, 100_000, 300_000):
        until(lambda: answer(served.send(*upload, body=b"x" * 300_000))[0] == 200, WAIT)
        served.send(*upload, body=b"x" * size).close()
    until(lambda: answer(served.send(*upload, body=b"x" * 300_000))[0] == 200, WAIT)


# -- slow and rude clients -------------------------------------------------------------------------------------------


def test_requests_that_never_end_hold_no_worker(served: Served) -> None:
    for number in range(2 * Limits().workers):
        transport = "tcp" if number % 2 else "unix"
        served.send("POST /x HTTP/1.1", JSON, "Content-Length: 9", body=b"{", transport=transport)
    assert served.status() == 200


def test_sixteen_waiting_requests_leave_room_for_sixteen_clients(served: Served, app: App) -> None:
    for _ in range(16):
        app.waits_for(served.send("GET /wait HTTP/1.1", transport="unix"))
    others = [served.send("GET /x HTTP/1.1") for _ in range(16)]
    assert [answer(other)[0] for other in others] == [200] * 16


def test_a_request_that_arrives_too_slowly_is_cut_off(serve: Callable[..., Served], app: App) -> None:
    served = serve(app, arrival=0.2)
    client = served.connect()
    client.sendall(b"GET / HTTP/1.1\r\nHost:")
    assert ended(client)
    assert served.status() == 200


def test_a_connection_with_a_running_request_is_not_idle(serve: Callable[..., Served], app: App) -> None:
    served = serve(app, idle=0.2)
    waiting = app.waits_for(served.send("GET /wait HTTP/1.1"))
    for _ in range(2):
        assert ended(served.connect()), "another connection is idle, and then one more"
    app.release.set()
    assert answer(waiting)[0] == 200
    assert ended(waiting), "but the connection is idle afterwards"


def test_a_client_that_leaves_ends_its_stream_and_affects_no_other(served: Served, app: App) -> None:
    with served.send("GET /big HTTP/1.1") as client:
        assert client.recv(100)
    assert app.closed.wait(WAIT)
    app.waits_for(served.send("GET /wait HTTP/1.1")).close()
    app.release.set()
    assert served.status() == 200


# -- start and stop ---------------------------------------------------------------------------------------------------


def test_nothing_is_left_after_a_stop(settings: Settings, app: App) -> None:
    Listener(settings, app).stop()  # one that never started
    before = counts()[0]
    served = Served(settings, app)
    found = settings.api_socket.lstat()
    assert (stat.S_ISSOCK(found.st_mode), stat.S_IMODE(found.st_mode)) == (True, 0o600)
    half, idle = served.connect("unix"), served.connect()
    half.sendall(b"GET / HT")
    idle.sendall(served.head("GET /x HTTP/1.1"))
    assert answer(idle)[0] == 200
    served.listener.stop()
    assert ended(idle)
    assert ended(half)
    served.close()
    assert not settings.api_socket.exists()
    assert [each.name for each in threading.enumerate() if each.name.startswith("api-")] == []
    assert counts()[0] == before


def refuses_connections(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=WAIT).close()
    except ConnectionError:  # refused, or reset if it was still in the queue
        return True
    return False


def test_a_stop_waits_until_running_requests_have_their_responses(served: Served, app: App) -> None:
    small = app.waits_for(served.send("GET /wait HTTP/1.1"))
    large = app.waits_for(served.send("GET /wait-large HTTP/1.1", transport="unix"))
    stopper = threading.Thread(target=served.listener.stop, args=(WAIT,))
    stopper.start()
    until(lambda: refuses_connections(served.listener.port), WAIT)
    app.release.set()
    assert answer(small)[0] == 200
    status, _, body = answer(large)
    stopper.join(WAIT)
    assert (status, len(body), stopper.is_alive()) == (200, LARGE, False)


def test_a_stop_does_not_wait_for_a_request_that_does_not_end(served: Served, app: App) -> None:
    client = app.waits_for(served.send("GET /wait HTTP/1.1"))
    served.listener.stop(timeout=0.2)
    assert ended(client)


def test_a_restarted_service_can_bind_its_port_at_once(
    serve: Callable[..., Served], served: Served, state_dir: Path, app: App
) -> None:
    client = served.send("GET /x HTTP/1.1")
    assert answer(client)[0] == 200
    served.listener.stop()  # the server closes first, so its port stays in TIME_WAIT
    port = served.listener.port
    assert serve(app, make_settings(state_dir, CARD_API_PORT=str(port))).listener.port == port


# -- starts that fail --------------------------------------------------------------------------------------------------


def refused(settings: Settings, app: App, code: str) -> StateError:
    """Start a listener, which must fail with this code and leave nothing behind."""
    before = counts()
    with pytest.raises(StateError) as caught:
        Listener(settings, app).start()
    assert caught.value.code == code
    until(lambda: all(now <= then for now, then in zip(counts(), before, strict=True)), WAIT)
    return caught.value


def test_a_second_instance_and_a_live_socket_are_refused(served: Served, tmp_path: Path, app: App) -> None:
    assert str(os.getpid()) in refused(served.settings, app, "state_in_use").detail
    other = make_settings(tmp_path, CARD_API_SOCKET=str(served.settings.api_socket))
    refused(other, app, "socket_in_use")
    assert served.status(transport="unix") == 200


def test_a_port_in_use_is_named_in_the_error(settings: Settings, state_dir: Path, app: App) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = make_settings(state_dir, CARD_API_PORT=str(other.getsockname()[1]))
        assert "CARD_API_PORT" in refused(taken, app, "address_in_use").detail
    assert not taken.api_socket.exists()
    os.close(private_directories.take_lock(state_dir / "api.lock"))


# -- addresses ---------------------------------------------------------------------------------------------------------


needs_ipv6 = needs(has_ipv6(), IPV6)


def addresses(*arguments: Any) -> list[tuple[str, int]]:
    with contextlib.ExitStack() as stack:
        return [stack.enter_context(each).getsockname()[:2] for each in bind_tcp(*arguments)]


def test_only_loopback_is_bound() -> None:
    for host in ("0.0.0.0", "192.0.2.1", "::"):
        with pytest.raises(UsageError):
            bind_tcp(host, 0)
    assert [host for host, _ in addresses("127.0.0.2", 0)] == ["127.0.0.2"]


@needs_ipv6
def test_both_addresses_of_localhost_are_bound(served: Served, state_dir: Path, tmp_path: Path, app: App) -> None:
    for name in ("127.0.0.1", "localhost"):
        (first, port), second = addresses(name, 0)
        assert (first, second) == ("127.0.0.1", ("::1", port))
    assert [host for host, _ in addresses("::1", 0)] == ["::1"]
    port = served.listener.port
    assert served.listener.addresses == (f"http://127.0.0.1:{port}", f"http://[::1]:{port}")
    with socket.create_connection(("::1", port), timeout=WAIT) as client:
        client.sendall(f"GET /x HTTP/1.1\r\nHost: [::1]:{port}\r\n\r\n".encode())
        assert answer(client)[0] == 200
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as other:
        taken = make_settings(tmp_path, CARD_API_PORT=str(other.getsockname()[1]))
        assert "::1" in refused(taken, app, "address_in_use").detail


@needs_ipv6
def test_a_port_of_the_kernels_choice_is_free_on_ipv4_and_ipv6() -> None:
    tried: list[int] = []

    def taken_once(address: str, port: int) -> socket.socket:
        if address == "::1":
            tried.append(port)
            if len(tried) == 1:
                raise StateError("taken", code="address_in_use")
        return bound(address, port)

    (_, port), (_, port6) = addresses("127.0.0.1", 0, taken_once)
    assert port == port6 == tried[-1]
    assert len(tried) == 2


def test_without_ipv6_only_ipv4_is_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StateError) as absent:
        bound("192.0.2.1", 0)
    assert absent.value.code == "address_absent"

    class OldSocket(socket.socket):
        def __init__(self, family: int, kind: int) -> None:
            if family == socket.AF_INET6:
                raise OSError(errno.EAFNOSUPPORT, os.strerror(errno.EAFNOSUPPORT))
            super().__init__(family, kind)

    monkeypatch.setattr(socket, "socket", OldSocket)
    assert [address for address, _ in addresses("127.0.0.1", 0)] == ["127.0.0.1"]
