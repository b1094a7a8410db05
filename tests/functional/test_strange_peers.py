"""Another peer listens in the session's place. Whatever it sends, the API answers in time with documented problems and
uses no more memory. The API works again as soon as the real session is chosen."""

from __future__ import annotations

import contextlib
import json
import os
import random
import resource
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cardapp.web import schemas
from cardapp.web.app import ROUTES
from tests.cardapp.mutation import values
from tests.functional import strange_peer as peers
from tests.functional.serving import Api, Response, Stage, make_card, position, running_stage
from tests.functional.strange_peer import Peer

pytestmark = pytest.mark.functional

SECONDS = 40.0
"""More than the longest wait of a request: three seconds each to connect, for the binding and for the replay."""
MEGABYTES = 250
BIG = "x" * 1_000_000

BINDING = {
    **dict.fromkeys(("container_id", "instance", "profile", "target", "runtime"), "other"),
    "card": {"id": "other", "uuid": "", "version": "", "source_sha256": "0" * 64, "title": "Other"},
    "card_source": "",
    "container_process": None,
    "editor": {"socket": "/dev/null"},
    "build_timeout_s": 0,
}
DOUBLING = {f"s{number}": {"anyOf": [{"$ref": f"#/$defs/s{(number + 1) % 50}"}] * 2} for number in range(50)}
DOUBLING["s49"] = {"type": "null"}

PEERS: dict[str, peers.Behaviour] = {
    "garbage": peers.sending(random.Random(1).randbytes(5000)),
    "an end at once": lambda connection: None,
    "an end in the middle": lambda connection: connection.sendall(b'{"jsonrpc":"2.0","id":1,"res'),
    "a line without end": peers.flooding(b"x" * 65536),
    "depth": peers.sending(b"[" * 100_000 + b"\n"),
    "a depth that just fits": peers.sending(b"[" * 985 + b"]" * 985 + b"\n"),
    "half a surrogate pair": peers.sending(b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"\\ud800"}}\n'),
    "tools without end": peers.answering(peers.endless_tools),
    "huge refusals": peers.answering(lambda *_: {"error": {"code": 1, "message": BIG}}),
    "failures that are no code": peers.saying({"code": "Ein Übel\n", "reason": BIG}, is_error=True),
    "a card that it cannot read": peers.saying({"code": "card_unreadable", "reason": "no"}, is_error=True),
    "output schemas that are none": peers.listing({"type": "objekt"}, BINDING),
    "output schemas that lead elsewhere": peers.listing({"$ref": "http://127.0.0.1:9/schema.json"}, BINDING),
    "output schemas that double": peers.listing({"$ref": "#/$defs/s0", "$defs": DOUBLING}, BINDING),
    "output schemas as long as can be": peers.listing({"enum": [[]] * 19_990}, BINDING),
    "an editor elsewhere": peers.saying(BINDING | {"editor": {"socket": "a\0b"}}),
    "another card": peers.saying(BINDING),
}


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with running_stage(make_card, CARD_REPLAY_TIMEOUT="3") as stage:
        yield stage


class Place:
    """The session's place, which a strange peer takes for the duration of a block."""

    def __init__(self, stage: Stage) -> None:
        self._choice = stage.state / "mcp-choice.json"
        self._real = self._choice.read_text()
        self._path = stage.state / "strange.sock"

    def taken_by(self, behave: peers.Behaviour) -> Peer:
        peer = Peer(self._path, behave)
        self._choose(json.dumps({"name": "strange", "socket": str(self._path)}))
        return peer

    def restore(self, peer: Peer) -> None:
        self._choose(self._real)
        peer.close()
        self._path.unlink()

    def _choose(self, text: str) -> None:
        fresh = self._choice.with_suffix(".new")
        fresh.write_text(text)
        os.replace(fresh, self._choice)


@pytest.fixture
def place(stage: Stage) -> Place:
    stage.tcp.put("/api/navigation/current", position("quick", "first"))
    return Place(stage)


