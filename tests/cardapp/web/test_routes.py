"""Every row of the route table: one example that succeeds, and the refusals that all rows share."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cardapp.publish import export
from cardapp.web import schemas
from cardapp.web.app import ROUTES
from cardapp.web.routing import Route
from tests.cardapp.web.conftest import ANNOTATION, BINDING, STRATEGY

ACTIVATION = {
    "snapshot_ref": "t1/b1/p1/s1/one",
    "generation": 2,
    "expected_binding": BINDING,
    "expected_identity": {"id": "small", "uuid": "u", "version": "1", "source_sha256": "0" * 64},
}

# A request that succeeds for each row: the path's parameters filled in, and the body. Every other row is a GET of its
# path.
EXAMPLES: dict[tuple[str, str], tuple[str, Any]] = {
    ("GET", "/static/{name}"): ("/static/page.js", None),
    ("GET", "/api/sheets"): ("/api/sheets?page=1", None),
    ("GET", "/api/diagram"): ("/api/diagram?key=t1/b1", None),
    ("GET", "/api/search"): ("/api/search?text=a", None),
    ("POST", "/api/session/restore"): ("/api/session/restore", {}),
    ("PUT", "/api/navigation/current"): ("/api/navigation/current", {"focus_level": "task", "task_id": "t2"}),
    ("POST", "/api/navigation/move"): ("/api/navigation/move", {"level": "step", "delta": 1}),
    ("POST", "/api/navigation/sync"): ("/api/navigation/sync", {}),
    ("POST", "/api/checkpoint/activate"): ("/api/checkpoint/activate", ACTIVATION),
    ("POST", "/api/checkpoint/cancel"): ("/api/checkpoint/cancel", {}),
    ("PUT", "/api/viewer/state"): ("/api/viewer/state", {"scale": 2}),
    ("PUT", "/api/editor/cursor"): ("/api/editor/cursor", {"row": 1, "column": 0}),
    ("POST", "/api/editor/input"): ("/api/editor/input", {"text": "j"}),
    ("POST", "/api/editor/reset"): ("/api/editor/reset", {}),
    ("POST", "/api/editor/redraw"): ("/api/editor/redraw", {"cols": 100, "rows": 30}),
    ("POST", "/api/program/{command}"): ("/api/program/step", {}),
    ("GET", "/api/strategies"): ("/api/strategies?key=t1", None),
    ("POST", "/api/strategies"): ("/api/strategies", STRATEGY),
    ("DELETE", "/api/strategies/{id}"): ("/api/strategies/s1?actor=me", None),
    ("POST", "/api/strategies/{id}/run"): ("/api/strategies/s1/run", {}),
    ("GET", "/api/annotations"): ("/api/annotations?key=t1", None),
    ("POST", "/api/annotations"): ("/api/annotations", ANNOTATION),
    ("POST", "/api/annotations/show"): ("/api/annotations/show", {}),
    ("POST", "/api/annotations/hide"): ("/api/annotations/hide", {}),
    ("POST", "/api/annotations/toggle"): ("/api/annotations/toggle", {}),
    ("DELETE", "/api/annotations/{id}"): ("/api/annotations/a1?actor=me", None),
    ("POST", "/api/annotations/{id}/show"): ("/api/annotations/a1/show", {}),
    ("POST", "/api/annotations/{id}/hide"): ("/api/annotations/a1/hide", {}),
    ("POST", "/api/annotations/{id}/toggle"): ("/api/annotations/a1/toggle", {}),
    ("PUT", "/api/progress/{itemId}"): ("/api/progress/t1.b1.p1.s1", {"status": "approved"}),
    ("POST", "/api/events"): ("/api/events", {"kind": "note", "actor": "me", "text": "hello"}),
    ("POST", "/api/events/{seq}/withdraw"): ("/api/events/1/withdraw", {"actor": "me"}),
    ("GET", "/api/answers"): ("/api/answers?key=t1/b1/p1/s1/one", None),
    ("POST", "/api/predictions/read"): (
        "/api/predictions/read",
        {"key": "t1/b1/p1/s1/one", "values": {"n": "8u"}},
    ),
    ("POST", "/api/evidence"): ("/api/evidence?caption=a", b"png"),
    ("PUT", "/api/cards/current"): ("/api/cards/current", {"card": "small"}),
    ("POST", "/api/learners"): ("/api/learners", {"name": "Ada"}),
    ("PUT", "/api/learners/current"): ("/api/learners/current", {"name": "unnamed"}),
    ("GET", "/api/evidence/{name}"): ("/api/evidence/{name}", None),
}


BODIES = [route for route in ROUTES if route.body is not None and "application/json" in route.body.media_types]
JSON = {"Content-Type": "application/json"}
PNG = {"Content-Type": "image/png"}


def name_of(route: Route) -> str:
    return f"{route.method} {route.path}"


def path_of(route: Route) -> str:
    return example(route)[0]


def example(route: Route) -> tuple[str, Any]:
    return EXAMPLES.get((route.method, route.path)) or (route.path, None)


@pytest.fixture
def running_session(state_dir: Path) -> Iterator[None]:
    """A process listens on the socket of the session ``small``."""
    folder = state_dir / "sessions" / "small" / "run"
    folder.mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "mcp.sock"))
        listener.listen()
        yield


@pytest.fixture
def quick_pdf(monkeypatch: pytest.MonkeyPatch) -> None:
    """A PDF made without LuaLaTeX, which takes seconds."""
    monkeypatch.setitem(export.EMITTERS, "pdf", lambda *_: export.ExportedFile(b"%PDF-1.5"))


def test_each_row_is_there_once() -> None:
    keys = [(route.method, route.path) for route in ROUTES]
    assert len(keys) == len(set(keys))
    assert {*EXAMPLES} <= {*keys}


@pytest.mark.usefixtures("explained", "running_session", "quick_pdf")
def test_each_example_succeeds_as_documented_and_head_is_get_without_a_body(api: Any, picture: bytes) -> None:
    caching = {"no-cache": "no-cache", "no-store": "no-store"}
    note = api("POST", "/api/events", {"kind": "note", "actor": "me", "text": "hello"}).json["seq"]
    stored = api("POST", "/api/evidence", raw=picture, headers=PNG).json["name"]
    # An annotation is removed before its strategy, which would take it along, and both after all others.
    for route in sorted(ROUTES, key=lambda each: (each.method == "DELETE", each.path)):
        path, body = example(route)
        path = path.replace("{name}", stored).replace("/1/withdraw", f"/{note}/withdraw")
        raw = picture if isinstance(body, bytes) else None
        response = api(route.method, path, None if raw else body, raw=raw, headers=PNG if raw else {})
        assert response.status_int == route.status, (name_of(route), response.text)
        expected = caching.get(route.cache, "private, max-age=31536000, immutable")
        assert response.headers["Cache-Control"] == expected, name_of(route)
        if route.status == 201:
            assert response.headers["Location"].startswith("/api/"), name_of(route)
        if route.method == "GET":
            assert api("HEAD", path, status=200).body == b"", name_of(route)


def test_the_page_and_its_files_ignore_the_query(api: Any) -> None:
    for path in ("/", "/api/sheets/style.css", "/static/page.js", "/static/NotoSans-Regular.woff2"):
        plain = api("GET", path, status=200).body
        for query in ("debug=timing", "r=1&r=2", "%ff"):
            assert api("GET", f"{path}?{query}", status=200).body == plain, (path, query)


def test_an_unknown_query_parameter_is_refused(api: Any) -> None:
    for route in ROUTES:
        if route.ignores_query:
            continue
        path, body = example(route)
        sent = (None, PNG) if isinstance(body, bytes) else (body, {})
        path = f"{path}{'&' if '?' in path else '?'}no_such=1"
        found = api.problem(route.method, path, sent[0], headers=sent[1], status=422, code="invalid_value")
        assert "no_such" in found["detail"], name_of(route)


def test_another_method_is_refused_with_those_allowed(api: Any) -> None:
    for route in ROUTES:
        allowed = api("PATCH", path_of(route).partition("?")[0], status=405).headers["Allow"].split(", ")
        assert {route.method, "HEAD" if route.method == "GET" else route.method} <= {*allowed}, name_of(route)


# -- JSON bodies -------------------------------------------------------------------------------------------------------


def test_a_body_that_is_no_json_object_is_malformed(api: Any) -> None:
    for route in BODIES:
        for raw in (b"\n", b"[]"):  # b"\n" is not the same as no body at all
            api.problem(route.method, path_of(route), raw=raw, headers=JSON, status=400, code="malformed_json")
    # The decoder of Python 3.11 follows less than 1000 levels, the one of Python 3.13 nearly 10 000.
    deep = [b'{"a":' + b"[" * depth + b"]" * depth + b"}" for depth in (1500, 9000, 30_000)]
    for raw in (b"{", b"1", b"null", b'{"a":1,"a":2}', b'{"a":NaN}', b"\xff", b'{"a":"\\ud800"}', *deep):
        api.problem("POST", "/api/events", raw=raw, headers=JSON, status=400, code="malformed_json")


def test_every_fault_of_a_body_is_listed_and_true_is_no_integer(api: Any) -> None:
    for route in BODIES:
        assert route.body is not None
        path, body = example(route)
        properties = schemas.definition(route.body.schema)["properties"]
        numbers = [name for name, part in properties.items() if part.get("type") == "integer"]
        wrong = {**body, **dict.fromkeys(numbers, True), "no_such": 1}
        found = api.problem(route.method, path, wrong, status=422, code="invalid_value")
        pointers = [fault["pointer"] for fault in found["errors"]]
        assert sorted(pointers) == sorted(f"/{name}" for name in (*numbers, "no_such")), name_of(route)


def test_each_required_field_is_missed(api: Any) -> None:
    for route in BODIES:
        assert route.body is not None
        path, body = example(route)
        for name in schemas.definition(route.body.schema).get("required", ()):
            less = {key: value for key, value in body.items() if key != name}
            found = api.problem(route.method, path, less, status=422, code="invalid_value")
            assert found["errors"] == [{"pointer": f"/{name}", "message": "is missing"}], name_of(route)


@pytest.mark.usefixtures("explained")
def test_a_missing_body_is_empty_only_where_it_may_be(api: Any) -> None:
    for route in BODIES:
        assert route.body is not None
        found = api(route.method, path_of(route), status=200 if route.body.optional else 400)
        assert route.body.optional or found.json["code"] == "malformed_json", name_of(route)


def test_a_body_over_the_limit_is_too_large(api: Any) -> None:
    for route in BODIES:
        raw = b"{}" + b" " * (64 * 1024)
        api.problem(route.method, path_of(route), raw=raw, headers=JSON, status=413, code="too_large")


# -- conditional requests, paths and numbers ---------------------------------------------------------------------------


def test_what_the_client_has_is_not_sent_again(api: Any) -> None:
    for path in (path_of(route) for route in ROUTES if route.cache == "no-cache"):
        tag = api("GET", path, status=200).headers["ETag"]
        assert tag.startswith('"'), path
        again = api("GET", path, headers={"If-None-Match": tag}, status=304)
        assert (again.body, again.headers["ETag"]) == (b"", tag), path
        assert "Content-Length" not in again.headers, path
        api("HEAD", path, headers={"If-None-Match": tag}, status=304)
        api("GET", path, headers={"If-None-Match": '"another"'}, status=200)


def test_a_path_that_is_not_there(api: Any) -> None:
    for path in ("/api", "/api/", "/api/identity/", "/favicon.ico", "/api/editor-ui", "/api/ident%FFity"):
        api.problem("GET", path, status=404, code="not_found")


def test_a_number_without_a_fraction_is_an_integer_and_nothing_else_is(api: Any, editor: Any, checkpoints: Any) -> None:
    for method, path, body in (
        ("POST", "/api/navigation/move", {"level": "step", "delta": 1.0}),
        ("PUT", "/api/editor/cursor", {"row": 1.0, "column": 0.0, "window": 1e3}),
        ("PUT", "/api/viewer/state", {"scroll": {"page_index": 1.0}, "expected_revision": 0.0}),
        ("POST", "/api/checkpoint/activate", ACTIVATION | {"generation": 2.0}),
    ):
        found = api(method, path, raw=json.dumps(body).encode(), headers=JSON, status=200)
        assert not re.search(r":-?[0-9]+\.0[,}]", found.text), path
    assert [part for call in (*editor.calls, *checkpoints.calls) for part in call if isinstance(part, float)] == []
    for value in (True, 1.5, "1", None):
        body = {"level": "step", "delta": value}
        found = api.problem("POST", "/api/navigation/move", body, status=422, code="invalid_value")
        assert found["errors"][0]["pointer"] == "/delta", value
