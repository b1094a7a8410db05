"""Requests to the API, its responses, and an API that misbehaves."""

from __future__ import annotations

import http.client
import socket
import threading
from collections.abc import Callable
from contextlib import closing

import pytest

from marketdata import secretfile
from marketdata.frontend import proxy
from tests.functional.serving import until
from tests.marketdata.frontend.conftest import LOGIN, TOKEN, Frontend, basic
from tests.marketdata.frontend.scripted_api import OK, Received, ScriptedApi, answered

Script = Callable[[Received, socket.socket], bytes | None]


def closing_after(raw: bytes) -> Script:
    """The API sends these bytes and closes the connection."""

    def script(_request: Received, connection: socket.socket) -> None:
        connection.sendall(raw)

    return script


def always(answer: bytes | None) -> Script:
    return lambda _request, _connection: answer


def test_every_method_passes_except_those_that_would_reflect_the_token(
    frontend: Frontend, upstream: ScriptedApi
) -> None:
    upstream.script = always(answered("200 OK", "Content-Length: 0"))
    passing = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND")
    for method in passing:
        assert frontend.ask(method, "/api/v1/x?a=%20", **LOGIN).status == 200, method
    for method in ("TRACE", "CONNECT"):
        assert frontend.ask(method, "/api/v1/x", **LOGIN).status == 405, method
    assert [request.line for request in upstream.received] == [f"{each} /v1/x?a=%20 HTTP/1.1" for each in passing]


def test_the_api_gets_only_safe_header_fields(frontend: Frontend, upstream: ScriptedApi) -> None:
    client = {
        **LOGIN,
        "Connection": "keep-alive, X-Gone, authorization",
        "X-Gone": "1",
        "Accept": "text/csv",
        "If-None-Match": 'W/"a"',
        "Marketdata-Version": "7",
        "X-Kept": "2",
    }
    for name in ("Cookie", "Proxy-Authorization", "TE", "Trailer", "Keep-Alive", "Proxy-Connection", "X-Forwarded-For",
                 "X-Forwarded-Host", "Forwarded", "X-Remote-User", "Upgrade", "HTTP2-Settings"):  # fmt: skip
        client[name] = "x"
    assert frontend.ask("GET", "/api/v1/x", **client).status == 200
    (request,) = upstream.received
    found = {name.lower(): value for name, value in request.fields}
    assert found == {
        "host": f"127.0.0.1:{upstream.port}",
        "authorization": f"Bearer {TOKEN}",
        "accept": "text/csv",
        "accept-encoding": "identity",
        "if-none-match": 'W/"a"',
        "marketdata-version": "7",
        "x-kept": "2",
    }
    assert len(request.fields) == len(found)


def test_the_client_gets_only_safe_header_fields(frontend: Frontend, upstream: ScriptedApi) -> None:
    upstream.script = always(
        answered(
            "418 I'm a teapot", "Content-Type: text/plain", "ETag: W/\"x\"", "Connection: keep-alive, X-Gone",
            "X-Gone: 1", "Marketdata-Version: 8",
            "Keep-Alive: timeout=5", "Set-Cookie: a=b", 'WWW-Authenticate: Bearer realm="marketdata"', "Server: api",
            "Proxy-Authenticate: Basic", "X-Kept: 2", "Content-Length: 3", body=b"tea",
        )
    )  # fmt: skip
    answer = frontend.get("/api/v1/x")
    assert (answer.status, answer.body) == (418, b"tea")
    kept = {name: answer.headers[name] for name in ("Content-Type", "ETag", "X-Kept", "Marketdata-Version")}
    assert kept == {"Content-Type": "text/plain", "ETag": 'W/"x"', "X-Kept": "2", "Marketdata-Version": "8"}
    gone = ("X-Gone", "Keep-Alive", "Set-Cookie", "WWW-Authenticate", "Server", "Proxy-Authenticate")
    assert [name for name in gone if name in answer.headers] == []


def test_a_response_without_a_body_passes(fresh: tuple[Frontend, ScriptedApi]) -> None:
    frontend, upstream = fresh
    for status in ("204 No Content", "304 Not Modified") * 2:
        upstream.script = always(answered(status, 'ETag: "x"'))
        answer = frontend.get("/api/v1/x")
        assert (answer.status, answer.body) == (int(status[:3]), b"")
    assert upstream.connections == 1


