"""The real API behind the frontend, and both behind the real nginx."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Error

from marketdata.api.serve import Service, Times
from tests.capabilities import need, needs
from tests.marketdata.api import live_client
from tests.marketdata.api.conftest import new_token, prepare
from tests.marketdata.api.live_client import LiveClient
from tests.marketdata.frontend.conftest import ORIGIN, PASSWORD, USER, Frontend, asked, basic, running
from tests.marketdata.frontend.nginx import PROGRAM, Nginx, nginx
from tests.marketdata.frontend.scripted_api import ScriptedApi, scripted_api

CHART = "/api/v1/chart?symbol=TEST:A&interval=1m"
ANN = basic("ann", "the password of ann")
HANDSHAKE = live_client.handshake

needs_nginx = needs(PROGRAM, "nginx (Debian package nginx)")


class Market:
    """The API over PostgreSQL, with one stored tick. ``read`` is the token that nobody may see."""

    def __init__(self, folder: Path, database: str) -> None:
        self.service = Service(prepare(folder, database), times=Times(sweep=0.05, heartbeat=0.1))
        self.service.start()
        self.read = new_token(database, "read", "frontend")
        self._write = new_token(database, "write")
        self.store("a")

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.service.port}"

    def store(self, name: str) -> None:
        tick = {"symbol": "TEST:A", "id": name, "ts": 1_700_000_000_000, "price": "1.5", "size": "2"}
        headers = {"Authorization": f"Bearer {self._write}", "Content-Type": "application/json"}
        answer = asked(self.service.port, "POST", "/v1/ingest/tick", json.dumps(tick).encode(), **headers)
        assert answer.status == 201


@pytest.fixture(scope="module")
def market(database: str) -> Iterator[Market]:
    with tempfile.TemporaryDirectory(prefix="market-", dir="/tmp") as folder:
        found = Market(Path(folder), database)
        yield found
        found.service.stop()


@pytest.fixture(scope="module")
def open_frontend(market: Market) -> Iterator[Frontend]:
    """A frontend that asks for no login."""
    with (
        tempfile.TemporaryDirectory(prefix="market-", dir="/tmp") as folder,
        running(Path(folder), market.url, market.read, BASIC_AUTH_MODE="off") as found,
    ):
        yield found


@pytest.fixture(scope="module")
def console() -> Iterator[ScriptedApi]:
    """A stand-in for the GraphQL backend."""
    with scripted_api() as api:
        yield api


@pytest.fixture(scope="module")
def ingress(open_frontend: Frontend, console: ScriptedApi) -> Iterator[Nginx]:
    need(PROGRAM, "nginx (Debian package nginx)")
    users = {name: f"the password of {name}" for name in ("ann", "bob")}
    with (
        tempfile.TemporaryDirectory(prefix="market-", dir="/tmp") as folder,
        nginx(Path(folder), open_frontend.port, console.port, users) as found,
    ):
        yield found


def live(port: int, monkeypatch: pytest.MonkeyPatch, **fields: str) -> LiveClient:
    """A client of ``/api/v1/live``, with these header fields instead of a token."""

    def handshake(_token: str | None) -> bytes:
        return HANDSHAKE(None, **fields).replace(b"GET /v1/live ", b"GET /api/v1/live ")

    monkeypatch.setattr(live_client, "handshake", handshake)
    return LiveClient(port, "")


# -- the frontend alone ----------------------------------------------------------------------------------------------


def test_a_logged_in_user_gets_candles(market: Market, state_dir: Path) -> None:
    with running(state_dir, market.url, market.read) as frontend:
        answer = frontend.get(CHART)
        assert (answer.status, answer.json["candles"][0]["o"]) == (200, "1.5")
        assert frontend.ask("GET", CHART).status == 401
        again = frontend.get(CHART, If_None_Match=answer.headers["ETag"])
        assert (again.status, again.body) == (304, b"")
        lines = frontend.get("/api/v1/ticks?symbol=TEST:A&format=ndjson").body.splitlines()
        assert json.loads(lines[0])["id"] == "a"
        assert [frontend.get(path).status for path in ("/api/v1/udf/config", "/api/openapi.json")] == [200, 200]
        assert frontend.get("/api/nothing").json["code"] == "not_found"


def test_the_frontend_cannot_write(open_frontend: Frontend) -> None:
    for method, path in (("POST", "/api/v1/ingest/tick"), ("PUT", "/api/v1/coverage"), ("DELETE", "/api/v1/lease/x")):
        answer = open_frontend.ask(method, path, b"{}", Content_Type="application/json")
        assert (answer.status, answer.json["code"]) == (403, "insufficient_scope")


def test_ticks_are_pushed_through_the_frontend(
    market: Market, open_frontend: Frontend, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = f"http://127.0.0.1:{open_frontend.port}"
    fields = {"Host": own.removeprefix("http://"), "Origin": own}
    with live(open_frontend.port, monkeypatch, **fields) as client:
        assert market.read not in client.head
        assert client.subscribe("TEST:A", "1m")["type"] == "subscribed"
        market.store("pushed")
        assert client.candles()[0]["n"] >= 2
        while client.heartbeats < 2:
            with suppress(TimeoutError):
                client.receive(0.1)


# -- behind nginx ----------------------------------------------------------------------------------------------------


@needs_nginx
def test_users_log_in_at_nginx(ingress: Nginx) -> None:
    for name, source in (("ann", "127.0.1.1"), ("bob", "127.0.1.2")):
        login = {"Authorization": basic(name, f"the password of {name}"), "Host": "charts.example.org"}
        for path in ("/", CHART):
            answer = asked(ingress.port, "GET", path, source=source, **login)
            again = asked(ingress.port, "GET", path, source=source, **login, If_None_Match=answer.headers["ETag"])
            assert (answer.status, again.status) == (200, 304), path
        assert asked(ingress.port, "GET", "/whoami", source=source, **login).json == {"user": name, "auth": "proxy"}
        for wrong in ({}, {"Authorization": basic(name, "wrong")}):
            assert asked(ingress.port, "GET", "/", source=source, **wrong).status == 401


@needs_nginx
def test_a_client_cannot_name_its_own_user(ingress: Nginx, market: Market) -> None:
    fields = {"Authorization": ANN, "Host": "charts.example.org", "X_Remote_User": "root", "Origin": ORIGIN}
    assert asked(ingress.port, "GET", "/whoami", **fields).json == {"user": "ann", "auth": "proxy"}
    assert asked(ingress.port, "POST", "/api/v1/x", b"", **fields).status == 404
    foreign = fields | {"Origin": "https://evil.example"}
    assert asked(ingress.port, "POST", "/api/v1/x", b"", **foreign).status == 403
    assert asked(ingress.port, "GET", "/whoami", Authorization=ANN, Host="evil.example").status == 421
    assert asked(ingress.port, "GET", "/healthz", Host="charts.example.org").status == 200
    assert market.read not in ingress.log()


@needs_nginx
def test_ambiguous_paths_fail_behind_nginx(ingress: Nginx) -> None:
    for path in (
        "/api/metrics", "/api/v1/admin/tokens", "/api/v1/../metrics", "/api/%2e%2e/api/metrics", "/api//metrics",
        "/graphql/../api/metrics", "/api/v1/%61dmin/tokens", "/api%2fmetrics",
    ):  # fmt: skip
        answer = asked(ingress.port, "GET", path, Authorization=ANN, Host="charts.example.org")
        assert answer.status in (400, 404), path


def test_a_browser_asks_again_after_logout(market: Market, state_dir: Path, browser: Browser) -> None:
    """The browser keeps the password. Without a window, it shows a 401 instead of a prompt."""
    with running(state_dir, market.url, market.read) as frontend, closing(browser.new_context()) as context:
        address = f"127.0.0.1:{frontend.port}/"
        page = context.new_page()

        def opened(credentials: str = "") -> int:
            with page.expect_response(lambda each: each.url.endswith(address)) as answer, suppress(Error):
                page.goto(f"http://{credentials}{address}")
            return answer.value.status

        assert opened() == 401
        assert opened(f"{quote(USER)}:{quote(PASSWORD)}@") == 200
        assert opened() == 200
        page.locator("#user", has_text=USER).wait_for()
        with page.expect_response("**/logout") as leaving:
            page.get_by_role("link", name="Log out").click()
        assert leaving.value.status == 401
        page.get_by_text("You are logged out").wait_for()
        assert opened() == 401


@needs_nginx
def test_the_console_has_a_separate_login(ingress: Nginx, console: ScriptedApi) -> None:
    console.received.clear()
    admin = basic("admin", "the password of admin")
    for wrong in ({}, {"Authorization": ANN}):
        answer = asked(ingress.port, "GET", "/graphql/console", **wrong)
        assert (answer.status, answer.headers["WWW-Authenticate"]) == (401, 'Basic realm="GraphQL console"')
    assert asked(ingress.port, "GET", "/whoami", Authorization=admin, Host="charts.example.org").status == 401
    assert console.received == []
    assert asked(ingress.port, "GET", "/graphql/console", Authorization=admin).status == 200
    (request,) = console.received
    assert request.line == "GET /console HTTP/1.1"
    assert request.all("authorization") == []


@needs_nginx
def test_ticks_are_pushed_through_nginx(market: Market, ingress: Nginx, monkeypatch: pytest.MonkeyPatch) -> None:
    fields = {"Host": "charts.example.org", "Origin": ORIGIN, "Authorization": ANN}
    with live(ingress.port, monkeypatch, **fields) as client:
        assert client.subscribe("TEST:A", "1h")["type"] == "subscribed"
        market.store("through-nginx")
        assert client.candles()[0]["t"] == 1_699_999_200_000
    foreign = fields | {"Origin": "https://evil.example", "Connection": "Upgrade", "Upgrade": "websocket"}
    assert asked(ingress.port, "GET", "/api/v1/live", **foreign).status == 403
