"""The recommended site: the real nginx does TLS and limits addresses, and the frontend does the login."""

from __future__ import annotations

import http.client
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from marketdata.frontend.login import BURST
from tests.capabilities import needs
from tests.marketdata.frontend.conftest import LOGIN, ORIGIN, PASSWORD, Frontend, Response, basic
from tests.marketdata.frontend.nginx import PROGRAM, Nginx, certificate, nginx, tls_nginx
from tests.marketdata.frontend.scripted_api import Received, ScriptedApi, answered

pytestmark = needs(PROGRAM, "nginx (Debian package nginx)")

HOST = "charts.example.org"


class Ingress:
    """nginx before the module's frontend. Each address of 127.0.0.0/8 is a client of its own."""

    def __init__(self, nginx: Nginx) -> None:
        self.nginx = nginx
        self._context = ssl.create_default_context(cafile=str(nginx.folder / "marketdata.crt"))

    def connected(self, source: str = "127.0.0.1") -> ssl.SSLSocket:
        plain = socket.create_connection(("127.0.0.1", self.nginx.port), 30, source_address=(source, 0))
        return self._context.wrap_socket(plain, server_hostname=HOST)

    def ask(self, method: str, path: str, source: str = "127.0.0.1", **headers: str) -> Response:
        with closing(http.client.HTTPConnection(HOST)) as connection:
            connection.sock = self.connected(source)
            connection.request(method, path, None, {name.replace("_", "-"): value for name, value in headers.items()})
            response = connection.getresponse()
            return Response(response.status, response.headers, response.read())


@pytest.fixture
def ingress(frontend: Frontend, tmp_path: Path) -> Iterator[Ingress]:
    with tls_nginx(tmp_path, frontend.port) as found:
        yield Ingress(found)


def test_the_frontend_does_the_login_behind_tls(ingress: Ingress, upstream: ScriptedApi) -> None:
    refused = ingress.ask("GET", "/")
    assert (refused.status, refused.headers["WWW-Authenticate"]) == (401, 'Basic realm="marketdata", charset="UTF-8"')
    page = ingress.ask("GET", "/", **LOGIN, Accept_Encoding="gzip")
    assert (page.status, page.headers["Content-Encoding"]) == (200, "gzip")
    assert page.headers["Strict-Transport-Security"] == "max-age=31536000"
    assert ingress.ask("GET", "/", **LOGIN, Accept_Encoding="gzip", If_None_Match=page.headers["ETag"]).status == 304
    assert ingress.ask("GET", "/whoami", **LOGIN, X_Remote_User="root").json == {"user": "alice", "auth": "basic"}
    assert ingress.ask("GET", "/api/v1/x", **LOGIN).status == 200
    assert upstream.received[0].all("x-remote-user") == []


def test_plain_http_is_sent_to_tls(ingress: Ingress) -> None:
    with closing(http.client.HTTPConnection("127.0.0.1", ingress.nginx.plain_port, timeout=30)) as connection:
        connection.request("GET", "/?symbol=A", headers={"Host": HOST})
        answer = connection.getresponse()
        assert (answer.status, answer.headers["Location"]) == (308, f"https://{HOST}/?symbol=A")


def test_a_websocket_passes(ingress: Ingress, upstream: ScriptedApi) -> None:
    def script(_request: Received, connection: socket.socket) -> None:
        connection.sendall(answered("101 Switching Protocols", "Upgrade: websocket", "Connection: Upgrade") + b"early")
        connection.sendall(connection.recv(100).upper())

    upstream.script = script
    with ingress.connected() as client:
        client.sendall(
            f"GET /api/v1/live HTTP/1.1\r\nHost: {HOST}\r\nAuthorization: {basic()}\r\nOrigin: {ORIGIN}\r\n"
            "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: eHh4\r\n\r\n"
            .encode()
        )  # fmt: skip
        found = b""
        while not found.endswith(b"\r\n\r\nearly"):
            part = client.recv(4096)
            assert part, found
            found += part
        client.sendall(b"later")
        assert found.startswith(b"HTTP/1.1 101 ")
        assert client.recv(5) == b"LATER"


def test_wrong_passwords_slow_the_client_and_not_nginx(ingress: Ingress) -> None:
    """The client's own X-Forwarded-For changes nothing."""

    def tried(n: int, source: str) -> int:
        wrong = basic(f"user{n}", "wrong")
        return ingress.ask("GET", "/", source, Authorization=wrong, X_Forwarded_For=f"198.51.100.{n}").status

    assert [tried(n, "127.0.3.1") for n in range(BURST + 1)] == [401] * BURST + [429]
    assert tried(99, "127.0.3.2") == 401


def test_a_burst_of_the_page_passes_and_a_flood_does_not(ingress: Ingress) -> None:
    """The page loads some forty files at once."""
    with closing(http.client.HTTPConnection(HOST)) as connection:
        connection.sock = ingress.connected("127.0.3.3")
        found = []
        for _ in range(600):
            connection.request("GET", "/healthz")
            response = connection.getresponse()
            response.read()
            found.append(response.status)
    assert set(found[:400]) == {200}
    assert 429 in found
    assert ingress.ask("GET", "/healthz", "127.0.3.4").status == 200


def test_the_other_site_serves_over_tls_once_its_lines_are_uncommented(
    frontend_with: Callable[..., Frontend], tmp_path: Path
) -> None:
    certificate(tmp_path)
    frontend = frontend_with(BASIC_AUTH_MODE="off")
    with nginx(tmp_path, frontend.port, frontend.port, {"ann": PASSWORD}, tls=True) as found:
        answer = Ingress(found).ask("GET", "/whoami", Authorization=basic("ann", PASSWORD))
    assert (answer.status, answer.json) == (200, {"user": "ann", "auth": "proxy"})
    assert answer.headers["Strict-Transport-Security"] == "max-age=31536000"
