"""A frontend with one user, in front of a scripted API or the real API."""

from __future__ import annotations

import base64
import http.client
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import bcrypt
import pytest

from marketdata import secretfile
from marketdata.frontend.serve import MAX_TUNNELS, Service
from marketdata.frontend.times import Times
from marketdata.settings import load
from tests.functional.chromium import browser, pytest_runtest_setup, pytest_runtest_teardown  # noqa: F401
from tests.marketdata.frontend.scripted_api import ScriptedApi, scripted_api

TOKEN = "md_ThisIsTheReadTokenThatNobodyMaySee00"
USER, PASSWORD = "alice", "correct horse battery"
ORIGIN = "https://charts.example.org"


def basic(name: str = USER, password: str = PASSWORD) -> str:
    return "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()


LOGIN = {"Authorization": basic()}


def quick_hash(password: str) -> str:
    """A hash of the smallest cost, so that a test need not wait."""
    return bcrypt.hashpw(password.encode(), bcrypt.gensalt(4)).decode()


HASH = quick_hash(PASSWORD)


@dataclass(frozen=True)
class Response:
    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def asked(
    port: int, method: str, path: str, body: bytes | None = None, *, source: str = "127.0.0.1", **headers: str
) -> Response:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=30, source_address=(source, 0))) as connection:
        connection.request(method, path, body, sent)
        response = connection.getresponse()
        return Response(response.status, response.headers, response.read())


@dataclass
class Frontend:
    """A running frontend; ``secrets`` is the folder of its files."""

    service: Service
    secrets: Path

    @property
    def port(self) -> int:
        return self.service.port

    def ask(self, method: str, path: str, body: bytes | None = None, **headers: str) -> Response:
        """Send one request on a new connection. Underscores in the names of ``headers`` become hyphens."""
        return asked(self.port, method, path, body, **headers)

    def get(self, path: str, **headers: str) -> Response:
        """Send a GET request with the login, unless ``Authorization`` is given."""
        return self.ask("GET", path, **{**LOGIN, **headers})

    def set_users(self, **passwords: str) -> None:
        users = {name: quick_hash(password) for name, password in passwords.items()}
        secretfile.write(self.secrets / secretfile.FRONTEND_USERS, {"users": users})


TIMES = Times(file_check=0.0)
"""The frontend looks at its files at each use, so that a test need not wait after it has changed one."""


@contextmanager
def running(
    state: Path,
    upstream: str,
    token: str = TOKEN,
    *,
    times: Mapping[str, float] = MappingProxyType({}),
    max_tunnels: int = MAX_TUNNELS,
    **settings: str,
) -> Iterator[Frontend]:
    """A running frontend. ``times`` replaces some of :class:`Times`."""
    found = load(
        {
            "MARKET_STATE_DIR": str(state),
            "MARKET_FRONTEND_PORT": "0",
            "MARKET_FRONTEND_ORIGINS": ORIGIN,
            "API_UPSTREAM": upstream,
            **settings,
        }
    )
    found.secrets_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_files(found.secrets_dir, token)
    service = Service(found, replace(TIMES, **times), max_tunnels)
    service.start()
    try:
        yield Frontend(service, found.secrets_dir)
    finally:
        service.stop()


def write_files(folder: Path, token: str = TOKEN) -> None:
    secretfile.write(folder / secretfile.READ_TOKEN, {"token": token, "scope": "read", "name": "read"})
    secretfile.write(folder / secretfile.FRONTEND_USERS, {"users": {USER: HASH}})


@pytest.fixture(scope="module")
def shared() -> Iterator[tuple[Frontend, ScriptedApi]]:
    with (
        tempfile.TemporaryDirectory(prefix="market-", dir="/tmp") as folder,
        scripted_api() as api,
        running(Path(folder), f"http://127.0.0.1:{api.port}") as found,
    ):
        yield found, api


@pytest.fixture
def upstream(shared: tuple[Frontend, ScriptedApi]) -> ScriptedApi:
    """The API behind the module's frontend. Its list of received requests is empty."""
    api = shared[1]
    api.script = ScriptedApi.script
    api.received.clear()
    return api


@pytest.fixture
def frontend(shared: tuple[Frontend, ScriptedApi], upstream: ScriptedApi) -> Frontend:
    """The module's frontend. After the test, its files are restored."""
    found = shared[0]
    write_files(found.secrets)
    return found


@pytest.fixture
def fresh(state_dir: Path) -> Iterator[tuple[Frontend, ScriptedApi]]:
    """A new frontend and a new API, without kept connections and without failed logins."""
    with scripted_api() as api, running(state_dir, f"http://127.0.0.1:{api.port}") as found:
        yield found, api


@pytest.fixture
def frontend_with(upstream: ScriptedApi, state_dir: Path) -> Iterator[Callable[..., Frontend]]:
    """``frontend_with(BASIC_AUTH_MODE="off")``: a frontend with these arguments of :func:`running`."""
    with ExitStack() as stack:

        def start(upstream: str = f"http://127.0.0.1:{upstream.port}", **settings: Any) -> Frontend:
            return stack.enter_context(running(state_dir, upstream, **settings))

        yield start