def test_connections_are_kept_and_replaced(fresh: tuple[Frontend, ScriptedApi]) -> None:
    frontend, upstream = fresh
    for _ in range(5):
        assert frontend.get("/api/v1/x").status == 200
    assert upstream.connections == 1
    # The API closes a kept connection when the next request arrives. The request is sent again on a fresh connection.
    kept = iter([None, OK])
    upstream.script = lambda _request, _connection: next(kept)
    assert frontend.get("/api/v1/x").status == 200
    assert (upstream.connections, len(upstream.received)) == (2, 7)
    upstream.script = always(answered("200 OK", "Connection: close", "Content-Length: 0"))
    assert frontend.get("/api/v1/x").status == 200
    upstream.script = always(OK)
    assert frontend.get("/api/v1/x").status == 200
    assert upstream.connections == 3


def test_a_connection_with_more_than_the_response_is_not_used_again(fresh: tuple[Frontend, ScriptedApi]) -> None:
    """The next response would begin with these bytes."""
    frontend, upstream = fresh
    for size, surplus in ((2, b"x"), (100_000, b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")):
        upstream.script = always(answered("200 OK", f"Content-Length: {size}", body=b"a" * size + surplus))
        assert frontend.get("/api/v1/x").body == b"a" * size
    upstream.script = always(OK)
    assert frontend.get("/api/v1/x").body == b"{}"
    assert upstream.connections == 3


def test_a_malformed_response_is_not_requested_again(fresh: tuple[Frontend, ScriptedApi]) -> None:
    frontend, upstream = fresh
    for number, raw in enumerate((b"nonsense\r\n\r\n", b"HTTP/1.1 200", answered("401 No", "Content-Length: 0"))):
        upstream.script = always(OK)
        assert frontend.get("/api/v1/x").status == 200
        upstream.script = closing_after(raw)
        assert frontend.get("/api/v1/x").status == 502, raw
        assert (upstream.connections, len(upstream.received)) == (number + 1, 2 * number + 2), raw


def test_a_body_passes_whole(frontend: Frontend, upstream: ScriptedApi) -> None:
    body = bytes(range(256)) * 12_000
    assert frontend.ask("POST", "/api/v1/x", body, **LOGIN).status == 200
    assert upstream.received[0].body == body
    with closing(http.client.HTTPConnection("127.0.0.1", frontend.port, timeout=30)) as client:
        parts = (body[at : at + 50_000] for at in range(0, len(body), 50_000))
        client.request("PUT", "/api/v1/x", parts, LOGIN, encode_chunked=True)
        assert client.getresponse().read() == b"{}"
    assert upstream.received[1].body == body
    assert upstream.received[1].all("content-length") == [str(len(body))]


@pytest.mark.parametrize("framing", ["length", "chunked", "close"])
def test_a_large_response_is_streamed(frontend: Frontend, upstream: ScriptedApi, framing: str) -> None:
    part, count, go_on = b"0123456789abcdef" * 4096, 40, threading.Event()
    frame = {
        "length": (f"Content-Length: {len(part) * count}", part, b""),
        "chunked": ("Transfer-Encoding: chunked", b"%x\r\n%b\r\n" % (len(part), part), b"0\r\n\r\n"),
        "close": ("Connection: close", part, None),
    }

    def script(_request: Received, connection: socket.socket) -> bytes | None:
        field, each, end = frame[framing]
        connection.sendall(answered("200 OK", field) + each)
        assert go_on.wait(20)
        for _ in range(count - 1):
            connection.sendall(each)
        return end

    upstream.script = script
    with closing(http.client.HTTPConnection("127.0.0.1", frontend.port, timeout=30)) as client:
        client.request("GET", "/api/v1/x", headers=LOGIN)
        response = client.getresponse()
        assert response.read(len(part)) == part  # the API has not sent the rest yet
        go_on.set()
        assert response.read() == part * (count - 1)


def test_a_truncated_response_does_not_look_complete(frontend: Frontend, upstream: ScriptedApi) -> None:
    for framing, body in (("Content-Length: 1000000", b"12345678"), ("Transfer-Encoding: chunked", b"2\r\n12\r\n")):
        upstream.script = closing_after(answered("200 OK", framing) + body)
        with pytest.raises(http.client.IncompleteRead):
            frontend.get("/api/v1/x")


def test_without_an_api_the_frontend_answers_502(frontend_with: Callable[..., Frontend]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # it does not listen
        answer = frontend_with(f"http://127.0.0.1:{taken.getsockname()[1]}").get("/api/v1/x")
    assert (answer.status, answer.json["code"]) == (502, "upstream_failed")
    assert answer.headers["Content-Type"] == "application/problem+json"


MALFORMED = (
    b"", b"\r\n\r\n", b"HTTP/2 200\r\n\r\n", b"HTTP/1.1 20 OK\r\n\r\n", b"HTTP/1.1 200 OK\r\nA b: c\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
    b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}",
    b"HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\n{}", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n{}",
    b"HTTP/1.1 200 OK\r\nX: a\r\n folded\r\n\r\n", b"HTTP/1.1 200 OK\r\nX: a\nY: b\r\n\r\n",
    b"HTTP/1.1 200 OK\r\n" + b"X: " + b"y" * 100_000, b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}",
)  # fmt: skip


def test_a_malformed_response_becomes_502(frontend: Frontend, upstream: ScriptedApi) -> None:
    for raw in MALFORMED:
        upstream.script = closing_after(raw)
        answer = frontend.get("/api/v1/x")
        assert (answer.status, answer.json["code"]) == (502, "upstream_failed"), raw
    upstream.script = always(OK)
    assert frontend.get("/api/v1/x").body == b"{}"


def test_interim_responses_are_skipped(frontend: Frontend, upstream: ScriptedApi) -> None:
    upstream.script = always(b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + OK)
    assert frontend.get("/api/v1/x").body == b"{}"


def test_a_401_of_the_api_becomes_502(
    frontend: Frontend, upstream: ScriptedApi, caplog: pytest.LogCaptureFixture
) -> None:
    upstream.script = always(answered("401 Unauthorized", "WWW-Authenticate: Bearer", "Content-Length: 0"))
    answer = frontend.get("/api/v1/x")
    assert (answer.status, answer.json["code"]) == (502, "upstream_refused")
    assert "refuses the read token" in caplog.text


def test_a_rotated_token_is_used_at_once(frontend: Frontend, upstream: ScriptedApi) -> None:
    frontend.get("/api/v1/x")
    content = {"token": "md_another", "scope": "read", "name": "read"}
    secretfile.write(frontend.secrets / secretfile.READ_TOKEN, content)
    frontend.get("/api/v1/x")
    assert [request.all("authorization") for request in upstream.received] == [
        [f"Bearer {TOKEN}"], ["Bearer md_another"],
    ]  # fmt: skip


def test_a_stalled_api_does_not_stall_the_page(frontend: Frontend, upstream: ScriptedApi) -> None:
    """More clients than there are workers wait for an API that does not answer."""
    go_on = threading.Event()

    def script(_request: Received, _connection: socket.socket) -> bytes:
        go_on.wait(60)
        return OK

    upstream.script = script
    found: list[int] = []
    crowd = [threading.Thread(target=lambda: found.append(frontend.get("/api/v1/chart").status)) for _ in range(160)]
    frontend.get("/whoami")
    for each in crowd:
        each.start()
    until(
        lambda: (
            len(upstream.received) == proxy.MAX_RUNNING and len(found) == 160 - proxy.MAX_RUNNING - proxy.MAX_WAITING
        )
    )
    assert set(found) == {503}
    assert frontend.ask("GET", "/healthz").status == 200
    assert frontend.get("/whoami").status == 200
    busy = frontend.get("/api/v1/chart")
    assert (busy.json["code"], busy.headers["Retry-After"]) == ("busy", "1")
    go_on.set()
    for each in crowd:
        each.join(30)
    assert len(found) == 160
    assert found.count(200) >= proxy.MAX_RUNNING  # on a busy machine, the others may have waited for too long


def test_a_slow_api_becomes_504(frontend_with: Callable[..., Frontend], upstream: ScriptedApi) -> None:
    silent = threading.Event()

    def script(_request: Received, _connection: socket.socket) -> None:
        silent.wait(60)

    upstream.script = script
    answer = frontend_with(times={"response": 0.2}).get("/api/v1/x")
    silent.set()
    assert (answer.status, answer.json["code"]) == (504, "upstream_slow")
    assert answer.headers["Content-Type"] == "application/problem+json"


def test_a_client_that_goes_away_frees_its_slot(frontend: Frontend, upstream: ScriptedApi) -> None:
    part = b"x" * 65536

    def script(_request: Received, connection: socket.socket) -> None:
        connection.sendall(answered("200 OK", "Content-Length: 100000000000"))
        while True:
            connection.sendall(part)

    upstream.script = script
    for _ in range(proxy.MAX_RUNNING + proxy.MAX_WAITING + 1):
        with closing(socket.create_connection(("127.0.0.1", frontend.port), timeout=30)) as client:
            head = f"GET /api/v1/x HTTP/1.1\r\nHost: a\r\nAuthorization: {basic()}\r\n\r\n"
            client.sendall(head.encode())
            assert client.recv(100).startswith(b"HTTP/1.1 200 OK")
    upstream.script = always(OK)
    until(lambda: frontend.get("/api/v1/x").status == 200)
