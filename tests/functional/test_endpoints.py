"""Every endpoint of the whole service on both listeners, with a real session and without one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from cardapp.serve import Service
from cardapp.web import schemas
from cardapp.web.app import ROUTES
from cardapp.web.http import JSON
from cardapp.web.routing import Route
from tests.functional.serving import Api, Response, Stage, picture, position, running_service

pytestmark = pytest.mark.functional

KEY = "t1/b1/p1/quick/first"
ITEM = "t1.b1.p1.quick"
NOTE = {"kind": "note", "actor": "ada", "text": "hello"}
STRATEGY = {"key": KEY, "label": "Look", "commands": ["print 1 + 1"], "expected_observations": ["2"]}
ANNOTATION = {
    "key": KEY,
    "target": {"part": "t1/b1/p1/quick:step_title", "x": 0, "y": 0, "w": 1, "h": 1},
    "geometry": {"points": [[0, 0], [1, 1]]},
    "style": {"kind": "box"},
}
BODIES: dict[str, Any] = {
    "PUT /api/navigation/current": position("quick", "first", actor="ada"),
    "POST /api/navigation/move": {"level": "step", "delta": 1},
    "PUT /api/viewer/state": {"scale": 1.5, "viewer": {"allocator": {"visible": True}}},
    "PUT /api/editor/cursor": {"row": 3, "column": 0},
    "POST /api/editor/input": {"text": "<Esc>"},
    "POST /api/editor/redraw": {"cols": 120, "rows": 40},
    "PUT /api/progress/{itemId}": {"status": "approved", "note": "seen", "actor": "ada"},
    "POST /api/events": NOTE,
    "POST /api/predictions/read": {"key": KEY, "values": {"n": "8u"}},
    "POST /api/events/{seq}/withdraw": {"actor": "ada", "reason": "wrong step"},
    "POST /api/strategies": STRATEGY,
    "POST /api/annotations": ANNOTATION,
    "PUT /api/learners/current": {"name": "unnamed"},
    "PUT /api/cards/current": {"card": "probe"},
}
"""The bodies of requests. The other requests have an empty body or none."""

NO_SESSION = {
    "GET /api/session": 503,
    "POST /api/session/restore": 503,
    "POST /api/navigation/sync": 503,
    "POST /api/checkpoint/activate": 503,
    "POST /api/checkpoint/cancel": 409,
    "PUT /api/editor/cursor": 503,
    "POST /api/editor/input": 503,
    "POST /api/editor/reset": 503,
    "POST /api/editor/redraw": 503,
    "GET /api/program": 503,
    "POST /api/program/{command}": 503,
    "POST /api/strategies/{id}/run": 503,
    "PUT /api/cards/current": 409,
}
"""Without a session these cannot succeed."""


def name_of(route: Route) -> str:
    return f"{route.method} {route.path}"


def filled(api: Api, path: str) -> str:
    """The path with names and ids that exist."""
    if "{seq}" in path:
        path = path.replace("{seq}", str(api.post("/api/events", NOTE).json["seq"]))
    if path.startswith("/api/strategies/{id}"):
        path = path.replace("{id}", api.post("/api/strategies", STRATEGY).json["id"])
    if path.startswith("/api/annotations/{id}"):
        path = path.replace("{id}", api.post("/api/annotations", ANNOTATION).json["id"])
    if path.startswith("/api/evidence/{name}"):
        path = api.request("POST", "/api/evidence", picture(2), {"Content-Type": "image/png"}).headers["Location"]
    return path.replace("{name}", "page.js").replace("{itemId}", ITEM).replace("{command}", "next")


def call(api: Api, route: Route, body: Any = None) -> Response:
    """Send a valid request of ``route``, from the position ``quick``."""
    api.put("/api/navigation/current", position("quick"))
    name, path = name_of(route), filled(api, route.path)
    if name == "POST /api/evidence":
        return api.request("POST", path, picture(1), {"Content-Type": "image/png"})
    if name == "POST /api/learners":
        body = {"name": f"Ada {uuid4()}"}
    return api.request(route.method, path, body or BODIES.get(name, {}) if route.body else None)


def assert_documented(route: Route, answer: Response, status: int) -> None:
    assert answer.status == status, (name_of(route), answer.body[:500])
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    media_type = answer.headers["Content-Type"].partition(";")[0]
    if status >= 400:
        assert status in route.statuses(), name_of(route)
        assert media_type == "application/problem+json"
        assert schemas.faults("Problem", answer.json) == (), name_of(route)
        return
    assert media_type in {each.partition(";")[0] for each in route.produces}, name_of(route)
    if route.answer is not None and media_type == JSON:
        assert schemas.faults(route.answer, answer.json) == (), name_of(route)
    else:
        assert answer.body, name_of(route)
    if answer.status == 201:
        assert answer.headers["Location"], name_of(route)


WITHOUT_PDF = [route for route in ROUTES if not route.path.endswith(".pdf")]
"""LuaLaTeX takes seconds for a PDF, which other tests make."""


def test_every_endpoint_answers_with_a_session(stage: Stage) -> None:
    for number, route in enumerate(WITHOUT_PDF):
        api, name, body = (stage.tcp, stage.unix)[number % 2], name_of(route), None
        if name == "POST /api/checkpoint/activate":
            body = stage.activation(KEY)
        elif name == "PUT /api/cards/current":
            body = {"card": "s"}
        elif name == "POST /api/checkpoint/cancel":
            continue  # the next test has an operation that can be cancelled
        elif route.path == "/api/program/{command}":
            api.put("/api/navigation/current", position("quick"))
            assert api.post("/api/navigation/sync").status == 200
        assert_documented(route, call(api, route, body), route.status)


@pytest.fixture
def service() -> Iterator[Service]:
    with running_service() as service:
        yield service


def test_every_endpoint_answers_without_a_session(service: Service) -> None:
    """An error says why, and what to do next."""
    listeners = Api.tcp(service.listener.port), Api.unix(service.settings.api_socket)
    for number, route in enumerate(WITHOUT_PDF):
        api, body = listeners[number % 2], None
        if route.path == "/api/checkpoint/activate":
            expected = dict.fromkeys(("container_id", "instance", "profile", "target"), "a")
            identity = api.get("/api/identity")
            body = {"snapshot_ref": KEY, "generation": 1, "expected_binding": expected, "expected_identity": identity}
        assert_documented(route, call(api, route, body), NO_SESSION.get(name_of(route), route.status))
    for route in ROUTES:
        if route.body is not None:
            status = api.request(route.method, filled(api, route.path)).status
            allowed = {200, 409, 503} if route.body.optional else {400, 415, 422}
            assert status in allowed, f"{name_of(route)} without a body: {status}"
