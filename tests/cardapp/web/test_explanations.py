"""Strategies and annotations over HTTP: the rules of each field, the events, and what showing and hiding change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from cardapp.errors import SnapshotDrift, StateError
from cardapp.state import events as record_of_events
from cardapp.state.events import verify
from cardapp.web.services import Services
from tests.cardapp.web.conftest import ANNOTATION as OF_STRATEGY
from tests.cardapp.web.conftest import STRATEGY, StandIn

ONE, TWO = "t1/b1/p1/s1/one", "t1/b1/p1/s1/two"
ANNOTATION = {**OF_STRATEGY, "strategy_id": None, "key": ONE}


def added(api: Any, **changes: Any) -> dict[str, Any]:
    record: dict[str, Any] = api("POST", "/api/annotations", {**ANNOTATION, **changes}, status=201).json
    return record


def events(api: Any, *kinds: str) -> list[dict[str, Any]]:
    return [each for each in api.get("/api/events?limit=1000")["events"] if each["kind"] in kinds]


def shown(api: Any) -> list[bool]:
    return [each["visible"] for each in api.get("/api/annotations")["annotations"]]


# -- strategies ------------------------------------------------------------------------------------------------------


def test_a_strategy_is_added_listed_and_removed_each_with_its_event(api: Any) -> None:
    response = api("POST", "/api/strategies", {**STRATEGY, "actor": "me"}, status=201)
    record = response.json
    assert record == {"id": "s1", **STRATEGY}
    assert api.get(response.headers["Location"])["strategies"] == [record]
    assert api.get("/api/strategies?key=t1/b2")["strategies"] == []
    assert api.get("/api/control/state")["explanation_revision"] == 1
    assert api("DELETE", "/api/strategies/s1?actor=you", status=200).json == {"strategies": [], "revision": 2}
    first, second = events(api, "strategy.added", "strategy.removed")
    assert (first["actor"], first["key"], first["data"]) == ("me", ONE, record)
    assert (second["kind"], second["actor"], second["data"]) == ("strategy.removed", "you", record)
    assert api("POST", "/api/strategies", STRATEGY, status=201).json["id"] == "s2"


def test_a_strategy_without_key_is_pinned_to_the_stop_of_the_position(api: Any) -> None:
    body = {"label": "Look", "commands": ["backtrace"]}
    api.problem("POST", "/api/strategies", body, status=409, code="level_not_syncable")
    place = {"focus_level": "step", "task_id": "t1", "block_id": "b1", "phase_id": "p1", "step_id": "s2"}
    api("PUT", "/api/navigation/current", place, status=200)
    record = api("POST", "/api/strategies", body, status=201).json
    assert (record["key"], record["expected_observations"]) == ("t1/b1/p1/s2/one", [None])


def test_a_command_that_is_not_allowed_is_named(api: Any) -> None:
    """The rule is tested with the strategies of a card."""
    for command in ("shell ls", "print n = 2", "  "):
        body = {**STRATEGY, "commands": ["print n", command], "expected_observations": [None, None]}
        problem = api.problem("POST", "/api/strategies", body, status=422, code="command_not_allowed")
        assert [each["pointer"] for each in problem["errors"]] == ["/commands/1"]
        assert repr(command) in problem["errors"][0]["message"]
    assert api.get("/api/strategies")["strategies"] == []


def test_a_wrong_field_of_a_strategy_is_named(api: Any) -> None:
    for changes, pointer in (
        ({"commands": []}, "/commands"),
        ({"commands": ["print n\nshell ls"]}, "/commands/0"),
        ({"commands": ["print n"] * 21, "expected_observations": [None] * 21}, "/commands"),
        ({"expected_observations": ["1", "2"]}, "/expected_observations"),
        ({"expected_observations": [1]}, "/expected_observations/0"),
        ({"label": ""}, "/label"),
        ({"key": "t1/b1/p1/s1"}, "/key"),
        ({"key": "t1/b1/p1/s1/three"}, "/key"),
    ):
        problem = api.problem("POST", "/api/strategies", {**STRATEGY, **changes}, status=422, code="invalid_value")
        assert pointer in [each["pointer"] for each in problem["errors"]], changes


@pytest.mark.usefixtures("explained")
def test_a_dry_run_compares_what_was_printed_with_what_is_expected(
    api: Any, checkpoints: StandIn, program: StandIn
) -> None:
    commands = ["print n", "info locals", "backtrace"]
    expected = ["0x1", None, "main"]
    api("POST", "/api/strategies", {**STRATEGY, "commands": commands, "expected_observations": expected}, status=201)
    program.answers["run"] = {"state": "stopped", "stop_id": "s-1", "outputs": ["$1 = 1", "n = 1"]}
    assert api("POST", "/api/strategies/s2/run", {"actor": "me"}, status=200).json == {
        "id": "s2",
        "results": [
            {"command": "print n", "output": "$1 = 1", "expected": "0x1", "match": True},
            {"command": "info locals", "output": "n = 1"},
            {"command": "backtrace", "output": None, "expected": "main", "match": False},
        ],
    }
    assert checkpoints.calls[-1] == ("bring_to", ONE, "me")
    assert program.calls == [("run", commands, "s-1")]
    assert api.get("/api/control/state")["sync"] == "on"
    assert events(api, "program.moved", "sync.off") == []


@pytest.mark.usefixtures("explained")
def test_sync_goes_off_where_the_commands_moved_the_program(
    api: Any, program: StandIn, publish: Callable[..., None]
) -> None:
    for state, reason in (("stopped", "target_ran_on"), ("exited", "program_exited")):
        publish(ONE)
        program.answers["run"] = {"state": state, "stop_id": "s-2", "outputs": ["x"]}
        api("POST", "/api/strategies/s1/run", {"actor": "me"}, status=200)
        control = api.get("/api/control/state")
        assert (control["sync"], control["reason"]) == ("off", reason)
        moved, off = events(api, "program.moved", "sync.off")[-2:]
        assert moved["data"] == {"command": "print n", "strategy_id": "s1"}
        assert (off["actor"], off["key"]) == ("me", ONE)


@pytest.mark.usefixtures("explained")
def test_a_dry_run_whose_snapshot_differs_runs_no_command(api: Any, checkpoints: StandIn, program: StandIn) -> None:
    checkpoints.answers["bring_to"] = SnapshotDrift("n is 2, the card says 1")
    api.problem("POST", "/api/strategies/s1/run", {}, status=409, code="snapshot_drift")
    checkpoints.answers["bring_to"] = {"operation_id": "another"}
    api.problem("POST", "/api/strategies/s1/run", {}, status=409, code="superseded")
    assert program.calls == []


@pytest.mark.usefixtures("explained")
def test_a_removed_strategy_takes_its_annotations_along_each_with_its_event(api: Any) -> None:
    added(api)
    api("DELETE", "/api/strategies/s1", status=200)
    assert [each["id"] for each in api.get("/api/annotations")["annotations"]] == ["a2"]
    removed = events(api, "annotation.removed", "strategy.removed")
    assert [each["data"]["id"] for each in removed] == ["a1", "s1"]


# -- annotations -----------------------------------------------------------------------------------------------------


def test_an_annotation_is_added_listed_and_removed_each_with_its_event(api: Any) -> None:
    response = api("POST", "/api/annotations", {**ANNOTATION, "actor": "me"}, status=201)
    record = response.json
    assert record == {"id": "a1", **ANNOTATION, "visible": True}
    assert api.get(response.headers["Location"])["annotations"] == [record]
    assert api("DELETE", "/api/annotations/a1", status=200).json["annotations"] == []
    first, second = events(api, "annotation.added", "annotation.removed")
    assert (first["actor"], first["key"], first["data"]) == ("me", ONE, record)
    assert (second["actor"], second["key"], second["data"]) == ("api", ONE, record)


def test_an_annotation_has_the_key_of_its_strategy(api: Any) -> None:
    api("POST", "/api/strategies", {**STRATEGY, "key": TWO}, status=201)
    assert added(api, strategy_id="s1", key=TWO)["key"] == TWO
    record = api("POST", "/api/annotations", OF_STRATEGY, status=201).json
    assert (record["key"], record["strategy_id"]) == (TWO, "s1")
    wrong = {**OF_STRATEGY, "key": ONE}
    problem = api.problem("POST", "/api/annotations", wrong, status=422, code="invalid_value")
    assert problem["errors"][0]["pointer"] == "/key"


TARGET, POINTS = ANNOTATION["target"], [[0.1, 0.1], [0.6, 0.6]]


def test_a_wrong_field_of_an_annotation_is_named(api: Any) -> None:
    for changes, pointer in (
        ({"target": {**TARGET, "part": "t1/b1/p1/s1:no_such"}}, "/target/part"),
        ({"target": {**TARGET, "x": -0.1}}, "/target/x"),
        ({"target": {**TARGET, "x": 0.9}}, "/target/w"),
        ({"geometry": {"points": [[0, 0], [0, 1.01]]}}, "/geometry/points/1/1"),
        ({"geometry": {"points": [[0, 0], ["url(#x)", 1]]}}, "/geometry/points/1/0"),
        ({"geometry": {"points": [[0, 0]]}}, "/geometry/points"),
        ({"geometry": {"points": [[0, 0]] * 3}}, "/geometry/points"),
        ({"geometry": {"points": [[0, 0]] * 501}, "style": {"kind": "freehand"}}, "/geometry/points"),
        ({"geometry": {"points": POINTS, "d": "M0 0"}}, "/geometry/d"),
        ({"style": {"kind": "circle"}}, "/style/kind"),
        ({"style": {"kind": "box", "color": "url(javascript:alert(1))"}}, "/style/color"),
        ({"style": {"kind": "box", "color": "#fff"}}, "/style/color"),
        ({"style": {"kind": "box", "width": 41}}, "/style/width"),
        ({"style": {"kind": "callout"}, "text": " "}, "/text"),
        ({"text": "a" * 501}, "/text"),
        ({"visible": 1}, "/visible"),
        ({"strategy_id": "s9"}, "/strategy_id"),
        ({"key": "t1"}, "/key"),
    ):
        problem = api.problem("POST", "/api/annotations", {**ANNOTATION, **changes}, status=422, code="invalid_value")
        assert [each["pointer"] for each in problem["errors"]] == [pointer], changes
    assert api.get("/api/annotations") == {"annotations": [], "revision": 0}


def test_show_hide_and_toggle_change_only_visible(api: Any) -> None:
    record = added(api)
    for action, visible in (("hide", False), ("hide", False), ("toggle", True), ("show", True), ("toggle", False)):
        answer = api("POST", f"/api/annotations/a1/{action}", {"actor": "me"}, status=200).json
        assert answer == {**record, "visible": visible}
        assert api.get("/api/annotations")["annotations"] == [answer]
    found = events(api, "annotation.shown", "annotation.hidden")
    assert [each["kind"] for each in found] == ["annotation.hidden", "annotation.shown", "annotation.hidden"]
    assert all((each["actor"], each["key"], each["data"]) == ("me", ONE, {"ids": ["a1"]}) for each in found)


def test_the_whole_layer_is_hidden_without_deleting_anything(api: Any, services: Services) -> None:
    for text in ("one", "two", "three"):
        added(api, text=text)
    before = api.get("/api/annotations")["annotations"]
    api("POST", "/api/annotations/a2/hide", {}, status=200)
    for action, visible in (("toggle", False), ("toggle", True), ("hide", False), ("hide", False)):
        answer = api("POST", f"/api/annotations/{action}", {}, status=200).json
        assert [each["visible"] for each in answer["annotations"]] == shown(api) == [visible] * 3
    assert [{**each, "visible": True} for each in api.get("/api/annotations")["annotations"]] == before
    layer = events(api, "annotation.shown", "annotation.hidden")[1:]
    assert [(each["key"], each["data"]["ids"]) for each in layer] == [
        ("", ["a1", "a3"]),
        ("", ["a1", "a2", "a3"]),
        ("", ["a1", "a2", "a3"]),
    ]
    with services.database.read() as conn:
        assert verify(conn).intact


def test_a_change_and_its_event_are_one_transaction(
    api: Any, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    added(api)
    before = api.get("/api/annotations")

    def broken(*_: Any, **__: Any) -> None:
        raise StateError("the disk is full", code="state_disk_full")

    monkeypatch.setattr(record_of_events, "append", broken)
    requests: list[tuple[str, str, Any]] = [
        ("POST", "/api/annotations", ANNOTATION),
        ("DELETE", "/api/annotations/a1", None),
        ("POST", "/api/annotations/a1/hide", {}),
        ("POST", "/api/annotations/hide", {}),
        ("POST", "/api/strategies", STRATEGY),
    ]
    for method, path, body in requests:
        api.problem(method, path, body, status=503, code="state_disk_full")
    assert api.get("/api/annotations") == before
    assert api.get("/api/strategies")["strategies"] == []


def test_each_kind_of_annotation_is_stored_as_it_was_given(api: Any) -> None:
    lines = [[number / 500, 0.5] for number in range(500)]
    points = {"callout": [[0.5, 0.5]], "freehand": lines}
    for kind in ("box", "arrow", "underline", "marker", "callout", "freehand"):
        geometry, style = {"points": points.get(kind, POINTS)}, {"kind": kind, "color": "#A0b1c2", "width": 0.5 + 1}
        record = added(api, geometry=geometry, style=style)
        assert (record["geometry"], record["style"]) == (geometry, style)
