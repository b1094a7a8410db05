"""Attacks over a raw socket. No response, log line or error may contain the token."""

from __future__ import annotations

import json
import logging
import re
import socket
from contextlib import closing, suppress

import pytest

from marketdata.errors import MarketError, Saturated, TooLarge
from marketdata.frontend.app import SECURITY_HEADERS
from marketdata.frontend.problems import refusal
from marketdata.http.failures import BadRequest, HeadersTooLarge, InternalError, UnknownCoding, problem
from marketdata.limits import MAX_BODY_BYTES
from tests.marketdata.frontend.conftest import TOKEN, Frontend, basic
from tests.marketdata.frontend.scripted_api import OK, Received, ScriptedApi, answered
from tests.marketdata.frontend.test_request_target import HIDDEN, TRICKS
from tests.marketdata.http.wire import ask

LOGIN = f"Host: a\r\nAuthorization: {basic()}\r\n"
WHO = f"Connection: close\r\n{LOGIN}"
SMUGGLED = "GET /api/v1/smuggled HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"


def said(port: int, raw: str | bytes) -> bytes:
    """Everything that the frontend sends until it closes the connection, which it does after a refusal."""
    data = raw if isinstance(raw, bytes) else raw.encode("latin-1")
    found = b""
    with closing(socket.create_connection(("127.0.0.1", port), timeout=10)) as client:
        client.sendall(data)
        with suppress(ConnectionError):
            while part := client.recv(65536):
                found += part
    return found


def statuses(answer: bytes) -> list[int]:
    """The status of each response. The response to a request that cannot be parsed is HTTP/1.0."""
    return [int(status) for status in re.findall(rb"HTTP/1\.[01] ([0-9]{3}) ", answer)]


FRAMINGS = (
    f"Content-Length: {len(SMUGGLED)}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{SMUGGLED}",
    f"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n5c\r\n{SMUGGLED}\r\n0\r\n\r\n",
    f"Content-Length: 0\r\nContent-Length: {len(SMUGGLED)}\r\n\r\n{SMUGGLED}",
    f"Content-Length: {len(SMUGGLED)}, 0\r\n\r\n{SMUGGLED}",
    f"Content-Length: +{len(SMUGGLED)}\r\n\r\n{SMUGGLED}",
    f"Content-Length : {len(SMUGGLED)}\r\n\r\n{SMUGGLED}",
    f"Content-Length: 0x10\r\n\r\n{SMUGGLED}",
    f"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n{SMUGGLED}",
    f"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n{SMUGGLED}",
    f"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n{SMUGGLED}",
    f"Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n0\r\n\r\n{SMUGGLED}",
    f"Transfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n{SMUGGLED}",
    f"X: y\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{SMUGGLED}",
    f"Transfer-Encoding: chunked\r\n\r\n0\n\n{SMUGGLED}",
    f"Transfer-Encoding: chunked\r\n\r\n0_2\r\nab\r\n0\r\n\r\n{SMUGGLED}",
    f"Transfer-Encoding: chunked\r\n\r\n2;a=\nb\r\nab\r\n0\r\n\r\n{SMUGGLED}",
    f"Transfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n0\r\n\r\n{SMUGGLED}",
)


def test_a_smuggled_request_never_reaches_the_api(frontend: Frontend, upstream: ScriptedApi) -> None:
    for framing in FRAMINGS:
        found = said(frontend.port, f"POST /api/v1/x HTTP/1.1\r\n{WHO}{framing}")
        assert "smuggled" not in " ".join(request.line for request in upstream.received), framing
        assert statuses(found)[-1] in (400, 501), (framing, found)
        assert TOKEN.encode() not in found


def test_a_second_request_needs_its_own_login(frontend: Frontend, upstream: ScriptedApi) -> None:
    found = said(frontend.port, f"GET /api/v1/x HTTP/1.1\r\n{LOGIN}\r\n{SMUGGLED}")
    assert statuses(found) == [200, 401]
    assert len(upstream.received) == 1


INJECTIONS = (
    ("X: a\rAuthorization: Bearer x", 400), ("X: a\nAuthorization: Bearer x", 400), ("X: a\x00b", 400),
    ("X : a", 400), ("X\x00: a", 400), (": a", 400), ("X(y): a", 400), ("Host: b", 400),
    # A line that begins with white space continues the line before it (obs-fold).
    (" X: folded", 400), ("\tX: folded", 400), ("X: a\r\n Authorization: Bearer x", 400), ("X: a\r\n ", 400),
    # These lines become a part of the login.
    ("Authorization: Basic x", 401), ("Authorization:\tBearer x", 401),
    # This line is dropped.
    ("X_Remote_User: root", 200), ("X-Remote-User: root", 200),
)  # fmt: skip


