"""The rules on the Origin and the Host of a request."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

from tests.marketdata.frontend.conftest import LOGIN, ORIGIN, Frontend
from tests.marketdata.frontend.scripted_api import ScriptedApi

WEBSOCKET = {"Upgrade": "websocket", "Connection": "Upgrade"}


def test_an_unsafe_request_of_another_origin_is_refused(frontend: Frontend, upstream: ScriptedApi) -> None:
    own = f"http://127.0.0.1:{frontend.port}"
    foreign = ("https://evil.example", "null", own.replace("http", "https"), f"{own}0", f"{own}, {own}", "")
    for method, origin in product(("POST", "PUT", "DELETE", "PATCH", "BREW"), foreign):
        answer = frontend.ask(method, "/api/v1/x", **LOGIN, Origin=origin)
        assert (answer.status, answer.json["code"]) == (403, "foreign_origin"), (method, origin)
    assert upstream.received == []
    for origin in (own, ORIGIN):
        assert frontend.ask("POST", "/api/v1/x", **LOGIN, Origin=origin).status == 200
    assert frontend.ask("POST", "/api/v1/x", **LOGIN).status == 200  # a program sends no Origin
    # The browser does not let the other page read the answer to a safe request.
    assert frontend.get("/api/v1/x", Origin="https://evil.example").status == 200


def test_a_websocket_of_another_origin_is_refused(frontend: Frontend, upstream: ScriptedApi) -> None:
    for origin in ({}, {"Origin": "https://evil.example"}, {"Origin": "null"}, {"Origin": "http://127.0.0.1"}):
        answer = frontend.get("/api/v1/live", **WEBSOCKET, **origin)
        assert (answer.status, answer.json["code"]) == (403, "foreign_origin"), origin
    assert frontend.get("/api/v1/x", Upgrade="h2c", Origin="https://evil.example").status == 403
    assert upstream.received == []


def test_without_a_login_only_known_hosts_are_served(
    frontend_with: Callable[..., Frontend], upstream: ScriptedApi
) -> None:
    found = frontend_with(BASIC_AUTH_MODE="off")
    for host in ("127.0.0.1", "localhost", "LOCALHOST:9", "[::1]:8081", "127.1.2.3:80", "charts.example.org"):
        assert found.ask("GET", "/whoami", Host=host).status == 200, host
    foreign = (
        "evil.example",
        "localhost.evil.example",
        "127.0.0.1.evil.example:8081",
        "charts.example.org:81",
        "[::2]",
    )
    for host, path in product(foreign, ("/", "/whoami", "/api/v1/chart")):
        answer = found.ask("GET", path, Host=host)
        assert (answer.status, answer.json["code"]) == (421, "wrong_host"), host
    assert upstream.received == []


def test_with_a_login_any_host_is_served(frontend: Frontend) -> None:
    """After DNS rebinding a browser sends no credentials, because it has none for the attacker's host name."""
    assert frontend.get("/whoami", Host="charts.example.net").status == 200


def test_without_a_login_a_trusted_proxy_names_the_user(frontend_with: Callable[..., Frontend]) -> None:
    found = frontend_with(BASIC_AUTH_MODE="off")
    assert found.ask("GET", "/whoami").json == {"user": None, "auth": "none"}
    assert found.ask("GET", "/whoami", X_Remote_User="bob").json == {"user": "bob", "auth": "proxy"}
    assert found.ask("GET", "/whoami", X_Remote_User=" ").json == {"user": None, "auth": "none"}


def test_with_a_login_the_proxys_user_is_ignored(frontend: Frontend) -> None:
    assert frontend.get("/whoami", X_Remote_User="bob").json == {"user": "alice", "auth": "basic"}
    assert frontend.ask("GET", "/whoami", X_Remote_User="bob").status == 401


def test_a_logout_from_another_site_is_refused(frontend: Frontend) -> None:
    """A page could otherwise log its visitors out with a picture of this address."""
    for site in ("cross-site", "same-site", "CROSS-SITE", ""):
        answer = frontend.get("/logout", Sec_Fetch_Site=site)
        assert (answer.status, answer.json["code"]) == (403, "foreign_origin"), site
    for site in ({}, {"Sec-Fetch-Site": "none"}, {"Sec-Fetch-Site": "same-origin"}):
        assert frontend.get("/logout", **site).status == 401, site


def test_a_probe_by_address_needs_no_known_host(frontend_with: Callable[..., Frontend]) -> None:
    found = frontend_with(BASIC_AUTH_MODE="off")
    for host in ("10.0.0.5:8081", "pod-7.internal"):
        answer = found.ask("GET", "/healthz", Host=host)
        assert (answer.status, answer.json) == (200, {"status": "ok"}), host
