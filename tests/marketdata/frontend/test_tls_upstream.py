"""``API_UPSTREAM=https://…``: the token is sent only to an API with a trusted certificate."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.marketdata.frontend.conftest import LOGIN, TOKEN, running
from tests.marketdata.frontend.nginx import certificate
from tests.marketdata.frontend.scripted_api import Received, ScriptedApi, answered, scripted_api
from tests.marketdata.frontend.test_tunnels import SWITCHED, opened, received


@pytest.fixture(scope="module")
def trust(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The certificate of localhost. Its key is beside it."""
    folder = tmp_path_factory.mktemp("tls")
    certificate(folder, "localhost")
    return folder / "marketdata.crt"


@pytest.fixture
def api(trust: Path) -> Iterator[ScriptedApi]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(trust, trust.with_suffix(".key"))
    with scripted_api(context) as found:
        yield found


@pytest.fixture
def trusted(trust: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(trust))


@pytest.mark.usefixtures("trusted")
def test_a_trusted_api_answers_over_one_connection(api: ScriptedApi, state_dir: Path) -> None:
    body = bytes(range(256)) * 4000
    api.script = lambda _request, _connection: answered("200 OK", f"Content-Length: {len(body)}", body=body)
    with running(state_dir, f"https://localhost:{api.port}/base") as frontend:
        for _ in range(5):
            answer = frontend.get("/api/v1/x?y")
            assert (answer.status, answer.body) == (200, body)
        assert frontend.ask("POST", "/api/v1/x", body, **LOGIN).status == 200
    assert [each.line for each in api.received] == ["GET /base/v1/x?y HTTP/1.1"] * 5 + ["POST /base/v1/x HTTP/1.1"]
    assert all(each.all("authorization") == [f"Bearer {TOKEN}"] for each in api.received)
    assert all(each.all("host") == [f"localhost:{api.port}"] for each in api.received)
    assert api.received[-1].body == body
    assert api.connections == 2  # a request with a body uses a fresh connection, because it cannot be sent again


@pytest.mark.usefixtures("trusted")
def test_a_websocket_works_over_tls(api: ScriptedApi, state_dir: Path) -> None:
    """Bytes that TLS has already read are passed on, although the socket has nothing more to read."""
    data = bytes(range(256)) * 20_000
    found = bytearray()
    taken = threading.Event()

    def script(_request: Received, connection: socket.socket) -> bytes | None:
        connection.sendall(SWITCHED + data)
        while len(found) < len(data) and (part := connection.recv(65536)):
            found.extend(part)
        taken.set()
        return None

    api.script = script
    with running(state_dir, f"https://localhost:{api.port}") as frontend, closing(opened(frontend.port)[0]) as client:
        assert received(client, len(data)) == data
        client.sendall(data)
        assert taken.wait(20)
        assert found == data
        assert client.recv(1) == b""


def test_an_untrusted_api_gets_nothing(
    api: ScriptedApi, state_dir: Path, trust: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for host in ("localhost", "127.0.0.1"):  # the certificate is not trusted; it belongs to another host
        with running(state_dir, f"https://{host}:{api.port}") as frontend:
            answer = frontend.get("/api/v1/x")
        assert (answer.status, answer.json["code"]) == (502, "upstream_failed"), host
        assert "the certificate of API_UPSTREAM is not trusted" in answer.json["detail"]
        assert "SSL_CERT_FILE" in answer.json["detail"]
        monkeypatch.setenv("SSL_CERT_FILE", str(trust))
    assert api.received == []
