"""The page's WebSockets on the real listener: messages, refusals, and what remains after the end."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from simple_websocket import Client, ConnectionClosed

from cardapp import settings as settings_module
from cardapp.serve import Service
from cardapp.web import websocket
from tests.functional.serving import Api, make_card, until

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


@pytest.fixture
def service(state_dir: Path) -> Iterator[Service]:
    folder = make_card(state_dir / "card")
    names = {"CARD_STATE_DIR": str(state_dir / "state"), "CARD_SOURCE": str(folder), "CARD_API_PORT": "0"}
    service = Service(settings_module.load(names))
    service.start()
    yield service
    service.stop()


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


def received(client: Client, seconds: float = 10.0) -> Any:
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
    until(lambda: len(service.websockets) == 0)


def test_without_a_session_the_editor_stream_says_why(service: Service) -> None:
    client = connect(service, EDITOR)
    message = received(client)
    assert (message["type"], message["code"]) == ("bye", "editor_unavailable")
    assert "bin/card-session start" in message["reason"]
    with pytest.raises(ConnectionClosed):
        client.receive(timeout=5)


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"Origin": None}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Host": "evil.example"}, 421),
        ({"Upgrade": None}, 426),
        ({"Sec-WebSocket-Version": "8"}, 426),
        ({"Sec-WebSocket-Key": "short"}, 400),
        ({"Sec-WebSocket-Protocol": "another"}, 400),
        ({"Connection": "keep-alive"}, 400),
    ],
)
def test_a_faulty_handshake_is_refused_in_words(service: Service, changes: dict[str, str | None], status: int) -> None:
    host = f"127.0.0.1:{service.listener.port}"
    headers = {"Host": host, "Origin": f"http://{host}", **HANDSHAKE, **changes}
    answer = Api.tcp(service.listener.port).request(
        "GET", "/api/live", headers={name: value for name, value in headers.items() if value is not None}
    )
    assert answer.status == status
    assert answer.json["detail"]


def test_the_unix_socket_needs_no_origin(service: Service) -> None:
    head = "\r\n".join(["GET /api/live HTTP/1.1", "Host: card", *(f"{k}: {v}" for k, v in HANDSHAKE.items())])
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(10)
        client.connect(str(service.settings.api_socket))
        client.sendall(f"{head}\r\n\r\n".encode())
        assert client.recv(65536).startswith(b"HTTP/1.1 101 ")


def test_bytes_sent_right_after_the_handshake_request_end_the_connection(service: Service) -> None:
    head = "\r\n".join(["GET /api/live HTTP/1.1", "Host: card", *(f"{k}: {v}" for k, v in HANDSHAKE.items())])
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(10)
        client.connect(str(service.settings.api_socket))
        client.sendall(f"{head}\r\n\r\n".encode() + b"\x81\x80\x00\x00\x00\x00")
        with contextlib.suppress(ConnectionResetError):
            assert client.recv(65536) == b""
    assert len(service.websockets) == 0


def test_a_client_that_sends_nonsense_is_closed(service: Service) -> None:
    client = connect(service, LIVE)
    received(client)
    client.sock.sendall(b"\xff" * 64)
    until(lambda: len(service.websockets) == 0)


def test_unknown_messages_do_not_delay_the_end_of_a_connection(service: Service) -> None:
    client = connect(service, LIVE)
    received(client)
    for _ in range(200):
        client.send("anything")
    client.close()
    until(lambda: len(service.websockets) == 0)


def test_a_client_that_sends_faster_than_it_is_served_is_closed(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(websocket, "MESSAGES_WAITING", 100)
    client = connect(service, LIVE)
    received(client)
    with contextlib.suppress(OSError):
        client.sock.sendall(b"\x81\x81\0\0\0\0x" * 40_000)  # texts of one character, masked by zeros
    until(lambda: is_closed(client))
    until(lambda: len(service.websockets) == 0)


@pytest.mark.full
def test_closed_connections_leave_no_threads_or_descriptors(service: Service, loops: Callable[..., int]) -> None:
    def descriptors() -> int:
        return len(os.listdir("/proc/self/fd"))

    received(connect(service, LIVE))
    until(lambda: len(service.websockets) == 1)
    threads, files = threading.active_count(), descriptors()
    for number in range(loops(quick=20, full=500)):
        client = connect(service, LIVE)
        received(client)
        if number % 2:
            client.close()
        else:
            client.sock.shutdown(socket.SHUT_RDWR)
    until(lambda: len(service.websockets) <= 1)
    until(lambda: threading.active_count() <= threads + 1 and descriptors() <= files + 2)


def test_a_stop_closes_every_connection(service: Service) -> None:
    clients = [connect(service, LIVE) for _ in range(5)]
    for client in clients:
        received(client)
    service.stop()
    for client in clients:
        until(lambda client=client: is_closed(client))


def is_closed(client: Client) -> bool:
    try:
        client.receive(timeout=0.1)
    except ConnectionClosed:
        return True
    return False
