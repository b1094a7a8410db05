"""The WebSocket protocol of ``/v1/live`` on a real listener: handshakes, violations, and closed connections."""

from __future__ import annotations

import json
import os
import socket
import struct
from contextlib import suppress
from time import monotonic
from typing import Any, cast

import pytest
from wsproto.connection import Connection, ConnectionType
from wsproto.events import BytesMessage, TextMessage

from marketdata.api.auth import Caller
from marketdata.api.live import server
from marketdata.api.live.server import Live
from marketdata.api.live.websocket import MAX_MESSAGE_CHARACTERS, Protocol, text_frame
from marketdata.api.serve import Service, Times
from marketdata.errors import Saturated
from marketdata.http.wsgi import HandOver, variable
from marketdata.settings import Settings
from tests.marketdata.api.conftest import Api, Make, check_shape, eventually, running_api
from tests.marketdata.api.live_client import LiveClient, handshake
from tests.marketdata.http.wire import ask, connected

T = 1_700_000_040_000


def test_an_invalid_handshake_is_refused(service: Service, read_token: str, write_token: str) -> None:
    for changed, status, code in [
        ({"Authorization": ""}, 401, "unauthorized"),
        ({"Authorization": "Bearer md_nothing"}, 401, "invalid_token"),
        ({"Authorization": "Basic YTpi"}, 400, "invalid_request"),
        ({"Authorization": f"Bearer {write_token}"}, 403, "insufficient_scope"),
        ({"Upgrade": ""}, 426, "upgrade_required"),
        ({"Upgrade": "h2c"}, 426, "upgrade_required"),
        ({"Sec_WebSocket_Version": "8"}, 426, "upgrade_required"),
        ({"Connection": "keep-alive"}, 400, "bad_request"),
        ({"Sec_WebSocket_Key": "c2hvcnQ="}, 400, "bad_request"),
        ({"Sec_WebSocket_Key": "not base64"}, 400, "bad_request"),
        ({"Sec_WebSocket_Protocol": ""}, 400, "bad_request"),
        ({"Sec_WebSocket_Protocol": "chat, marketdata-live.v2"}, 400, "bad_request"),
    ]:
        found, _, body = ask(service.port, handshake(read_token, **changed))
        problem = json.loads(body)
        check_shape("Problem", problem)
        assert (found, problem["code"]) == (status, code), changed


def test_a_full_service_refuses_connections() -> None:
    nothing, caller = cast(Any, None), Caller("1", "test", "read")
    lines = handshake("md_x").decode().split("\r\n")[1:-2]
    fields = {
        variable(name.upper().replace("-", "_")): value for name, _, value in (line.partition(": ") for line in lines)
    }
    asked = {"REQUEST_METHOD": "GET", **fields}
    with pytest.raises(Saturated, match="0 live connections are open, which is the maximum"):
        Live(nothing, nothing, nothing, nothing, nothing, connections=0).handshake(asked, caller)
    assert isinstance(Live(nothing, nothing, nothing, nothing, nothing, 1).handshake(asked, caller), HandOver)


def test_the_handshake_names_the_subprotocol_and_no_extension(service: Service, read_token: str) -> None:
    request = handshake(read_token, Sec_WebSocket_Extensions="permessage-deflate")
    with connected(service.port) as client:
        client.sendall(request)
        head = client.recv(65536).decode()
    assert "Sec-WebSocket-Protocol: marketdata-live.v1\r\n" in head
    assert "extensions" not in head.lower()


def test_frames_before_the_handshake_is_accepted_are_refused(service: Service, read_token: str) -> None:
    early = Connection(ConnectionType.CLIENT).send(TextMessage(data="{}"))
    with connected(service.port) as client:
        client.sendall(handshake(read_token) + early)
        assert not client.recv(65536).startswith(b"HTTP/1.1 101")


def masked(first: int, payload: bytes) -> bytes:
    assert len(payload) < 126
    return bytes([first, 0x80 | len(payload), 0, 0, 0, 0]) + payload


