"""The API with a small card, a real database and stand-ins for the session. Every response is checked against the
description."""

from __future__ import annotations

import itertools
import json
import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cardapp import settings as settings_module
from cardapp.card_loader import CardLoader
from cardapp.errors import CardAppError, SessionUnavailable
from cardapp.publish.sheet_pages import SheetPages
from cardapp.session_client.editor_panels import EditorPanels
from cardapp.session_client.link import SessionLink
from cardapp.session_client.series import Series
from cardapp.session_client.sync import Control
from cardapp.state import checkpoint_results
from cardapp.state.database import Database
from cardapp.web import schemas
from cardapp.web.app import ROUTES, intakes, make_app
from cardapp.web.gate import SECURITY_HEADERS, Gate, Tcp
from cardapp.web.live import LiveFeed
from cardapp.web.routing import Route
from cardapp.web.services import Services
from tests.functional.serving import picture as one_pixel

with warnings.catch_warnings():
    # WebOb still imports the standard library's deprecated cgi module.
    warnings.simplefilter("ignore", DeprecationWarning)
    import webtest

SESSION_CARD = {"id": "small", "uuid": "u", "version": "1", "source_sha256": "0" * 64, "title": "Small"}
BINDING = {"container_id": "c-1", "instance": "i-1", "profile": "local", "target": "small"}
READING = {
    "base": 4096, "size": 64, "used": 24, "high_water": None, "blocks": [{"offset": 8, "size": 16, "label": "p"}]
}  # fmt: skip


def card_source(*, allocator: bool = True) -> dict[str, Any]:
    """Two tasks, three blocks, four steps; t1/b1/p1/s1 has two snapshots."""

    def step(name: str, *snapshots: str) -> dict[str, Any]:
        stop = {"file": "a.c", "line": 3, "text": "x"}
        found = [{"id": each, "title": each, "stop": stop, "expect": {"n": "1"}} for each in snapshots]
        return {"id": name, "title": f"Step {name}", "snapshots": found}

    def block(name: str, *steps: dict[str, Any]) -> dict[str, Any]:
        return {"id": name, "title": name, "goal": "", "phases": [{"id": "p1", "title": "p1", "steps": list(steps)}]}

    first = [block("b1", step("s1", "one", "two"), step("s2", "one")), block("b2", step("s1", "one"))]
    second = [block("b1", step("s1", "one"))]
    source: dict[str, Any] = {
        "schema": "card-source.v1", "id": "small", "uuid": "11111111-2222-3333-4444-555555555555",
        "version": "1.0.0", "title": "Small", "language": "en", "layout": "karta-classic",
        "target": {"name": "small", "directory": "src", "build": ["make"], "program": "small", "sources": ["a.c"]},
        "tasks": [{"id": "t1", "title": "First", "blocks": first}, {"id": "t2", "title": "Second", "blocks": second}],
    }  # fmt: skip
    if allocator:
        source["allocator"] = {"base": "a.base", "size": "a.size", "used": "a.used"}
    return source


class StandIn:
    """A part of the service that records its calls. ``answers`` contains the results; an exception in it is raised."""

    def __init__(self, **answers: Any) -> None:
        self.answers: dict[str, Any] = answers
        self.calls: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            self.calls.append((name, *arguments))
            answer = self.answers[name]
            if isinstance(answer, Exception):
                raise answer
            return answer

        return call


def operation(**members: Any) -> dict[str, Any]:
    """A finished operation, in the form of the checkpoints' status."""
    return {
        "operation_id": "op-1", "generation": 1, "snapshot_ref": "t1/b1/p1/s1/one", "state": "ready",
        "stage": "verifying", "started_at": "2025-03-01T10:00:00.000Z", "finished_at": "2025-03-01T10:00:00.200Z",
        "duration_ms": 200.5, "binding": BINDING,
        "identity": {"id": "small", "uuid": "u", "version": "1", "source_sha256": "0" * 64},
        "code": None, "reason": None, "observed": observed(), "failure": None, **members,
    }  # fmt: skip


def observed(allocator: dict[str, Any] | None = None) -> dict[str, Any]:
    return {
        "file": "a.c", "line": 3, "function": "main", "method": "rerun", "allocator": allocator,
        "checks": [{"name": "n", "expected": "1", "actual": "1", "match": True}],
        "compared": 1,
        "partly": 0,
        "values": {"n": {"value": "1", "error": None}},
    }  # fmt: skip