def test_no_header_is_injected(frontend: Frontend, upstream: ScriptedApi) -> None:
    for lines, status in INJECTIONS:
        upstream.received.clear()
        found = said(frontend.port, f"GET /api/v1/x HTTP/1.1\r\n{WHO}{lines}\r\n\r\n")
        assert statuses(found) == [status], lines
        assert len(upstream.received) == (status == 200), lines
        assert TOKEN.encode() not in found
        for request in upstream.received:
            assert request.all("authorization") == [f"Bearer {TOKEN}"]
            assert request.all("host") == [f"127.0.0.1:{upstream.port}"]
            assert not any(character in value for _, value in request.fields for character in "\r\n\0")
            assert "x-remote-user" not in [name.lower() for name, _ in request.fields]


def test_ambiguous_paths_never_reach_the_api(frontend: Frontend, upstream: ScriptedApi) -> None:
    for raw in (*TRICKS, *HIDDEN):
        found = said(frontend.port, f"GET {raw} HTTP/1.1\r\n{WHO}\r\n".encode())
        assert statuses(found)[0] in (400, 404), (raw, found)
    assert upstream.received == []


def test_the_listeners_refusals_have_the_same_status_as_at_the_api() -> None:
    """Frontend and API have separate tables, and one of them may lack a row."""
    kinds: tuple[type[MarketError], ...] = (
        BadRequest, HeadersTooLarge, UnknownCoding, InternalError, TooLarge, Saturated,
    )  # fmt: skip
    for kind in kinds:
        ours, of_the_api = refusal(kind("why")), problem(kind("why"))
        assert (ours.status, ours.headers) == (of_the_api.status, of_the_api.headers), kind
        assert isinstance(ours.body, bytes)
        assert isinstance(of_the_api.body, bytes)
        assert json.loads(ours.body) == json.loads(of_the_api.body), kind


REFUSED = (
    ("GET\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\n\r\n", 400),
    (f"GET / HTTP/1.1\r\n{LOGIN}X : y\r\n\r\n", 400),
    (f"GET /whoami HTTP/1.1\r\n{LOGIN}X: {'x' * 20_000}\r\n\r\n", 431),
    (f"POST /api/v1/x HTTP/1.1\r\n{LOGIN}Content-Length: {MAX_BODY_BYTES + 1}\r\n\r\n", 413),
    (f"POST /api/v1/x HTTP/1.1\r\n{LOGIN}Transfer-Encoding: x\r\n\r\n", 501),
    ("POST /api/v1/x HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n", 401),
    (f"POST /api/v1/x HTTP/1.1\r\n{LOGIN}Origin: https://evil.example\r\nContent-Length: 100000\r\n\r\n", 403),
    (f"GET /api/v1/../metrics HTTP/1.1\r\n{WHO}\r\n", 400),
    (f"GET /api/metrics HTTP/1.1\r\n{WHO}\r\n", 404),
    (f"GET /nothing HTTP/1.1\r\n{WHO}\r\n", 404),
)


def test_every_refusal_has_the_security_headers(frontend: Frontend) -> None:
    """This includes the refusals of the listener, which never reach the application."""
    for raw, status in REFUSED:
        found, headers, body = ask(frontend.port, raw.encode())
        said = json.loads(body)
        assert (found, said["status"]) == (status, status), raw[:200]
        assert said["type"].startswith("/problems#")
        assert headers["cache-control"] == "no-store"
        for name, value in SECURITY_HEADERS:
            assert headers[name.lower()] == value, raw[:200]


def test_no_response_log_or_error_shows_the_token(
    frontend: Frontend, upstream: ScriptedApi, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    answers = (
        OK, None, b"HTTP/1.1 401 x\r\nContent-Length: 0\r\n\r\n", b"nonsense",
        answered("500 Internal Server Error", "Content-Length: 4", body=b"oops"),
        answered("200 OK", "Content-Length: 1000000", body=b"broken off"), answered("200 OK", "X: \x00"),
        answered("302 Found", "Location: http://elsewhere.example/", "Content-Length: 0"),
    )  # fmt: skip
    heard = b""
    for each in answers:

        def script(_request: Received, connection: socket.socket, each: bytes | None = each) -> None:
            if each is not None:
                connection.sendall(each)

        upstream.script = script
        for line in ("GET /api/v1/x", "POST /api/v1/x", "OPTIONS /api/v1/x", "TRACE /api/v1/x", "GET /api/metrics"):
            heard += said(frontend.port, f"{line} HTTP/1.1\r\n{WHO}Content-Length: 0\r\nExpect: x\r\n\r\n")
    for path in ("/", "/whoami", "/logout", "/healthz", "/static/read.json", "/static/../secrets/read.json"):
        heard += said(frontend.port, f"GET {path} HTTP/1.1\r\n{WHO}\r\n")
    printed = "".join(capfd.readouterr())
    assert len(upstream.received) > 20
    assert all(request.all("authorization") == [f"Bearer {TOKEN}"] for request in upstream.received)
    for place in (heard.decode("latin-1"), caplog.text, printed, repr(frontend.service)):
        assert TOKEN not in place
        assert TOKEN[3:] not in place