def test_a_violation_closes_the_connection_with_its_code(service: Service, read_token: str) -> None:
    for data, code in [
        (Connection(ConnectionType.CLIENT).send(BytesMessage(data=b"{}")), 1003),
        (Connection(ConnectionType.CLIENT).send(TextMessage(data="x" * (MAX_MESSAGE_CHARACTERS + 1))), 1009),
        (struct.pack("!BBQ", 0x81, 0xFF, 1 << 40) + b"\0\0\0\0" + b"x" * (MAX_MESSAGE_CHARACTERS + 1), 1009),
        (masked(0x81, b"\xff\xfe"), 1007),
        (masked(0x83, b""), 1002),
        (masked(0xC1, b"{}"), 1002),
        (masked(0x80, b"{}"), 1002),
        (b"\x81\x02{}", 1002),
        (masked(0x88, struct.pack("!H", 1000)), 1000),
    ]:
        with LiveClient(service.port, read_token) as client:
            client.socket.sendall(data)
            assert client.until_closed() == code, data[:20]


def test_a_ping_is_answered_and_a_message_may_come_in_parts(
    api: Api, service: Service, read_token: str, tick: Make
) -> None:
    api.ingest(tick(symbol="LIVE:PARTS", id="1", ts=T))
    text = '{"op": "subscribe", "symbol": "LIVE:PARTS", "interval": "1m"}'
    with LiveClient(service.port, read_token) as client:
        client.socket.sendall(masked(0x01, text[:20].encode()) + masked(0x89, b"are you there"))
        pong = b"\x8a\x0dare you there"
        assert client.socket.recv(len(pong), socket.MSG_WAITALL) == pong
        for each in masked(0x80, text[20:].encode()):
            client.socket.sendall(bytes([each]))
        assert client.receive()["type"] == "subscribed"


def test_an_idle_and_a_busy_connection_get_heartbeats(service_settings: Settings, tick: Make) -> None:
    check_shape("LiveMessage", json.loads(server.HEARTBEAT))
    with running_api(service_settings, Times(sweep=0.05, heartbeat=0.3)) as api:
        port, token = api.service.port, api.tokens["read"]
        api.ingest(tick(symbol="LIVE:BEAT", id="0", ts=T))
        with LiveClient(port, token) as idle, LiveClient(port, token) as busy:
            began = monotonic()
            busy.subscribe("LIVE:BEAT", "ticks")
            sent = 0
            while busy.heartbeats < 3:
                sent += 1
                api.ingest(tick(symbol="LIVE:BEAT", id=f"{sent}", ts=T + sent))
                busy.receive()
            assert busy.heartbeats <= (monotonic() - began) / 0.3 + 1
            while idle.heartbeats < 3:
                with suppress(TimeoutError):
                    idle.receive(0.1)


def test_empty_parts_do_not_count_against_the_limit() -> None:
    protocol = Protocol()
    empty = masked(0x01, b"") + masked(0x00, b"") * (MAX_MESSAGE_CHARACTERS + 1)
    assert list(protocol.received(empty + masked(0x00, b"{"))) == []
    assert list(protocol.received(masked(0x80, b"}"))) == ["{}"]


def test_a_message_of_any_size_is_framed() -> None:
    for size in (0, 125, 126, 65535, 65536, 100_000):
        client = Connection(ConnectionType.CLIENT)
        client.receive_data(text_frame(b"x" * size))
        parts = [event for event in client.events() if isinstance(event, TextMessage)]
        assert "".join(part.data for part in parts) == "x" * size, size
        assert parts[-1].message_finished, size


def test_connections_leave_nothing_behind(service: Service, read_token: str) -> None:
    live = service.services.live
    with LiveClient(service.port, read_token):
        eventually(lambda: live.connections == 1)
        before = len(os.listdir("/proc/self/fd"))
    for number in range(100):
        client = LiveClient(service.port, read_token)
        if number % 2:
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset
        client.close()
    eventually(lambda: live.connections == 0)
    eventually(lambda: len(os.listdir("/proc/self/fd")) <= before)
