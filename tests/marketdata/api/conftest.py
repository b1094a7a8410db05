"""The data API over a real database: one service for a module, its routes called through webtest.

Every answer is checked against the route table: its status must be documented, and its body must be valid by its
schema.
"""

from __future__ import annotations

import json
import re
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from marketdata import secretfile
from marketdata.api import schemas
from marketdata.api.app import ROUTES, make_app
from marketdata.api.binance_errors import AS_BINANCE
from marketdata.api.routing import AS_PROBLEM, Route
from marketdata.api.serve import USUAL_TIMES, Service, Times
from marketdata.http.reply import PROBLEM
from marketdata.http.wsgi import StartResponse, WsgiApp
from marketdata.operations.setup import initialise, make_version
from marketdata.settings import Settings, load
from marketdata.store import tokens
from marketdata.store.pool import connect
from tests.marketdata.api.live_client import LiveClient

with warnings.catch_warnings():
    # WebOb still imports the standard library's deprecated cgi module.
    warnings.simplefilter("ignore", DeprecationWarning)
    import webtest

Make = Callable[..., dict[str, Any]]
"""The type of the fixture ``tick``."""
ADMIN_SECRET = "an-administrators-secret-long-enough"


def settings_for(folder: Path, database: str) -> Settings:
    """Settings with an administrator's secret in its file."""
    settings = load({"MARKET_STATE_DIR": str(folder), "DATABASE_URL": database, "MARKET_API_PORT": "0"})
    settings.secrets_dir.mkdir(mode=0o700)
    secretfile.write(settings.secrets_dir / secretfile.ADMIN_SECRET, {"token": ADMIN_SECRET})
    return settings


def prepare(folder: Path, database: str, shard_count: int | None = None) -> Settings:
    """The same over an empty database, in which version 1 is made. With ``shard_count``, Citus distributes the version
    over as many shards."""
    settings = settings_for(folder, database)
    with connect(database) as connection:
        initialise(connection, lambda _text: None)
        make_version(connection, settings, 1, lambda _text: None, shard_count)
    return settings


def new_token(database: str, scope: Any, name: str = "test") -> str:
    with connect(database) as connection:
        return tokens.create(connection, name, scope)[1]


@pytest.fixture(scope="module")
def database(new_database: Callable[..., str]) -> str:
    """The connection string of the module's database, with version 1."""
    return new_database(versions=1)


@pytest.fixture(scope="module")
def service_settings(database: str) -> Iterator[Settings]:
    with tempfile.TemporaryDirectory(prefix="market-", dir="/tmp") as folder:
        yield settings_for(Path(folder), database)


@pytest.fixture(scope="module")
def service(service_settings: Settings) -> Iterator[Service]:
    running = Service(service_settings)
    running.start()
    yield running
    running.stop()


@pytest.fixture(scope="module")
def read_token(database: str, service: Service) -> str:
    return new_token(database, "read")


@pytest.fixture(scope="module")
def write_token(database: str, service: Service) -> str:
    return new_token(database, "write")


