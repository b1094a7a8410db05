"""The page's WebSockets on the real listener: messages, refusals, and what remains after the end."""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from simple_websocket import Client, ConnectionClosed

from cardapp.serve import Service
from tests.functional.listening import WAIT, counts
from tests.functional.serving import Api, running_service, until

pytestmark = pytest.mark.functional

LIVE = ("/api/live", "card-live.v1")
EDITOR = ("/api/editor-ui", "card-editor-ui.v1")
HANDSHAKE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
    "Sec-WebSocket-Protocol": "card-live.v1",
}


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    with running_service() as service:
        yield service


@pytest.fixture(autouse=True)
def every_connection_ends(service: Service) -> Iterator[None]:
    yield
    until(lambda: len(service.websockets) == 0, WAIT)


class HostClient(Client):  # type: ignore[misc]
    """The library omits the port from the Host header. It also leaves messages that arrive together with the response
    unread until more data arrive."""

    def handshake(self) -> None:
        self.host = f"{self.host}:{self.port}"
        super().handshake()
        self._handle_events()
        self.connected = True  # also if the server has closed already, because receive() then reports it


def connect(service: Service, endpoint: tuple[str, str]) -> Client:
    path, protocol = endpoint
    origin = {"Origin": f"http://127.0.0.1:{service.listener.port}"}
    return HostClient(f"ws://127.0.0.1:{service.listener.port}{path}", subprotocols=[protocol], headers=origin)


def received(client: Client, seconds: float = WAIT) -> Any:
    text = client.receive(timeout=seconds)
    assert text is not None, "nothing was received in time"
    return json.loads(text)


def test_the_control_state_is_sent_at_once_and_at_every_change(service: Service) -> None:
    api = Api.tcp(service.listener.port)
    clients = [connect(service, LIVE) for _ in range(3)]
    for client in clients:
        assert client.subprotocol == "card-live.v1"
        assert received(client) == api.get("/api/control/state")
    for number in range(1, 4):
        moved = api.post("/api/navigation/move", {"level": "step", "delta": 1})
        assert moved.status == 200
        for client in clients:
            state = received(client)
            assert (state["navigation_revision"], state["position_key"]) == (number, moved.json["key"])
    for client in clients:
        client.close()


def test_without_a_session_the_editor_stream_says_why(service: Service) -> None:
    client = connect(service, EDITOR)
    message = received(client)
    assert (message["type"], message["code"]) == ("bye", "editor_unavailable")
    assert "bin/card-session start" in message["reason"]
    with pytest.raises(ConnectionClosed):
        client.receive(timeout=WAIT)


def test_a_faulty_handshake_is_refused_in_words(service: Service) -> None:
    host = f"127.0.0.1:{service.listener.port}"
    refusals: list[tuple[dict[str, str | None], int]] = [
        ({"Origin": None}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Host": "evil.example"}, 421),
        ({"Upgrade": None}, 426),
        ({"Sec-WebSocket-Version": "8"}, 426),
        ({"Sec-WebSocket-Key": "short"}, 400),
        ({"Sec-WebSocket-Protocol": "another"}, 400),
        ({"Connection": "keep-alive"}, 400),
    ]
    for changes, status in refusals:
        headers = {"Host": host, "Origin": f"http://{host}", **HANDSHAKE, **changes}
        sent = {name: value for name, value in headers.items() if value is not None}
        refused = Api.tcp(service.listener.port).request("GET", "/api/live", headers=sent)
        assert refused.status == status, changes
        assert refused.json["detail"]


def over_the_unix_socket(service: Service, more: bytes = b"") -> bytes:
    """The first bytes of the answer to a handshake and the bytes ``more`` right after it."""
    head = "\r\n".join(["GET /api/live HTTP/1.1", "Host: card", *(f"{k}: {v}" for k, v in HANDSHAKE.items())])
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(WAIT)
        client.connect(str(service.settings.api_socket))
        client.sendall(f"{head}\r\n\r\n".encode() + more)
        with contextlib.suppress(ConnectionResetError):
            return client.recv(65536)
    return b""


def test_the_unix_socket_needs_no_origin_and_early_bytes_end_the_connection(service: Service) -> None:
    assert over_the_unix_socket(service).startswith(b"HTTP/1.1 101 ")
    assert over_the_unix_socket(service, b"\x81\x80\x00\x00\x00\x00") == b""


def test_a_client_that_sends_nonsense_or_faster_than_it_is_served_is_closed(service: Service) -> None:
    text = b"\x81\x81\0\0\0\0x"  # one character, masked by zeros
    for data in (b"\xff" * 64, text * 200_000):
        client = connect(service, LIVE)
        received(client)
        with contextlib.suppress(OSError):
            client.sock.sendall(data)
        until(lambda client=client: is_closed(client), WAIT)  # type: ignore[misc]


def test_closed_connections_leave_no_threads_or_descriptors(service: Service) -> None:
    held = connect(service, LIVE)
    received(held)
    before = counts()
    for number in range(20):
        client = connect(service, LIVE)
        received(client)
        if number % 2:
            client.close()
        else:
            client.sock.shutdown(socket.SHUT_RDWR)
    until(lambda: all(now <= then + 2 for now, then in zip(counts(), before, strict=True)), WAIT)
    held.close()


def test_a_stop_closes_every_connection(service: Service) -> None:
    """The last test of this file, because it ends the service."""
    clients = [connect(service, LIVE) for _ in range(5)]
    for client in clients:
        received(client)
    service.stop()
    for client in clients:
        until(lambda client=client: is_closed(client), WAIT)  # type: ignore[misc]


def is_closed(client: Client) -> bool:
    try:
        client.receive(timeout=0.1)
    except ConnectionClosed:
        return True
    return False
