"""The listener on real sockets: both transports, slow and rude clients, and a stop that lets running requests end."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import socket
import stat
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cardapp import settings as settings_module
from cardapp.errors import StateError, UsageError
from cardapp.settings import Settings
from cardapp.web import sockets
from cardapp.web.connections import Patience
from cardapp.web.listener import HEADER_BYTES, WORKERS, Listener

pytestmark = pytest.mark.functional

WAIT = 10.0
LONG = 16
"""Requests that wait for a replay while sixteen clients ask for other things."""

LARGE = 12_000_000
"""Bytes; more than the kernel buffers of a socket, less than what waitress holds before it lets the worker wait."""


class App:
    """``/wait`` answers when ``release`` is set, ``/big`` sends many bytes, everything else tells what it got."""

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
            assert self.release.wait(3 * WAIT)  # longer than a client waits for its answer
        if path == "/wait-large":
            start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(LARGE))])
            return [b"x" * LARGE]
        if path == "/big":
            start_response("200 OK", [("Content-Type", "text/plain")])
            return self._stream()
        if path == "/broken":
            raise RuntimeError("the secret inside")
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        told = {"path": path, "length": len(body), "port": environ["SERVER_PORT"]}
        text = json.dumps(told).encode()
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
    """One whole answer: status, headers, body."""
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


def test_a_connection_is_kept(client: socket.socket, listener: Listener) -> None:
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


def test_an_unchanged_answer_keeps_the_connection(client: socket.socket, listener: Listener) -> None:
    for _ in range(2):
        client.sendall(head(listener, "GET /same HTTP/1.1"))
        status, headers, body = answer(client)
        assert (status, body) == (304, b"")
        assert "connection" not in headers
    client.sendall(head(listener, "GET /same HTTP/1.1", "Connection: close"))
    assert answer(client)[1]["connection"] == "close"
    assert ended(client)


def test_http_1_0_closes(client: socket.socket, listener: Listener) -> None:
    client.sendall(head(listener, "GET /x HTTP/1.0"))
    assert answer(client)[0] == 200
    assert ended(client)


def test_a_body_comes_in_pieces_and_in_chunks(client: socket.socket, listener: Listener) -> None:
    json_body = "Content-Type: application/json"
    client.sendall(head(listener, "POST /x HTTP/1.1", json_body, "Content-Length: 6"))
    for byte in b"{    }":
        client.sendall(bytes([byte]))
    assert json.loads(answer(client)[2])["length"] == 6
    client.sendall(head(listener, "POST /x HTTP/1.1", json_body, "Transfer-Encoding: chunked"))
    client.sendall(b"1\r\n{\r\n1\r\n}\r\n0\r\n\r\n")
    assert json.loads(answer(client)[2])["length"] == 2


def test_a_client_may_ask_before_it_sends(client: socket.socket, listener: Listener) -> None:
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


def test_the_gate_stands_before_both(listener: Listener, settings: Settings) -> None:
    request = b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n"
    with connect(listener, settings, "tcp") as tcp, connect(listener, settings, "unix") as unix:
        tcp.sendall(request)
        assert (answer(tcp)[0]) == 421
        unix.sendall(request)
        assert (answer(unix)[0]) == 200


# -- what waitress itself refuses --------------------------------------------------------------------------------------


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
        (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n", 400, "bad_request"),
        (b"POST / HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, "bad_request"),
        (b"GET / HTTP/1.1\r\nHost: x\r\nLong: " + b"x" * HEADER_BYTES + b"\r\n\r\n", 431, "headers_too_large"),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 400000\r\n\r\n", 413, "too_large"),
    ],
)  # fmt: skip
def test_what_is_no_sound_http_is_a_problem(
    client: socket.socket, request_bytes: bytes, status: int, code_: str
) -> None:
    client.sendall(request_bytes)
    found, headers, body = answer(client)
    assert (found, code(body)) == (status, code_)
    assert headers["content-type"] == "application/problem+json"
    assert headers["connection"] == "close"
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert b"waitress" not in body.lower()
    assert ended(client)


def test_a_chunked_body_has_the_same_limits(client: socket.socket, listener: Listener) -> None:
    json_body = ("Content-Type: application/json", "Transfer-Encoding: chunked")
    piece = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    client.sendall(head(listener, "POST /x HTTP/1.1", *json_body) + piece + b"2\r\n{}\r\n0\r\n\r\n")
    status, _, body = answer(client)
    assert (status, code(body)) == (413, "too_large")
    client.sendall(head(listener, "POST /x HTTP/1.1", *json_body))
    with contextlib.suppress(ConnectionError):
        for _ in range(20):
            client.sendall(piece)
    status, _, body = answer(client)
    assert (status, code(body)) == (413, "too_large")


def test_a_defect_tells_nothing(client: socket.socket, listener: Listener) -> None:
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


def test_a_request_that_drips_is_cut_off(settings: Settings, app: App) -> None:
    listener = Listener(settings, app, patience=Patience(arrival=0.2))
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


def test_a_client_that_leaves_ends_its_stream(client: socket.socket, listener: Listener, app: App) -> None:
    client.sendall(head(listener, "GET /big HTTP/1.1"))
    assert client.recv(100)
    client.close()
    assert app.closed.wait(WAIT)


def test_a_client_that_leaves_before_its_answer_hurts_nobody(
    client: socket.socket, listener: Listener, settings: Settings, app: App
) -> None:
    client.sendall(head(listener, "GET /wait HTTP/1.1"))
    assert app.waiting.acquire(timeout=WAIT)
    client.close()
    app.release.set()
    with connect(listener, settings, "tcp") as other:
        other.sendall(head(listener, "GET /x HTTP/1.1"))
        assert answer(other)[0] == 200


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
    with pytest.raises(ConnectionError):  # refused, or reset when it still stood in the queue
        connect_until_refused(listener.port)
    app.release.set()
    assert answer(client)[0] == 200
    stopper.join(WAIT)
    assert not stopper.is_alive()


def test_an_answer_is_sent_whole_before_the_stop(listener: Listener, client: socket.socket, app: App) -> None:
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


def test_a_request_that_does_not_end_is_left_behind(settings: Settings, app: App) -> None:
    listener = Listener(settings, app)
    listener.start()
    with connect(listener, settings, "tcp") as client:
        client.sendall(head(listener, "GET /wait HTTP/1.1"))
        assert app.waiting.acquire(timeout=WAIT)
        listener.stop(timeout=0.2)
        assert ended(client)
    app.release.set()


def test_the_port_is_had_again_at_once(settings: Settings, state_dir: Path, app: App) -> None:
    first = Listener(settings, app)
    first.start()
    with connect(first, settings, "tcp") as client:
        client.sendall(head(first, "GET /x HTTP/1.1"))
        assert answer(client)[0] == 200
        first.stop()  # we close first, so the port is left in TIME_WAIT
        second = Listener(make_settings(state_dir, CARD_API_PORT=str(first.port)), app)
        second.start()
        second.stop()
    assert second.port == first.port


def test_the_socket_is_private(listener: Listener, settings: Settings) -> None:
    found = settings.api_socket.lstat()
    assert stat.S_ISSOCK(found.st_mode)
    assert stat.S_IMODE(found.st_mode) == 0o600
    assert stat.S_IMODE(settings.state_dir.stat().st_mode) == 0o700


# -- what is in the way -----------------------------------------------------------------------------------------------


def refused(settings: Settings, app: App, code: str) -> StateError:
    """A start that must fail with this code and leave nothing behind."""
    before = descriptors()
    with pytest.raises(StateError) as caught:
        Listener(settings, app).start()
    assert caught.value.code == code
    assert descriptors() == before
    assert threads() == set()
    return caught.value


def test_one_instance_per_state_directory(listener: Listener, settings: Settings, app: App) -> None:
    with pytest.raises(StateError) as caught:
        Listener(settings, app).start()
    assert caught.value.code == "state_in_use"
    assert str(os.getpid()) in caught.value.detail
    assert settings.api_socket.exists()


def test_a_port_that_is_taken_is_named(settings: Settings, state_dir: Path, app: App) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = make_settings(state_dir, CARD_API_PORT=str(other.getsockname()[1]))
        error = refused(taken, app, "address_in_use")
        assert "CARD_API_PORT" in error.detail
    assert not taken.api_socket.exists()
    lock = sockets.take_lock(state_dir / "api.lock")
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
def test_anything_else_in_the_sockets_place_is_left_alone(
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


def test_another_socket_in_our_place_is_not_removed(settings: Settings, app: App) -> None:
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
            sockets.bind_tcp(host, 0)
    for host in ("127.0.0.1", "localhost"):
        sockets.bind_tcp(host, 0).close()
