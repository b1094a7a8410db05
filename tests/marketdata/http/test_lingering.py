"""A client whose request is refused while it still writes gets the response; the rest is dropped up to a limit."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from contextlib import closing

import pytest

from marketdata.api.serve import Service
from marketdata.http import connection
from marketdata.limits import MAX_BODY_BYTES
from tests.marketdata.api.conftest import eventually
from tests.marketdata.http.wire import HEALTH, answer, ask, connected, listening, quick

KIB = 1024
REFUSED = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n"


def write_until_reset(client: socket.socket, data: bytes, seconds: float) -> float:
    """Write until the server resets the connection. Returns the seconds until then; fails after ``seconds``."""
    waiting, began = threading.Event(), time.monotonic()
    while time.monotonic() - began < seconds:
        try:
            client.sendall(data)
        except ConnectionError:
            return time.monotonic() - began
        waiting.wait(0.001)
    pytest.fail("the server still reads")


@pytest.mark.parametrize("size", [MAX_BODY_BYTES + 1, 4 * MAX_BODY_BYTES])
@pytest.mark.parametrize("framing", ["length", "chunks"])
def test_a_client_that_writes_everything_first_gets_its_413(
    service: Service, write_token: str, size: int, framing: str
) -> None:
    body = b" " * size
    parts = (body[start : start + 64 * KIB] for start in range(0, size, 64 * KIB))
    headers = {"Authorization": f"Bearer {write_token}", "Content-Type": "application/json"}
    for _ in range(5):
        with closing(http.client.HTTPConnection("127.0.0.1", service.port, timeout=30)) as client:
            if framing == "length":
                client.request("POST", "/v1/ingest/tick", body, headers)
            else:
                client.request("POST", "/v1/ingest/tick", parts, headers, encode_chunked=True)
            response = client.getresponse()
            assert (response.status, json.loads(response.read())["code"]) == (413, "too_large")
            if framing == "chunks":
                break


def test_a_client_without_a_token_that_writes_everything_first_gets_its_401(service: Service) -> None:
    for _ in range(10):
        with closing(http.client.HTTPConnection("127.0.0.1", service.port, timeout=30)) as client:
            client.request("POST", "/v1/ingest/tick", b" " * MAX_BODY_BYTES, {"Content-Type": "application/json"})
            response = client.getresponse()
            assert (response.status, json.loads(response.read())["code"]) == (401, "unauthorized")


def test_a_client_whose_body_exceeds_the_budget_gets_its_429() -> None:
    size = 8000 * KIB
    with listening(quick, body_bytes=size, bodies_bytes=20 * KIB) as listener:
        for _ in range(5):
            with connected(listener.port) as client:
                client.sendall(REFUSED % size + b"x" * size)
                assert answer(client)[0] == 429
        eventually(lambda: listener._bodies._left == 20 * KIB)


def test_a_refused_body_is_not_kept() -> None:
    with listening(quick, body_bytes=1) as listener, connected(listener.port) as client:
        client.sendall(REFUSED % (8000 * KIB) + b"x" * 7000 * KIB)
        assert answer(client)[0] == 413
        (lingering,) = listener.connections()
        eventually(lambda: lingering.discarded > 6000 * KIB)
        assert lingering.discarding_since is not None
        assert lingering.request is None


def test_the_connection_is_reset_after_the_maximum_of_dropped_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "LINGER_BYTES", 1000 * KIB)
    with listening(quick, body_bytes=1) as listener, connected(listener.port) as client:
        client.sendall(REFUSED % 10**9)
        assert answer(client)[0] == 413
        write_until_reset(client, b"x" * 64 * KIB, seconds=30)
        eventually(lambda: not listener.connections())


def test_a_client_that_keeps_writing_is_cut_off_after_the_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "LINGER_SECONDS", 0.3)
    with listening(quick, body_bytes=1, arrival_seconds=0.1) as listener, connected(listener.port) as client:
        client.sendall(REFUSED % 10**9)
        assert answer(client)[0] == 413
        assert write_until_reset(client, b"x", seconds=30) > 0.2


def test_the_client_sees_the_end_of_the_response_at_once() -> None:
    with listening(quick, body_bytes=1) as listener, connected(listener.port) as client:
        client.sendall(REFUSED % 10**6)
        assert answer(client)[0] == 413
        client.settimeout(5)
        assert client.recv(1) == b"", "the server's side is shut down"
        assert len(listener.connections()) == 1
        client.shutdown(socket.SHUT_WR)
        eventually(lambda: not listener.connections())


def test_bytes_after_a_refused_request_are_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_stop_does_not_wait_for_a_lingering_connection() -> None:
    with listening(quick, body_bytes=1) as listener, connected(listener.port) as client:
        client.sendall(REFUSED % 10**6)
        assert answer(client)[0] == 413
        began = time.monotonic()
        listener.stop()
        assert time.monotonic() - began < 3