EDITOR_STATE = {
    "available": True, "reason": None, "blocking": False, "mode": "n", "terminal_attached": False,
    "buffer": {"number": 1, "name": "a.c", "line_count": 9, "modified": False, "filetype": "c"},
    "window": {"id": 1000, "width": 80, "height": 24}, "cursor": {"row": 1, "column": 0},
    "grid": {"cols": 80, "rows": 24},
}  # fmt: skip


@pytest.fixture
def checkpoints() -> StandIn:
    return StandIn(
        status={"generation": 1, "active": None, "last": operation()},
        **dict.fromkeys(("sync", "activate", "bring_to"), operation()), **dict.fromkeys(("cancel", "active")),
        fallbacks={"late_pc_sign": 2, "no_checkpoint": 0, "failed_restart": 0, "second_run": 1},
    )  # fmt: skip


@pytest.fixture
def editor() -> StandIn:
    return StandIn(
        availability={"available": True, "reason": None}, state=EDITOR_STATE, set_cursor=EDITOR_STATE,
        input={"accepted": 1},
        reset={"stop_id": "s-2", "debugger_restarted": False, "editor_restarted": False},
        redraw={"host": {"cols": 80, "rows": 24}, "grid": {"cols": 80, "rows": 24}},
    )  # fmt: skip


PROGRAM = {
    "state": "stopped", "reason": None, "file": "a.c", "line": 3, "function": "main",
    "frames": [{"level": 0, "function": "main", "file": "a.c", "line": 3}],
    "locals": [{"name": "n", "type": "int", "value": "1"}],
}  # fmt: skip


@pytest.fixture
def program() -> StandIn:
    run = {"state": "stopped", "stop_id": "s-1", "outputs": ["$1 = 1"]}
    return StandIn(move="stopped", read=PROGRAM, run=run, constants={})


@pytest.fixture
def sessions() -> StandIn:
    shown = {"name": "main", "binding": BINDING, "card": SESSION_CARD, "mismatch": None, "changes": []}
    card = {name: SESSION_CARD[name] for name in ("id", "uuid", "title")}
    return StandIn(
        describe=shown | {"runtime": "local", "mcp_socket": "/tmp/mcp.sock"},
        brief=shown | {"available": True, "reason": None},
        known={"name": "main", "card": card, "mismatch": None},
        restore=[{"file": "a.c", "backup": "a.c.orig"}],
    )


@pytest.fixture
def no_session(sessions: StandIn) -> SessionUnavailable:
    """Make the service one without a session. Returns the error that it reports."""
    error = SessionUnavailable("no session is chosen: start one")
    sessions.answers["describe"] = error
    nothing = dict.fromkeys(("name", "binding", "card", "mismatch", "changes"))
    sessions.answers["brief"] = {"available": False, "reason": error.detail, **nothing}
    sessions.answers["known"] = {"name": None, "card": None, "mismatch": None}
    return error


@pytest.fixture
def card_file(tmp_path: Path) -> Path:
    folder = tmp_path / "card"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "a.c").write_text("x\nx\nx\n")
    file = folder / "card_source.json"
    file.write_text(json.dumps(card_source()))
    return file


@pytest.fixture
def services(
    state_dir: Path, card_file: Path, checkpoints: StandIn, editor: StandIn, program: StandIn, sessions: StandIn,
    empty_database: bytes,
) -> Iterator[Services]:  # fmt: skip
    ticks = itertools.count()

    def clock() -> str:
        return f"2025-03-01T10:00:{next(ticks) % 60:02}.000Z"

    settings = settings_module.load(
        {"CARD_STATE_DIR": str(state_dir), "CARD_SOURCE": str(card_file), "CARD_EVIDENCE_MAX_BYTES": "200000"}
    )
    settings.state_database.write_bytes(empty_database)
    database = Database.open(settings.state_database)
    card_loader = CardLoader(card_file)
    control = Control(
        card_loader=card_loader, database=database, active=lambda: None, session=sessions.known, clock=clock
    )
    sheets = SheetPages(card_loader.current, lambda: card_loader.revision()["revision"])
    live = LiveFeed(control.state)
    series = Series(settings, SessionLink(settings.mcp_choice), card_loader)
    parts = (checkpoints, editor, EditorPanels(StandIn().follow), program, sessions, series, control, sheets, live)
    yield Services(settings, card_loader, database, *parts, clock)
    database.close()


