"""WebSockets through the frontend to a scripted API: bytes in both directions, limits, and the end of a tunnel."""

from __future__ import annotations

import math
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress

import pytest

from marketdata.frontend import tunnels
from tests.functional.serving import until
from tests.marketdata.frontend.conftest import ORIGIN, TOKEN, Frontend, basic
from tests.marketdata.frontend.scripted_api import Received, ScriptedApi, answered

SWITCHED = answered(
    "101 Switching Protocols", "Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Accept: x",
    "X-Request-Id: of-the-api",
)  # fmt: skip


def opened(
    port: int,
    authorization: str | None = None,
    path: str = "/api/v1/live",
    receive_buffer: int | None = None,
    host: str = "a",
) -> tuple[socket.socket, bytes]:
    """A connection and the head of the response to its handshake."""
    client = socket.socket()
    client.settimeout(20)
    if receive_buffer is not None:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    client.connect(("127.0.0.1", port))
    client.sendall(
        f"GET {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: {authorization or basic()}\r\nOrigin: {ORIGIN}\r\n"
        "Connection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\nSec-WebSocket-Key: eHh4\r\n"
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: marketdata-live.v1\r\n\r\n".encode()
    )
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += client.recv(1)
    return client, head


def keep_open(found: list[socket.socket], answer: bytes) -> Callable[[Received, socket.socket], None]:
    """A script that answers, and keeps the connection in ``found``. It is closed when ``found`` is empty."""

    def script(_request: Received, connection: socket.socket) -> None:
        connection.settimeout(20)
        found.append(connection)  # before the client gets the response
        connection.sendall(answer)
        until(lambda: connection not in found, 120)

    return script


@pytest.fixture
def peers(upstream: ScriptedApi) -> Iterator[list[socket.socket]]:
    """The API's sockets of the tunnels, in the order of their opening. They stay open until the test ends."""
    found: list[socket.socket] = []
    upstream.script = keep_open(found, SWITCHED + b"early")
    yield found
    found.clear()


def received(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = connection.recv(min(65536, size - len(data)))
        assert part, "closed"
        data += part
    return data


def test_bytes_go_both_ways(frontend: Frontend, upstream: ScriptedApi, peers: list[socket.socket]) -> None:
    client, head = opened(frontend.port)
    with closing(client):
        assert head.startswith(b"HTTP/1.1 101 Switching Protocols\r\n")
        assert b"Sec-WebSocket-Accept: x\r\n" in head
        assert received(client, 5) == b"early"
        (request,) = upstream.received
        assert request.line == "GET /v1/live HTTP/1.1"
        assert request.all("authorization") == [f"Bearer {TOKEN}"]
        assert (request.all("connection"), request.all("upgrade")) == (["Upgrade"], ["websocket"])
        assert request.all("sec-websocket-protocol") == ["marketdata-live.v1"]
        assert TOKEN.encode() not in head
        data = bytes(range(256)) * 20_000
        for source, target in ((client, peers[0]), (peers[0], client)):
            writing = threading.Thread(target=source.sendall, args=(data,))
            writing.start()
            assert received(target, len(data)) == data
            writing.join()


@pytest.mark.parametrize("closes", ["client", "api"])
def test_the_end_of_one_side_ends_the_other(frontend: Frontend, peers: list[socket.socket], closes: str) -> None:
    client, _ = opened(frontend.port)
    with closing(client):
        received(client, 5)
        first, other = (client, peers[0]) if closes == "client" else (peers[0], client)
        first.sendall(b"last words")
        first.shutdown(socket.SHUT_RDWR)
        assert received(other, 10) == b"last words"
        assert other.recv(1) == b""
        until(lambda: len(frontend.service.tunnels) == 0)


def test_a_refused_handshake_is_passed_on(frontend: Frontend, upstream: ScriptedApi) -> None:
    upstream.script = lambda _request, _connection: answered("426 Upgrade Required", "Content-Length: 2", body=b"no")
    client, head = opened(frontend.port)
    with closing(client):
        assert head.startswith(b"HTTP/1.1 426 ")
        assert received(client, 2) == b"no"
    assert len(frontend.service.tunnels) == 0


def test_origin_and_login_are_checked_before_a_tunnel(frontend: Frontend, upstream: ScriptedApi) -> None:
    for authorization, path, status in (
        (basic("alice", "wrong"), "/api/v1/live", 401),
        (None, "/api/v1/../metrics", 400),
        (None, "/api/metrics", 404),
        (None, "/whoami", 200),
    ):
        client, head = opened(frontend.port, authorization, path)
        client.close()
        assert head.startswith(b"HTTP/1.1 %d " % status), path
    assert upstream.received == []


def test_removing_a_user_closes_their_tunnels(
    frontend_with: Callable[..., Frontend], peers: list[socket.socket]
) -> None:
    frontend = frontend_with(times={"sweep": 0.05})
    client, _ = opened(frontend.port)
    with closing(client):
        received(client, 5)
        [tunnel] = frontend.service.tunnels.open()
        assert tunnel.ends_at == math.inf
        frontend.set_users(bob="the password of bob")
        assert client.recv(1) == b""  # the socket's timeout is 20 s


def test_an_idle_tunnel_is_closed(frontend_with: Callable[..., Frontend], peers: list[socket.socket]) -> None:
    frontend = frontend_with(times={"idle": 0.1, "sweep": 0.05})
    client, _ = opened(frontend.port)
    with closing(client):
        received(client, 5)
        assert client.recv(1) == b""


def test_tunnels_above_the_maximum_are_refused(
    frontend_with: Callable[..., Frontend], peers: list[socket.socket]
) -> None:
    frontend = frontend_with(max_tunnels=2)
    clients = [opened(frontend.port) for _ in range(3)]
    assert [head.split()[1] for _, head in clients] == [b"101", b"101", b"503"]
    for client, _ in clients:
        client.close()
    until(lambda: len(frontend.service.tunnels) == 0)


def takes(peer: socket.socket) -> int:
    """The number of bytes that can be sent until the frontend accepts no more for a while."""
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65536)  # as the API does
    peer.settimeout(0.05)
    sent = 0
    with suppress(TimeoutError):
        while True:
            sent += peer.send(b"x" * 4096)
    return sent


