"""A client whose request is refused while it still writes gets the response; the rest is dropped up to a limit."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from contextlib import closing
from time import monotonic

import pytest

from marketdata.api.serve import Service
from marketdata.http.connection import Limits
from marketdata.limits import MAX_BODY_BYTES
from tests.marketdata.api.conftest import eventually
from tests.marketdata.http.wire import HEALTH, answer, ask, connected, listening, quick

KIB = 1024
REFUSED = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n"


def write_until_reset(client: socket.socket, data: bytes) -> None:
    """Write until the server resets the connection, for half a minute at most."""
    waiting, until = threading.Event(), monotonic() + 30
    while monotonic() < until:
        try:
            client.sendall(data)
        except ConnectionError:
            return
        waiting.wait(0.001)
    pytest.fail("the server still reads")


@pytest.mark.parametrize(
    ("size", "is_chunked", "is_known", "refusal"),
    [
        (MAX_BODY_BYTES + 1, False, True, (413, "too_large")),
        (4 * MAX_BODY_BYTES, True, True, (413, "too_large")),
        (MAX_BODY_BYTES, False, False, (401, "unauthorized")),
    ],
)
def test_a_client_that_writes_everything_first_gets_its_refusal(
    service: Service, write_token: str, size: int, is_chunked: bool, is_known: bool, refusal: tuple[int, str]
) -> None:
    body = b" " * size
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {write_token}"} if is_known else {})
    for _ in range(3):
        with closing(http.client.HTTPConnection("127.0.0.1", service.port, timeout=30)) as client:
            parts = (body[start : start + 64 * KIB] for start in range(0, size, 64 * KIB))
            client.request("POST", "/v1/ingest/tick", parts if is_chunked else body, headers, encode_chunked=is_chunked)
            response = client.getresponse()
            assert (response.status, json.loads(response.read())["code"]) == refusal


def test_a_refused_body_is_not_kept() -> None:
    with listening(quick, body_bytes=1) as listener, connected(listener.port) as client:
        client.sendall(REFUSED % (8000 * KIB) + b"x" * 7000 * KIB)
        assert answer(client)[0] == 413
        (lingering,) = listener.connections()
        eventually(lambda: lingering.discarded > 6000 * KIB)
        assert lingering.discarding_since is not None
        assert lingering.request is None


@pytest.mark.parametrize(
    ("limits", "written"), [(Limits(linger_bytes=1000 * KIB), 64 * KIB), (Limits(linger_seconds=0.3), 1)]
)
def test_the_connection_is_reset_after_the_maximum_of_dropped_bytes_or_seconds(limits: Limits, written: int) -> None:
    with (
        listening(quick, body_bytes=1, arrival_seconds=0.1, limits=limits) as listener,
        connected(listener.port) as client,
    ):
        client.sendall(REFUSED % 10**9)
        assert answer(client)[0] == 413
        write_until_reset(client, b"x" * written)
        eventually(lambda: not listener.connections())


def test_the_client_sees_the_end_of_the_response_at_once() -> None:
    with listening(quick, body_bytes=1) as listener, connected(listener.port) as client:
        client.sendall(REFUSED % 10**6)
        assert answer(client)[0] == 413
        client.settimeout(20)  # a connection lingers for half a minute
        assert client.recv(1) == b"", "the server's side is shut down"
        assert len(listener.connections()) == 1
        client.shutdown(socket.SHUT_WR)
        eventually(lambda: not listener.connections())


def test_bytes_after_a_refused_request_are_not_parsed() -> None:
    asked: list[str] = []

    def noted(environ: dict[str, str], start: object) -> list[bytes]:
        asked.append(environ["PATH_INFO"])
        return quick(environ, start)  # type: ignore[arg-type]

    with listening(noted, body_bytes=1) as listener:
        assert ask(listener.port, REFUSED % 1000 + HEALTH * 10)[0] == 413
        with connected(listener.port) as client:
            client.sendall(REFUSED % 1000)
            assert answer(client)[0] == 413
            client.sendall(HEALTH)
            assert client.recv(1) == b""
    assert asked == []
