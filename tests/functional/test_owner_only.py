"""Only the service's account and root may use the TCP port. The test uses real other accounts."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.functional.listening import WAIT, Served, answer, has_ipv6, make_settings, serve
from tests.functional.other_accounts import NOBODY, SOMEBODY, needs_root, response_to, service_of

__all__ = ["serve"]
pytestmark = pytest.mark.functional

HOSTS = ["127.0.0.1", *(["::1", "::ffff:127.0.0.1"] if has_ipv6() else [])]


def app(environ: dict[str, Any], start_response: Any) -> list[bytes]:
    environ["wsgi.input"].read()
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"here"]


def test_the_services_account_is_admitted(serve: Callable[..., Served]) -> None:
    served = serve(app)
    for host in HOSTS:
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as client:
            client.settimeout(WAIT)
            client.connect((host, served.listener.port))
            client.sendall(served.head("GET / HTTP/1.1"))
            assert answer(client)[0] == 200, host
    assert served.status(transport="unix") == 200


@needs_root
def test_another_account_is_refused_unless_the_setting_admits_it(serve: Callable[..., Served], tmp_path: Path) -> None:
    port = serve(app).listener.port
    for host in HOSTS:
        for uid, name in ((NOBODY, "nobody (uid 65534)"), (SOMEBODY, "uid 65533")):
            status, problem = response_to(uid, port, host)
            assert (status, problem["code"]) == (403, "foreign_user"), host
            assert all(part in problem["detail"] for part in (name, "root (uid 0)", "CARD_API_PEERS"))
    tmp_path.chmod(0o700)
    open_to_all = serve(app, make_settings(tmp_path, CARD_API_PEERS="any"))
    assert response_to(NOBODY, open_to_all.listener.port) == (200, b"here")


@needs_root
def test_root_may_use_the_service_of_another_account(state_dir: Path) -> None:
    with service_of(NOBODY, state_dir) as port:
        assert response_to(NOBODY, port)[0] == 200
        assert response_to(0, port)[0] == 200
        status, problem = response_to(SOMEBODY, port)
        assert (status, problem["code"]) == (403, "foreign_user")
        assert "runs as nobody (uid 65534)" in problem["detail"]