@pytest.fixture
def many(frontend: Frontend, peers: list[socket.socket]) -> Iterator[list[socket.socket]]:
    clients = [opened(frontend.port, receive_buffer=4096)[0] for _ in range(40)]
    yield clients
    for client in clients:
        client.close()
    until(lambda: len(frontend.service.tunnels) == 0, seconds=60)


def test_slow_clients_use_little_memory_and_delay_nobody(
    frontend: Frontend, peers: list[socket.socket], many: list[socket.socket]
) -> None:
    """Half of the clients read nothing. The frontend's buffer for each is bounded, and the others get their data."""
    until(lambda: len(peers) == len(many))
    part = b"x" * 65536
    slow, quick = many[::2], many[1::2]
    for client in many:
        received(client, 5)
    by_port = {}
    for number, peer in enumerate(peers):
        peer.sendall(b"%8d" % number)
    for client in many:
        by_port[client] = peers[int(received(client, 8))]
    for client in slow:
        assert takes(by_port[client]) < 1024 * 1024  # the buffers of the kernel and the frontend
    held = [len(side.unwritten) for tunnel in frontend.service.tunnels.open() for side in tunnel.sides]
    assert max(held) <= tunnels.BUFFER_BYTES
    for client in quick:
        by_port[client].sendall(part)
    for client in quick:
        assert received(client, len(part)) == part


# -- the lifetime -----------------------------------------------------------------------------------------------------

TEXT = b"\x81\x05hello"
CLOSE = b"\x88\x0f\x0f\xa0connect again"


Start = Callable[..., tuple[Frontend, socket.socket, socket.socket]]


@pytest.fixture
def short(frontend_with: Callable[..., Frontend], upstream: ScriptedApi, peers: list[socket.socket]) -> Start:
    """A frontend without a login whose tunnels live for half a second; a client and the API's side of its tunnel. The
    API sends ``early`` with its response."""

    def start(early: bytes, closing: float = 30.0) -> tuple[Frontend, socket.socket, socket.socket]:
        upstream.script = keep_open(peers, SWITCHED + early)
        times = {"tunnel": 0.5, "sweep": 0.05, "closing": closing}
        frontend = frontend_with(BASIC_AUTH_MODE="off", times=times)
        client, head = opened(frontend.port, host="127.0.0.1")
        assert head.startswith(b"HTTP/1.1 101 ")
        return frontend, client, peers[0]

    return start


def test_without_a_login_a_websocket_is_closed_after_its_lifetime(short: Start) -> None:
    """The frontend sends a Close frame with a code after a complete frame. Then the client closes, and the frontend
    closes both connections."""
    frontend, client, peer = short(TEXT)
    with closing(client):
        peer.sendall(TEXT)
        assert received(client, 14 + len(CLOSE)) == TEXT * 2 + CLOSE
        assert client.recv(1) == b""
        client.sendall(b"\x88\x82\0\0\0\0\x0f\xa0")
    assert peer.recv(1) == b"", "the API does not get the client's answer to a Close frame that it did not send"
    until(lambda: len(frontend.service.tunnels) == 0)


def test_the_close_frame_waits_for_the_end_of_a_frame(short: Start) -> None:
    frontend, client, peer = short(TEXT + TEXT[:3])
    with closing(client):
        assert received(client, 10) == TEXT + TEXT[:3]
        until(lambda: time.monotonic() > frontend.service.tunnels.open()[0].ends_at)
        peer.sendall(TEXT[3:] + TEXT)
        assert received(client, 4 + len(CLOSE)) == TEXT[3:] + CLOSE


def test_a_frame_that_never_ends_and_a_client_that_stays_cannot_prolong_a_tunnel(short: Start) -> None:
    frontend, client, _ = short(TEXT[:3], closing=0.2)
    with closing(client):
        assert received(client, 3) == TEXT[:3]
        assert client.recv(1) == b""
    staying, head = opened(frontend.port, host="127.0.0.1")
    with closing(staying):
        assert head.startswith(b"HTTP/1.1 101 ")
        until(lambda: len(frontend.service.tunnels) == 0)