def requests(api: Api) -> dict[str, Callable[[], Response]]:
    """All requests that need an answer of the session."""
    expected = {"container_id": "a", "instance": "b", "profile": "c", "target": "d"}
    activation = {
        "snapshot_ref": "t1/b1/p1/quick/first",
        "generation": api.get("/api/checkpoint/status")["generation"] + 1,
        "expected_binding": expected,
        "expected_identity": api.get("/api/identity"),
    }
    return {
        "GET /api/session": lambda: api.request("GET", "/api/session"),
        "GET /api/state": lambda: api.request("GET", "/api/state"),
        "GET /api/editor/state": lambda: api.request("GET", "/api/editor/state"),
        "PUT /api/editor/cursor": lambda: api.put("/api/editor/cursor", {"row": 1, "column": 0}),
        "POST /api/editor/input": lambda: api.post("/api/editor/input", {"text": "<Esc>"}),
        "POST /api/editor/redraw": lambda: api.post("/api/editor/redraw"),
        "POST /api/editor/reset": lambda: api.post("/api/editor/reset"),
        "GET /api/program": lambda: api.request("GET", "/api/program"),
        "POST /api/program/{command}": lambda: api.post("/api/program/step"),
        "POST /api/navigation/sync": lambda: api.post("/api/navigation/sync"),
        "POST /api/checkpoint/activate": lambda: api.post("/api/checkpoint/activate", activation),
    }


def assert_documented(name: str, answer: Response) -> None:
    route = next(each for each in ROUTES if name == f"{each.method} {each.path}")
    assert answer.status in route.statuses(), (name, answer.body)
    assert answer.status != 500, (name, answer.body)
    shape = "Problem" if answer.status >= 400 else str(route.answer)
    assert schemas.faults(shape, answer.json) == (), (name, answer.body[:500])
    assert len(answer.body) < 20_000, name


def ask_all(api: Api, *names: str) -> None:
    """Send the requests with these names, or all requests if no name is given."""
    for name, request in requests(api).items():
        if names and name not in names:
            continue
        began = time.monotonic()
        assert_documented(name, request())
        assert time.monotonic() - began < SECONDS, name


def megabytes() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


@contextlib.contextmanager
def taken(stage: Stage, place: Place, behave: peers.Behaviour) -> Iterator[None]:
    """A peer takes the session's place. Afterwards the session answers at once, and the process uses no more memory."""
    before = megabytes()
    peer = place.taken_by(behave)
    try:
        yield
        assert megabytes() - before < MEGABYTES
        assert stage.tcp.get("/api/health")["status"] == "ok"
    finally:
        place.restore(peer)
    assert stage.tcp.get("/api/session")["name"] == "s"
    assert stage.tcp.post("/api/navigation/sync").status == 200


@pytest.mark.parametrize("name", PEERS)
def test_a_strange_peer_is_a_documented_problem_and_the_session_is_had_again(
    stage: Stage, place: Place, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    with taken(stage, place, PEERS[name]):
        ask_all(stage.tcp)
    assert "Traceback" not in caplog.text


def test_a_peer_that_never_answers_is_given_up_in_time(stage: Stage, place: Place) -> None:
    with taken(stage, place, peers.sending(b"")):
        ask_all(stage.tcp, "GET /api/session", "POST /api/navigation/sync")


KNOWN = st.sampled_from(["container_id", "card", "editor", "stop_id", "alive", "host", "grid", "code", "reason"])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.dictionaries(KNOWN, values, max_size=5) | values, st.booleans())
def test_any_answer_of_a_tool_is_a_documented_problem(
    stage: Stage, place: Place, structured: Any, is_error: bool
) -> None:
    peer = place.taken_by(peers.saying(structured, is_error=is_error))
    try:
        ask_all(stage.unix)
    finally:
        place.restore(peer)


def test_the_editor_of_another_session_is_not_used(stage: Stage, place: Place) -> None:
    """A program in a container can replace the container's MCP server, and announce the socket of any Neovim."""
    theirs = stage.tcp.get("/api/session")["mcp_socket"].replace("mcp.sock", "nvim.sock")
    assert Path(theirs).is_socket()
    with taken(stage, place, peers.saying(BINDING | {"editor": {"socket": theirs}})):
        answer = stage.tcp.post("/api/editor/input", {"text": "<Esc>"})
        assert (answer.status, answer.json["code"]) == (503, "editor_unavailable")
        assert "which is not in the folder of" in answer.json["detail"]
