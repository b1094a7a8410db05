"""Only the service's account and root may use the TCP port. The test uses real other accounts."""

from __future__ import annotations

import http.client
import os
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cardapp import settings as settings_module
from cardapp.errors import MissingRequirement
from cardapp.web import peer
from cardapp.web.listener import Listener
from tests.functional.other_accounts import NOBODY, SOMEBODY, needs_root, response_to, service_of
from tests.functional.test_listener import needs_ipv6

pytestmark = pytest.mark.functional

HOSTS = ["127.0.0.1", pytest.param("::1", marks=needs_ipv6), pytest.param("::ffff:127.0.0.1", marks=needs_ipv6)]


def app(environ: dict[str, Any], start_response: Any) -> list[bytes]:
    environ["wsgi.input"].read()
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"here"]


@pytest.fixture
def start(state_dir: Path) -> Iterator[Callable[..., Listener]]:
    started: list[Listener] = []

    def start(**environment: str) -> Listener:
        names = {"CARD_STATE_DIR": str(state_dir), "CARD_API_PORT": "0", **environment}
        started.append(Listener(settings_module.load(names), app))
        started[-1].start()
        return started[-1]

    yield start
    for listener in started:
        listener.stop()


@pytest.fixture(params=["sock_diag", "proc"])
def source(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The source from which the owner of a connection is read."""
    if request.param == "proc":
        monkeypatch.setattr(peer, "Netlink", no_netlink)
    return str(request.param)


def no_netlink() -> None:
    raise PermissionError("netlink is not allowed here")


@needs_root
@pytest.mark.usefixtures("source")
@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize(("uid", "name"), [(NOBODY, "nobody (uid 65534)"), (SOMEBODY, "uid 65533")])
def test_another_account_is_refused(start: Callable[..., Listener], host: str, uid: int, name: str) -> None:
    status, problem = response_to(uid, start().port, host)
    assert (status, problem["code"]) == (403, "foreign_user")
    assert all(part in problem["detail"] for part in (name, "root (uid 0)", "CARD_API_PEERS"))


@pytest.mark.usefixtures("source")
@pytest.mark.parametrize("host", HOSTS)
def test_the_services_account_is_admitted(start: Callable[..., Listener], host: str) -> None:
    port = start().port
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as client:
        client.connect((host, port))
        client.sendall(f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
        response = http.client.HTTPResponse(client)
        response.begin()
        assert response.status == 200


@needs_root
def test_any_account_is_admitted_where_the_setting_says_so(start: Callable[..., Listener]) -> None:
    assert response_to(NOBODY, start(CARD_API_PEERS="any").port) == (200, b"here")


@needs_root
def test_root_may_use_the_service_of_another_account(state_dir: Path) -> None:
    with service_of(NOBODY, state_dir) as port:
        assert response_to(NOBODY, port)[0] == 200
        assert response_to(0, port)[0] == 200
        status, problem = response_to(SOMEBODY, port)
        assert (status, problem["code"]) == (403, "foreign_user")
        assert "runs as nobody (uid 65534)" in problem["detail"]


@pytest.mark.usefixtures("source")
def test_a_client_that_closes_its_side_before_it_is_accepted_is_refused(start: Callable[..., Listener]) -> None:
    """For a socket that its process has closed, the kernel reports uid 0. The client must not be taken for root."""
    listener = start()
    assert listener._loop is not None
    accepting, released = threading.Event(), threading.Event()

    def hold() -> None:
        accepting.set()
        released.wait(10)

    listener._loop.call(hold)
    assert accepting.wait(10)
    with socket.create_connection(("127.0.0.1", listener.port), timeout=10) as client:
        client.sendall(f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{listener.port}\r\n\r\n".encode())
        client.shutdown(socket.SHUT_WR)
        released.set()
        response = http.client.HTTPResponse(client)
        response.begin()
        assert response.status == 403
        assert b"could not be determined" in response.read()


@pytest.mark.usefixtures("source")
def test_a_request_whose_client_has_closed_the_connection_is_not_served(state_dir: Path) -> None:
    """The client sends a request and closes the connection before it is accepted. The application must not run."""
    served: list[str] = []

    def recording(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        served.append(environ["PATH_INFO"])
        return app(environ, start_response)

    names = {"CARD_STATE_DIR": str(state_dir), "CARD_API_PORT": "0"}
    listener = Listener(settings_module.load(names), recording)
    listener.start()
    try:
        assert listener._loop is not None
        accepting, released = threading.Event(), threading.Event()
        listener._loop.call(lambda: (accepting.set(), released.wait(10)))
        assert accepting.wait(10)
        with socket.create_connection(("127.0.0.1", listener.port), timeout=10) as client:
            client.sendall(f"GET /left HTTP/1.1\r\nHost: 127.0.0.1:{listener.port}\r\n\r\n".encode())
        released.set()
        connection = http.client.HTTPConnection("127.0.0.1", listener.port, timeout=10)
        connection.request("GET", "/stayed")
        assert connection.getresponse().status == 200
        connection.close()
    finally:
        listener.stop()
    assert served == ["/stayed"]


def test_the_unix_socket_needs_no_lookup(start: Callable[..., Listener], monkeypatch: pytest.MonkeyPatch) -> None:
    listener = start()
    monkeypatch.setattr(peer.OwnerOnly, "refusal", lambda *_: pytest.fail("looked up"))
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(listener._settings.api_socket))
        client.sendall(b"GET / HTTP/1.1\r\n\r\n")
        response = http.client.HTTPResponse(client)
        response.begin()
        assert response.status == 200


def test_a_lookup_that_fails_admits_nobody(start: Callable[..., Listener], monkeypatch: pytest.MonkeyPatch) -> None:
    broken = [True]
    real = peer.is_established

    def is_established(accepted: socket.socket) -> bool:
        if broken[0]:
            raise RuntimeError("a defect")
        return real(accepted)

    monkeypatch.setattr(peer, "is_established", is_established)
    listener = start()
    assert request(listener.port) == 500
    broken[0] = False
    assert request(listener.port) == 200, "the service continues"


def request(port: int) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", "/")
        return connection.getresponse().status
    finally:
        connection.close()


def test_a_start_without_any_lookup_is_refused(
    start: Callable[..., Listener], monkeypatch: pytest.MonkeyPatch, state_dir: Path
) -> None:
    monkeypatch.setattr(peer, "Netlink", no_netlink)
    monkeypatch.setattr(peer, "_TABLES", {4: ("/nonexistent",), 6: ("/nonexistent",)})
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(MissingRequirement, match="CARD_API_PEERS=any"):
        start()
    assert len(os.listdir("/proc/self/fd")) == before
    assert not (state_dir / "card-api.sock").exists()
    assert request(start(CARD_API_PEERS="any").port) == 200
