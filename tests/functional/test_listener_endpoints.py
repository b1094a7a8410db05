"""The whole service without a session: every row of the route table on both listeners."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from cardapp import settings as settings_module
from cardapp.serve import Service
from cardapp.web import schemas
from cardapp.web.app import ROUTES
from cardapp.web.http import JSON
from cardapp.web.routing import Route

pytestmark = pytest.mark.functional

SECONDS = 60  # the first PDF takes a long time
STOP = "bump/anatomy/empty/fields/initialised"
IDENTITY = {"id": "a", "uuid": "b", "version": "c", "source_sha256": "d"}
BINDING = {"container_id": "a", "instance": "b", "profile": "c", "target": "d"}
BODIES: dict[str, Any] = {
    "PositionRequest": {"focus_level": "card"},
    "MoveRequest": {"level": "step", "delta": 1},
    "ActivateRequest": {
        "snapshot_ref": "a/b/c/d/e",
        "generation": 1,
        "expected_binding": BINDING,
        "expected_identity": IDENTITY,
    },
    "ViewerRequest": {"viewer": {"allocator": {"visible": True}}},
    "CursorRequest": {"row": 1, "column": 0},
    "InputRequest": {"text": "j"},
    "ProgressRequest": {"status": "approved"},
    "EventRequest": {"kind": "note", "actor": "me", "text": "hello"},
    "WithdrawRequest": {"actor": "me"},
    "StrategyRequest": {"key": STOP, "label": "Look", "commands": ["backtrace"]},
    "AnnotationRequest": {
        "key": STOP,
        "target": {"part": "bump/anatomy/empty/fields:step_title", "x": 0, "y": 0, "w": 1, "h": 1},
        "geometry": {"points": [[0, 0], [1, 1]]},
        "style": {"kind": "box"},
    },
    "ChosenLearner": {"name": "unnamed"},
    "ChosenCard": {"card": "another"},
}
# Without a session these cannot succeed. The error says why, and what to do next.
NO_SESSION = {
    ("GET", "/api/session"): 503,
    ("POST", "/api/session/restore"): 503,
    ("POST", "/api/navigation/sync"): 503,
    ("POST", "/api/checkpoint/activate"): 422,
    ("POST", "/api/checkpoint/cancel"): 409,
    ("PUT", "/api/editor/cursor"): 503,
    ("POST", "/api/editor/input"): 503,
    ("POST", "/api/editor/reset"): 503,
    ("POST", "/api/editor/redraw"): 503,
    ("GET", "/api/program"): 503,
    ("POST", "/api/program/{command}"): 503,
    ("POST", "/api/strategies/{id}/run"): 503,
    ("PUT", "/api/cards/current"): 404,
    ("POST", "/api/evidence"): 415,
    ("GET", "/api/evidence/{name}"): 404,
}


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=SECONDS)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("s")
    folder.chmod(0o700)
    service = Service(settings_module.load({"CARD_STATE_DIR": str(folder), "CARD_API_PORT": "0"}))
    service.start()
    yield service
    service.stop()


@pytest.fixture(params=["tcp", "unix"])
def connection(request: pytest.FixtureRequest, service: Service) -> Iterator[http.client.HTTPConnection]:
    if request.param == "tcp":
        connection = http.client.HTTPConnection("127.0.0.1", service.listener.port, timeout=SECONDS)
    else:
        connection = UnixConnection(service.settings.api_socket)
    yield connection
    connection.close()


def row(route: Route) -> Any:
    """LuaLaTeX takes long for the PDF of a whole card, so it needs --full. test_endpoints.py makes the PDF of a small
    card."""
    marks = [pytest.mark.full] if route.path == "/api/sheets/card.pdf" else []
    return pytest.param(route, marks=marks, id=f"{route.method} {route.path}")


@pytest.mark.parametrize("route", [row(route) for route in ROUTES])
def test_every_row_answers_as_documented(
    route: Route, connection: http.client.HTTPConnection, service: Service
) -> None:
    if route.path == "/api/navigation/sync":  # at the card's level it would be refused for another reason
        place = service.services.card_loader.current().catalog.at("step")[0].key.split("/")
        names = ("task_id", "block_id", "phase_id", "step_id")
        position = {**dict(zip(names, place, strict=True)), "focus_level": "step"}
        assert ask(connection, "PUT", "/api/navigation/current", position)[0] == 200
    step = service.services.card_loader.current().catalog.at("step")[0].key.replace("/", ".")
    name = "page.js" if route.path.startswith("/static/") else f"{'0' * 64}.png"
    path = route.path.replace("{itemId}", step).replace("{name}", name).replace("{command}", "step")
    path = with_ids(connection, path)
    body = BODIES.get(route.body.schema, {}) if route.body is not None else None
    if route.path == "/api/learners":
        body = {"name": f"Ada {uuid4()}"}
    kind = "image/png" if route.path == "/api/evidence" else "application/json"
    status, media_type, raw = ask(connection, route.method, path, body, kind)
    expected = NO_SESSION.get((route.method, route.path), route.status)
    assert status == expected, raw[:500]
    assert status in route.statuses()
    if status >= 400:
        assert media_type == "application/problem+json"
        assert not schemas.faults("Problem", json.loads(raw))
    else:
        assert media_type in route.produces
        if route.answer is not None and media_type == JSON:
            assert not schemas.faults(route.answer, json.loads(raw))


def with_ids(connection: http.client.HTTPConnection, path: str) -> str:
    """The path, completed with the number of a new note or the id of a new strategy or annotation."""
    for start, place, schema in (
        ("/api/events", "{seq}", "EventRequest"),
        ("/api/strategies", "{id}", "StrategyRequest"),
        ("/api/annotations", "{id}", "AnnotationRequest"),
    ):
        if path.startswith(start) and place in path:
            made = json.loads(ask(connection, "POST", start, BODIES[schema])[2])
            return path.replace(place, str(made[place.strip("{}")]))
    return path


def ask(
    connection: http.client.HTTPConnection, method: str, path: str, body: Any = None, kind: str = "application/json"
) -> tuple[int, str | None, bytes]:
    data = json.dumps(body).encode() if body is not None else None
    connection.request(method, path, data, {"Content-Type": kind} if data else {})
    response = connection.getresponse()
    return response.status, response.headers["Content-Type"], response.read()