@pytest.fixture
def admin(database: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(database, autocommit=True) as connection:
        yield connection


def waiting_for_locks(connection: psycopg.Connection[Any]) -> int:
    """How many statements wait for a table of this database."""
    row = connection.execute(
        "SELECT count(*) FROM pg_locks JOIN pg_database d ON d.oid = database"
        " WHERE datname = current_database() AND NOT granted"
    ).fetchone()
    assert row is not None
    return int(row[0])


@contextmanager
def without_storing(admin: psycopg.Connection[Any]) -> Iterator[None]:
    """Nothing can be stored meanwhile, but stored data can be read, as the service's own check does."""
    with admin.transaction():
        admin.execute("LOCK TABLE md_symbols_v1 IN EXCLUSIVE MODE")
        yield


def now() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def eventually(done: Callable[[], bool]) -> None:
    """Wait until ``done()`` is true. The limit of a minute is longer than anything here may take."""
    waiting = threading.Event()
    for _ in range(1200):
        if done():
            return
        waiting.wait(0.05)
    pytest.fail("did not happen within a minute")


def with_files(app: WsgiApp) -> WsgiApp:
    """Gives the application the request's body as a file, as the listener does. The validator of webtest hides all but
    the methods that WSGI requires."""

    def application(environ: dict[str, Any], start_response: StartResponse) -> Any:
        body = environ["wsgi.input"]
        return app(environ | {"wsgi.input": getattr(body, "input", body)}, start_response)

    return application


class Api:
    """A client of the application. ``tokens`` has the credential for each scope."""

    def __init__(self, service: Service, read: str, write: str) -> None:
        self.service = service
        self.app = webtest.TestApp(with_files(make_app(service.services)))
        self.tokens = {"read": read, "write": write, "any": read, "admin": ADMIN_SECRET}

    def __call__(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        raw: bytes | None = None,
        headers: dict[str, str] | None = None,
        authorization: str | None = "as the route wants",
        status: int | None = None,
    ) -> webtest.TestResponse:
        """Send a request, by default with the route's credentials; the response must be a documented one."""
        route = route_of(method, path)
        sent = dict(headers or {})
        if authorization == "as the route wants":
            authorization = f"Bearer {self.tokens[route.scope]}" if route and route.scope else None
        if authorization is not None:
            sent["Authorization"] = authorization
        data = raw
        if body is not None:
            data = json.dumps(body).encode()
        if data is not None:
            sent.setdefault("Content-Type", "application/json")
        response = self.app.request(path, method=method, headers=sent, body=data or b"", expect_errors=True)
        if status is not None:
            assert response.status_int == status, response.text
        check_documented(method, route, response)
        return response

    def get(self, path: str, **options: Any) -> Any:
        """The JSON of a successful GET."""
        return self("GET", path, status=200, **options).json

    def problem(self, method: str, path: str, body: Any = None, *, status: int, code: str, **options: Any) -> Any:
        """The body of a refusal, which must have this status and code."""
        found = self(method, path, body, status=status, **options).json
        assert found["code"] == code, found
        return found

    def ingest(self, *items: Any, status: int = 200) -> Any:
        """Send a batch, and return the answer."""
        return self("POST", "/v1/ingest/tick", {"ticks": list(items)}, status=status).json


def route_of(method: str, path: str) -> Route | None:
    wanted = "GET" if method == "HEAD" else method
    bare = path.partition("?")[0]
    for route in ROUTES:
        pattern = re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(route.path))
        if route.method == wanted and re.fullmatch(pattern, bare):
            return route
    return None


def check_documented(method: str, route: Route | None, response: webtest.TestResponse) -> None:
    """Fail when an answer is not as its route's row and schemas say."""
    status = response.status_int
    if route is None:
        assert status in (404, 405)
    else:
        assert status in route.documented(), f"{route.path} {status}: {response.text[:500]}"
    if status >= 400:
        is_of_binance = response.request.environ["PATH_INFO"].startswith("/api/v3/")
        shape = AS_BINANCE if is_of_binance else AS_PROBLEM if route is None else route.errors
        assert response.content_type == shape.media_type
        assert response.headers["Cache-Control"] == "no-store"
        assert ("Retry-After" in response.headers) == (status in (429, 503, 507))
        if method != "HEAD":
            check_shape(shape.schema, response.json)
            is_unreadable = response.json["code"] in ("invalid_request", -2014)
            assert ("WWW-Authenticate" in response.headers) == (status in (401, 403) or is_unreadable)
            assert response.json.get("status", status) == status
            if route is not None and shape.media_type == PROBLEM:
                assert response.json["code"] in route.codes()[status], response.text
    elif route is not None and status not in (204, 304):
        assert response.headers["Content-Type"] in route.produces
        if route.answer is not None and method != "HEAD" and response.content_type == "application/json":
            check_shape(route.answer, response.json)
        if route.revalidated:
            assert response.headers.get("ETag", "").startswith('W/"') or response.content_type != "application/json"
            assert response.headers["Cache-Control"] == "private, no-cache"


def check_shape(schema: str, value: Any) -> None:
    faults = schemas.faults(schema, value)
    assert not faults, f"{schema}: {faults}"


@pytest.fixture
def api(service: Service, read_token: str, write_token: str) -> Api:
    return Api(service, read_token, write_token)


@contextmanager
def running_api(settings: Settings, times: Times = USUAL_TIMES) -> Iterator[Api]:
    """A service of the test's own, with fresh tokens."""
    service, database = Service(settings, times=times), settings.database_url or ""
    service.start()
    try:
        yield Api(service, new_token(database, "read"), new_token(database, "write"))
    finally:
        service.stop()


@pytest.fixture
def client(service: Service, read_token: str) -> Iterator[LiveClient]:
    """A live connection with the token for reads."""
    with LiveClient(service.port, read_token) as connected:
        yield connected


@pytest.fixture(scope="session")
def tick() -> Make:
    """``tick(id="a", ts=…)``: a tick as a client sends it, with these members changed."""

    def make(**members: Any) -> dict[str, Any]:
        return {"symbol": "TEST:A", "id": "a", "ts": 1_700_000_000_000, "price": "1.5", "size": "2", **members}

    return make