@pytest.fixture
def publish(services: Services) -> Callable[..., None]:
    """Publish a snapshot as a finished checkpoint does."""

    def publish(key: str, reading: dict[str, Any] | None = None, *, generation: int = 1) -> None:
        loaded = services.card_loader.current()
        with services.database.write() as tx:
            checkpoint_results.publish(
                tx, loaded.identity.uuid, key=key, page_index=0, operation_id="op-1", generation=generation,
                stop_id="s-1", binding=BINDING, instance="i-1", socket="/tmp/mcp.sock",
                source_sha256=loaded.identity.source_sha256, observed=observed(reading), at=services.clock(),
            )  # fmt: skip

    return publish


class Api:
    """A client of the application behind the gate. The status, headers and body of every response must be
    documented."""

    def __init__(self, services: Services) -> None:
        gate = Gate(Tcp("127.0.0.1", 8080), intakes(services.settings.evidence_max_bytes))
        self.app = webtest.TestApp(gate.guard(make_app(services)))

    def __call__(
        self, method: str, path: str, body: Any = None, *, raw: bytes | None = None,
        headers: dict[str, str] | None = None, status: int | None = None,
    ) -> webtest.TestResponse:  # fmt: skip
        sent = {"Host": "127.0.0.1:8080", **(headers or {})}
        data = raw
        if body is not None:
            data = json.dumps(body).encode()
            sent.setdefault("Content-Type", "application/json")
        response = self.app.request(path, method=method, headers=sent, body=data or b"", expect_errors=True)
        if status is not None:
            assert response.status_int == status, response.text
        check_documented(method, path, response)
        return response

    def get(self, path: str, **options: Any) -> Any:
        """The JSON of a successful GET."""
        return self("GET", path, status=200, **options).json

    def problem(self, method: str, path: str, body: Any = None, *, status: int, code: str, **options: Any) -> Any:
        """The body of an error response, which must have this status and code."""
        found = self(method, path, body, status=status, **options).json
        assert found["code"] == code, found
        return found


def route_of(method: str, path: str) -> Route | None:
    wanted = "GET" if method == "HEAD" else method
    bare = path.partition("?")[0]
    for route in ROUTES:
        pattern = re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(route.path))
        if route.method == wanted and re.fullmatch(pattern, bare):
            return route
    return None


def check_documented(method: str, path: str, response: webtest.TestResponse) -> None:
    """Fail if a response is not as documented in the route's row and the schemas."""
    assert {name for name, _ in SECURITY_HEADERS} <= {*response.headers}
    assert not [name for name in response.headers if name.lower().startswith("access-control-")]
    route = route_of(method, path)
    if route is None:
        assert response.status_int in (403, 404, 405, 413, 415, 421)
    else:
        assert response.status_int in route.statuses(), f"{method} {path} {response.status_int}: {response.text[:500]}"
    if response.status_int >= 400:
        assert response.content_type == "application/problem+json"
        assert response.headers["Cache-Control"] == "no-store"
        if method != "HEAD":
            check_shape("Problem", response.json)
            assert response.json["status"] == response.status_int
    elif route is not None and response.status_int != 304:
        assert response.headers["Content-Type"] in route.produces
        if route.answer is not None and method != "HEAD" and response.content_type == "application/json":
            check_shape(route.answer, response.json)


def check_shape(schema: str, value: Any) -> None:
    faults = schemas.faults(schema, value)
    assert not faults, f"{schema}: {faults}"


@pytest.fixture
def api(services: Services) -> Api:
    return Api(services)


def refusal(code: str, kind: type[CardAppError] = CardAppError) -> CardAppError:
    return kind("why, and what to do", code=code)


@pytest.fixture
def picture() -> bytes:
    return one_pixel(0)


STRATEGY = {"key": "t1/b1/p1/s1/one", "label": "Look", "commands": ["print n"], "expected_observations": ["1"]}
ANNOTATION = {
    "strategy_id": "s1",
    "target": {"part": "t1/b1/p1/s1:step_title", "x": 0.1, "y": 0.1, "w": 0.5, "h": 0.5},
    "geometry": {"points": [[0.1, 0.1], [0.6, 0.6]]},
    "style": {"kind": "box", "color": "accent", "width": 5},
    "text": "Look here",
}


@pytest.fixture
def explained(api: Any, publish: Callable[..., None]) -> None:
    """The card has a strategy and an annotation, and the program stands at their snapshot."""
    publish("t1/b1/p1/s1/one")
    for path, body in (("/api/strategies", STRATEGY), ("/api/annotations", ANNOTATION)):
        api("POST", path, body, status=201)
