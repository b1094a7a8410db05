"""Clients that hold connections, send or read slowly, close one side, never read, or ask for unknown protocols.

Other clients are served quickly on both transports, and no threads or descriptors remain.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from waitress import channel as waitress_channel
from waitress import server as waitress_server
from waitress.adjustments import Adjustments

from cardapp import settings as settings_module
from cardapp.settings import Settings
from cardapp.web import listener as listener_module
from cardapp.web import schemas
from cardapp.web.listener import WORKERS, Listener
from cardapp.web.waitress_adapter import Limits
from tests.functional.serving import Api, make_card, until
from tests.functional.test_crash import Server

pytestmark = pytest.mark.functional

WAIT = 10.0
QUICK = 1.0
"""Every other client is served within this number of seconds, on a busy machine too."""

PIECE = b"x" * 1_000_000


class App:
    """Serves a quick page, a large response, and an endless one, behind the real gate."""

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        start_response("200 OK", [("Content-Type", "text/plain")])
        path = environ["PATH_INFO"]
        if path == "/endless":
            return self._endless()
        return [PIECE] * 8 if path == "/large" else [b"here"]

    @staticmethod
    def _endless() -> Iterator[bytes]:
        while True:
            yield PIECE


class Served:
    """A listener and its clients. ``close`` closes all of them."""

    def __init__(self, state_dir: Path, **limits: Any) -> None:
        names = {"CARD_STATE_DIR": str(state_dir), "CARD_API_PORT": "0"}
        self.settings: Settings = settings_module.load(names)
        self.listener = Listener(self.settings, App(), Limits(**({"unread_bytes": 1 << 24} | limits)))
        self.listener.start()
        self._clients = contextlib.ExitStack()

    def connect(self, transport: str) -> socket.socket:
        client = socket.socket(socket.AF_INET if transport == "tcp" else socket.AF_UNIX)
        self._clients.enter_context(client)
        client.settimeout(WAIT)
        client.connect(("127.0.0.1", self.listener.port) if transport == "tcp" else str(self.settings.api_socket))
        return client

    def head(self, line: str, *headers: str) -> bytes:
        return "\r\n".join([line, f"Host: 127.0.0.1:{self.listener.port}", *headers, "", ""]).encode()

    def rude(self, transport: str, line: str, *headers: str) -> socket.socket:
        """A client that sends this head and does nothing more."""
        client = self.connect(transport)
        client.sendall(self.head(line, *headers))
        return client

    def seconds(self) -> float:
        """The seconds until a new client is served, on the slower transport."""
        found = []
        for transport in ("tcp", "unix"):
            began = time.monotonic()
            client = self.rude(transport, "GET / HTTP/1.1", "Connection: close")
            assert status(client) == 200
            found.append(time.monotonic() - began)
        return max(found)

    def leave(self) -> None:
        """Close every client."""
        self._clients.close()

    def close(self) -> None:
        self.leave()
        self.listener.stop()


@pytest.fixture
def serve(state_dir: Path) -> Iterator[Callable[..., Served]]:
    started: list[Served] = []

    def start(**options: Any) -> Served:
        started.append(Served(state_dir, **options))
        return started[-1]

    yield start
    for served in started:
        served.close()


@pytest.fixture
def served(serve: Callable[..., Served]) -> Served:
    return serve()


def status(client: socket.socket) -> int:
    """Read one response and return its status. A problem must match its schema."""
    response = http.client.HTTPResponse(client)
    response.begin()
    body = response.read()
    if response.headers.get_content_type() == "application/problem+json":
        assert schemas.faults("Problem", json.loads(body)) == ()
    return response.status


def ended(client: socket.socket) -> bool:
    """Read until the end of the connection. Returns False if the server does not close it in time."""
    try:
        while client.recv(1 << 20):
            pass
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False
    return True


def counts() -> tuple[int, int]:
    """The numbers of open descriptors and of threads in this process."""
    return len(os.listdir("/proc/self/fd")), threading.active_count()


BOTH = pytest.mark.parametrize("transport", ["tcp", pytest.param("unix", marks=pytest.mark.full)])


@BOTH
def test_a_thousand_open_connections_refuse_no_client(served: Served, transport: str) -> None:
    before = counts()
    held = [served.connect(transport) for _ in range(1000)]
    for number, client in enumerate(held):
        if number % 2:
            client.sendall(b"GET / HTTP/1.1\r\nHo")
    assert served.seconds() < QUICK
    held[0].sendall(served.head("GET / HTTP/1.1"))
    assert status(held[0]) == 200, "a client that only waited is served too"
    served.leave()
    until(lambda: counts()[0] <= before[0] and counts()[1] == before[1])


def test_above_the_limit_the_longest_idle_connection_is_closed(serve: Callable[..., Served]) -> None:
    served = serve(connections=50)
    first = served.connect("tcp")
    busy = served.rude("unix", "GET /endless HTTP/1.1")
    assert busy.recv(10)
    held = [served.connect("tcp") for _ in range(100)]
    assert served.seconds() < QUICK
    assert ended(first)
    assert busy.recv(10), "a connection with a running request is kept"
    held[-1].sendall(served.head("GET / HTTP/1.1"))
    assert status(held[-1]) == 200


def test_a_low_descriptor_limit_refuses_no_client(card_environment: dict[str, str], state_dir: Path) -> None:
    """There are more connections than the hard limit allows. The service itself raises the soft limit to the hard
    limit."""
    limited = ["sh", "-c", 'ulimit -n 600 && ulimit -S -n 300 && exec "$@"', "sh"]
    own = {"CARD_SOURCE": str(make_card(state_dir / "card")), "CARD_STATE_DIR": str(state_dir / "state")}
    with (state_dir / "log").open("w") as log:
        server = Server(card_environment | own, inside=limited, log=log)
    port = int(server.address.rpartition(":")[2])
    try:
        with contextlib.ExitStack() as held:
            for _ in range(1000):
                held.enter_context(socket.create_connection(("127.0.0.1", port), timeout=WAIT))
            for path in ("/api/state", "/api/events", "/api/identity"):
                began = time.monotonic()
                assert Api.tcp(port).request("GET", path).status == 200
                assert time.monotonic() - began < 2 * QUICK
            assert len(os.listdir(f"/proc/{server.process.pid}/fd")) < 450
    finally:
        server.kill()
    assert [line for line in (state_dir / "log").read_text().splitlines() if "started as root" not in line] == []


@BOTH
def test_clients_that_never_read_free_their_workers(serve: Callable[..., Served], transport: str) -> None:
    served = serve(unread_bytes=1 << 20, idle=0.5)
    before = counts()
    for _ in range(WORKERS + 8):
        served.rude(transport, "GET /endless HTTP/1.1")
    assert served.seconds() < WAIT
    served.leave()
    until(lambda: counts() == before)


RATE = 1 << 20
"""Bytes per second that a slow client reads."""


@contextlib.contextmanager
def slowly(clients: list[socket.socket]) -> Iterator[list[socket.socket]]:
    """Let the clients read at ``RATE`` during the block. Yields the list of those that the server has closed."""
    ended: list[socket.socket] = []
    left = threading.Event()
    for client in clients:
        client.setblocking(False)

    def read() -> None:
        began, taken, reading = time.monotonic(), 0, list(clients)
        while not left.wait(0.01):
            due = int((time.monotonic() - began) * RATE) - taken
            taken += due
            for client in list(reading):
                if is_closed(client, due):
                    reading.remove(client)
                    ended.append(client)

    thread = threading.Thread(target=read)
    thread.start()
    try:
        yield ended
    finally:
        left.set()
        thread.join()


def is_closed(client: socket.socket, size: int) -> bool:
    """Read up to ``size`` bytes that have arrived. Returns whether the connection is closed."""
    try:
        while size > 0:
            data = client.recv(size)
            if not data:
                return True
            size -= len(data)
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True
    return False


SHALLOW = 1 << 18
"""Unread bytes above which a worker waits for a client in these tests."""


@pytest.fixture
def shallow(monkeypatch: pytest.MonkeyPatch) -> None:
    """A listener of few workers, with small kernel buffers."""
    monkeypatch.setattr(listener_module, "WORKERS", 4)
    monkeypatch.setattr(Adjustments, "socket_options", [(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 16)])


@BOTH
@pytest.mark.usefixtures("shallow")
def test_clients_that_read_too_slowly_free_their_workers(serve: Callable[..., Served], transport: str) -> None:
    served = serve(unread_bytes=SHALLOW, response=0.5)
    drippers = [served.rude(transport, "GET /endless HTTP/1.1") for _ in range(6)]
    with slowly(drippers) as ended:
        assert served.seconds() < 5 * QUICK
        until(lambda: len(ended) >= 2)


@pytest.mark.full
@BOTH
@pytest.mark.usefixtures("shallow")
def test_clients_of_a_slow_line_keep_their_workers(serve: Callable[..., Served], transport: str) -> None:
    served = serve(unread_bytes=SHALLOW, idle=0.5)
    slow = [served.rude(transport, "GET /endless HTTP/1.1") for _ in range(4)]
    assert all(client.recv(10) for client in slow)
    with slowly(slow) as ended:
        waiting = served.rude(transport, "GET /api/health HTTP/1.1", "Connection: close")
        waiting.settimeout(1.5)
        with pytest.raises(TimeoutError):
            waiting.recv(1)
        assert ended == []


@BOTH
@pytest.mark.usefixtures("shallow")
def test_a_large_response_that_is_not_read_occupies_no_worker(serve: Callable[..., Served], transport: str) -> None:
    served = serve()
    slow = [served.rude(transport, "GET /large HTTP/1.1") for _ in range(8)]
    assert served.seconds() < 2 * QUICK
    response = http.client.HTTPResponse(slow[0])
    response.begin()
    assert len(response.read()) == 8 * len(PIECE), "a client that reads later gets all of it"


def test_clients_that_do_not_read_leave_half_of_the_workers_free() -> None:
    assert Limits().total_unread_bytes <= Limits().unread_bytes * WORKERS // 2


@BOTH
@pytest.mark.usefixtures("shallow")
def test_above_the_total_of_unread_bytes_the_largest_responses_are_cut(
    serve: Callable[..., Served], transport: str
) -> None:
    served = serve(unread_bytes=1 << 40, total_unread_bytes=64 * len(PIECE))
    slow = served.rude(transport, "GET /large HTTP/1.1")
    assert slow.recv(10)
    endless = [served.rude(transport, "GET /endless HTTP/1.1") for _ in range(8)]
    assert served.seconds() < 5 * QUICK, "no worker is left with a client that does not read"
    assert all(ended(client) for client in endless)
    size = 10
    while size < 8 * len(PIECE) and (data := slow.recv(1 << 20)):
        size += len(data)
    assert size >= 8 * len(PIECE), "the smaller response is kept"


@BOTH
def test_a_request_received_byte_by_byte_is_answered(served: Served, transport: str) -> None:
    client = served.connect(transport)
    for byte in served.head("POST / HTTP/1.1", "Content-Type: application/json", "Content-Length: 2") + b"{}":
        client.send(bytes([byte]))
    assert status(client) == 200


@BOTH
def test_half_closed_and_reset_connections_are_released(served: Served, transport: str) -> None:
    before = counts()
    for data in (b"", b"GET / HT", served.head("POST / HTTP/1.1", "Content-Length: 9") + b"{"):
        half, reset = served.connect(transport), served.connect(transport)
        for client in (half, reset):
            client.sendall(data)
        half.shutdown(socket.SHUT_WR)
        assert ended(half)
        reset.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        reset.close()
    asked = served.rude(transport, "GET / HTTP/1.1")
    assert status(asked) == 200, "the connection must be accepted before it is half closed"
    asked.sendall(served.head("GET / HTTP/1.1"))
    asked.shutdown(socket.SHUT_WR)
    assert status(asked) == 200
    assert served.seconds() < QUICK
    served.leave()
    until(lambda: counts() == before)


WEBSOCKET = ("Connection: Upgrade", "Upgrade: websocket")
UPGRADES = {
    "no key": (*WEBSOCKET, "Sec-WebSocket-Version: 13"),
    "no version": (*WEBSOCKET, "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="),
    "a bad key": (*WEBSOCKET, "Sec-WebSocket-Key: x", "Sec-WebSocket-Version: 13"),
    "an old version": (*WEBSOCKET, "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version: 8"),
    "no Connection": ("Upgrade: websocket",),
    "another protocol": ("Connection: Upgrade", "Upgrade: h2c", "HTTP2-Settings: AAMAAABk"),
    "many": ("Connection: Upgrade", f"Upgrade: {', '.join(['websocket'] * 200)}"),
    "nothing": ("Connection: Upgrade", "Upgrade:"),
    "a body": (*WEBSOCKET, "Content-Length: 3"),
}


@BOTH
@pytest.mark.parametrize("name", UPGRADES)
@pytest.mark.parametrize("path", ["/", "/api/editor-ui", "/api/live"])
def test_an_upgrade_without_a_handshake_is_an_ordinary_request(
    served: Served, transport: str, name: str, path: str
) -> None:
    origin = f"Origin: http://127.0.0.1:{served.listener.port}"
    client = served.rude(transport, f"GET {path} HTTP/1.1", origin, *UPGRADES[name])
    client.sendall(b"{ }" if name == "a body" else b"")
    assert status(client) in {200, 400, 404, 415, 426}
    assert served.seconds() < QUICK


@pytest.fixture
def wall(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A list with one number: the seconds by which waitress' wall clock is wrong."""
    shift = [0.0]

    class Clock:
        @staticmethod
        def time() -> float:
            return time.time() + shift[0]

    monkeypatch.setattr(waitress_channel, "time", Clock)
    monkeypatch.setattr(waitress_server, "time", Clock)
    return shift


