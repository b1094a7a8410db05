"""Every endpoint on both listeners, with a real session. Each response matches its schema."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from cardapp.web import schemas
from cardapp.web.app import ROUTES
from cardapp.web.http import JSON
from cardapp.web.routing import Route
from tests.functional.serving import Api, Background, Stage, picture, position, until

pytestmark = pytest.mark.functional

KEY = "t1/b1/p1/quick/first"
SLOW = "t1/b1/p1/slow/only"
ITEM = "t1.b1.p1.quick"
NOTE = {"kind": "note", "actor": "ada", "text": "hello"}
STRATEGY = {"key": KEY, "label": "Look", "commands": ["print 1 + 1"], "expected_observations": ["2"]}
ANNOTATION = {
    "key": KEY,
    "target": {"part": "t1/b1/p1/quick:step_title", "x": 0, "y": 0, "w": 1, "h": 1},
    "geometry": {"points": [[0, 0], [1, 1]]},
    "style": {"kind": "box"},
}


def bodies(stage: Stage) -> dict[str, Any]:
    """A valid body for every route that has one."""
    return {
        "PUT /api/navigation/current": position("quick", "first", actor="ada"),
        "POST /api/navigation/move": {"level": "step", "delta": 1},
        "POST /api/navigation/sync": {"actor": "ada"},
        "POST /api/checkpoint/activate": stage.activation(KEY),
        "POST /api/checkpoint/cancel": {"actor": "ada"},
        "PUT /api/viewer/state": {"scale": 1.5, "viewer": {"allocator": {"visible": True}}},
        "PUT /api/editor/cursor": {"row": 3, "column": 0},
        "POST /api/editor/input": {"text": "<Esc>"},
        "POST /api/editor/reset": {},
        "POST /api/editor/redraw": {"cols": 120, "rows": 40},
        "POST /api/program/{command}": {"actor": "ada"},
        "POST /api/session/restore": {"actor": "ada"},
        "PUT /api/progress/{itemId}": {"status": "approved", "note": "seen", "actor": "ada"},
        "POST /api/events": NOTE,
        "POST /api/events/{seq}/withdraw": {"actor": "ada", "reason": "wrong step"},
        "POST /api/strategies": STRATEGY,
        "POST /api/annotations": ANNOTATION,
        "POST /api/learners": {"name": f"Ada {uuid4()}"},
        "PUT /api/learners/current": {"name": "unnamed"},
    }


def filled(api: Api, path: str) -> str:
    """The path with names and ids that exist."""
    if "{seq}" in path:
        path = path.replace("{seq}", str(api.post("/api/events", NOTE).json["seq"]))
    if path.startswith("/api/strategies/{id}"):
        path = path.replace("{id}", api.post("/api/strategies", STRATEGY).json["id"])
    if path.startswith("/api/annotations/{id}"):
        path = path.replace("{id}", api.post("/api/annotations", ANNOTATION).json["id"])
    return path.replace("{itemId}", ITEM).replace("{command}", "next")


def call(api: Api, stage: Stage, route: Route) -> Any:
    path = filled(api, route.path)
    name = f"{route.method} {route.path}"
    if name == "POST /api/evidence":
        return api.request("POST", path, picture(1), {"Content-Type": "image/png"})
    if route.path == "/static/{name}":
        path = "/static/page.js"
    elif "{name}" in path:
        stored = api.request("POST", "/api/evidence", picture(2), {"Content-Type": "image/png"})
        path = stored.headers["Location"]
    body = bodies(stage).get(name, {}) if route.body else None
    if name == "PUT /api/cards/current":
        body = {"card": api.get("/api/cards")["current"]}
    if route.path == "/api/program/{command}":
        assert api.post("/api/navigation/sync").status == 200
    if name == "POST /api/checkpoint/cancel":
        activation = stage.activation(SLOW)
        running = Background(lambda: api.post("/api/checkpoint/activate", activation))
        stage.running(SLOW)
        cancelled = api.post(path, body)
        assert running.answer().json["code"] == "cancelled_by_request"
        return cancelled
    return api.request(route.method, path, body)


@pytest.mark.parametrize(
    "route",
    [pytest.param(each, marks=pytest.mark.full if each.path.endswith(".pdf") else []) for each in ROUTES],
    ids=lambda route: f"{route.method} {route.path}",
)
def test_every_endpoint_answers(api: Api, stage: Stage, route: Route) -> None:
    api.put("/api/navigation/current", position("quick"))
    answer = call(api, stage, route)
    assert answer.status == route.status, answer.body
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    media_type = answer.headers["Content-Type"].partition(";")[0]
    assert media_type in {each.partition(";")[0] for each in route.produces}
    if route.answer is not None and media_type == JSON:
        assert schemas.faults(route.answer, answer.json) == ()
    else:
        assert answer.body
    if answer.status == 201:
        assert answer.headers["Location"]


@pytest.mark.parametrize(
    "path",
    [
        "/api/identity",
        "/api/card-revision",
        "/api/state",
        "/api/control/state",
        "/api/navigation/catalog",
        "/api/navigation/current",
        "/api/viewer/state",
        "/api/progress",
        "/api/checkpoint/status",
        "/api/keyboard",
        "/api/openapi.json",
    ],
)
def test_a_state_that_did_not_change_is_not_sent_again(api: Api, path: str) -> None:
    def unchanged() -> bool:
        tag = api.request("GET", path).headers["ETag"]
        assert tag.startswith('"')
        answer = api.request("GET", path, headers={"If-None-Match": tag})
        return answer.status == 304 and not answer.body

    until(unchanged, 5)


def test_both_listeners_serve_one_application(stage: Stage) -> None:
    stage.tcp.put("/api/navigation/current", position("quick"))
    moved = stage.unix.post("/api/navigation/move", {"level": "step", "delta": 1}).json
    assert stage.tcp.get("/api/navigation/current")["key"] == moved["key"] == "t1/b1/p1/slow"


def test_a_stale_revision_is_refused(api: Api) -> None:
    for path, body in (
        ("/api/navigation/current", position("quick")),
        ("/api/viewer/state", {"scale": 2}),
        (f"/api/progress/{ITEM}", {"status": "pending"}),
    ):
        before = api.put(path, body)
        revision = before.json["revision"]
        refused = api.put(path, {**body, "expected_revision": revision - 1})
        assert (refused.status, refused.json["code"]) == (409, "revision_conflict"), refused.body
        assert api.put(path, {**body, "expected_revision": revision}).status == 200


@pytest.mark.parametrize("route", [r for r in ROUTES if r.body], ids=lambda route: f"{route.method} {route.path}")
def test_a_request_without_body_and_type_is_answered_as_documented(api: Api, route: Route) -> None:
    answer = api.request(route.method, filled(api, route.path))
    assert answer.status in ({200, 409} if route.body and route.body.optional else {400, 415, 422}), answer.body