@pytest.mark.full
@pytest.mark.parametrize("jump", [-86_400.0, 86_400.0])
def test_a_jump_of_the_wall_clock_does_not_change_the_idle_timeout(
    serve: Callable[..., Served], wall: list[float], jump: float
) -> None:
    served = serve(idle=1.5)
    client = served.rude("tcp", "GET / HTTP/1.1")
    assert status(client) == 200
    wall[0] = jump
    assert served.seconds() < QUICK
    client.sendall(served.head("GET / HTTP/1.1"))
    assert status(client) == 200, "an idle connection outlives the jump"
    assert ended(client), "and ends after its timeout"


def test_a_stop_does_not_wait_for_the_wall_clock(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    assert served.rude("tcp", "GET /endless HTTP/1.1").recv(10)
    ticks = iter(range(2_000_000_000, 0, -1))
    monkeypatch.setattr("waitress.task.time.time", lambda: float(next(ticks)))
    began = time.monotonic()
    served.listener.stop(0.3)
    assert time.monotonic() - began < WAIT


def test_random_bytes_are_answered_or_the_connection_ends(served: Served, loops: Callable[..., int]) -> None:
    sound = [
        served.head("POST / HTTP/1.1", "Content-Type: application/json", "Content-Length: 2") + b"{}",
        served.head("POST / HTTP/1.1", "Content-Type: application/json", "Transfer-Encoding: chunked")
        + b"2\r\n{}\r\n0\r\n\r\n",
        served.head("GET http://localhost/%ff?a=%00 HTTP/1.1", "Expect: 100-continue", "Cookie: a=b"),
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ]
    cuts = st.tuples(st.sampled_from(sound), st.integers(0, 150), st.integers(0, 20), st.binary(max_size=12))

    @settings(max_examples=loops(quick=150, full=10_000), deadline=None)
    @given(st.lists(cuts, min_size=1, max_size=2), st.sampled_from(["tcp", "unix"]))
    def check(drawn: list[tuple[bytes, int, int, bytes]], transport: str) -> None:
        with contextlib.closing(served.connect(transport)) as client:
            with contextlib.suppress(OSError):  # the server may close the connection before it has read everything
                for request, place, length, inserted in drawn:
                    client.sendall(request[:place] + inserted + request[place + length :])
                client.shutdown(socket.SHUT_WR)
            answered = bytearray()
            with contextlib.suppress(ConnectionResetError):
                while data := client.recv(65536):
                    answered += data
        found = {int(code) for code in re.findall(rb"(?m)^HTTP/1\.[01] ([0-9]+) ", answered)}
        assert found <= {100, 200, 400, 403, 404, 413, 415, 421, 422, 431, 501}

    check()
    assert served.seconds() < QUICK
