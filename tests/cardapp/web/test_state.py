"""The composite state, the light control state, and the allocator at the published checkpoint."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

READING = {"base": 4096, "size": 64, "used": 24, "high_water": None, "blocks": []}


def test_the_state_holds_what_its_parts_say(api: Any) -> None:
    api("POST", "/api/navigation/move", {"level": "step", "delta": 1}, status=200)
    state = api.get("/api/state")
    assert state["identity"] == api.get("/api/identity")
    assert state["navigation"] == api.get("/api/navigation/current")
    assert state["viewer"] == api.get("/api/viewer/state")
    assert state["checkpoint"] == api.get("/api/checkpoint/status")
    assert state["control"] == api.get("/api/control/state")


@pytest.mark.usefixtures("no_session")
def test_the_state_answers_without_a_session(api: Any, editor: Any) -> None:
    editor.answers["availability"] = {"available": False, "reason": "no session"}
    state = api.get("/api/state")
    assert state["session"]["available"] is False
    assert state["editor"] == {"available": False, "reason": "no session"}


def test_the_control_state_queries_neither_editor_nor_session(
    api: Any, editor: Any, sessions: Any, checkpoints: Any
) -> None:
    api.get("/api/control/state")
    assert editor.calls == checkpoints.calls == []
    assert sessions.calls == [("known",)]


def test_a_session_on_another_card_is_told_in_every_state(api: Any, sessions: Any) -> None:
    mismatch = {"code": "other_card", "detail": "session 'main' runs another card: choose another session"}
    for method in ("describe", "brief", "known"):
        sessions.answers[method]["mismatch"] = mismatch
    state = api.get("/api/state")
    assert state["control"]["session"]["mismatch"] == state["session"]["mismatch"] == mismatch
    assert api.get("/api/session")["mismatch"] == mismatch


def test_a_restore_is_an_event_with_the_backups(api: Any, sessions: Any) -> None:
    restored = [{"file": "a.c", "backup": "a.c.orig"}]
    answer = api("POST", "/api/session/restore", {"actor": "ada"}, status=200).json
    assert answer == {"restored": restored, "changes": []}
    (event,) = api.get("/api/events?kind=session.restored")["events"]
    assert (event["actor"], event["data"]) == ("ada", {"session": "main", "restored": restored})
    sessions.answers["restore"] = []
    assert api("POST", "/api/session/restore", status=200).json["restored"] == []
    assert len(api.get("/api/events?kind=session.restored")["events"]) == 1


def test_the_control_state_tells_position_and_publication_apart(api: Any, publish: Any) -> None:
    step = {"task_id": "t1", "block_id": "b1", "phase_id": "p1", "step_id": "s1", "focus_level": "step"}
    api("PUT", "/api/navigation/current", {**step, "sync_requested": True}, status=200)
    before = api.get("/api/control/state")
    assert (before["sync"], before["key"], before["requested"]) == ("off", None, True)
    publish("t1/b1/p1/s1/one")
    at = api.get("/api/control/state")
    assert (at["sync"], at["at_position"], at["key"]) == ("on", True, "t1/b1/p1/s1/one")
    api("POST", "/api/navigation/move", {"delta": 1}, status=200)
    moved = api.get("/api/control/state")
    assert (moved["sync"], moved["at_position"]) == ("on", False)


def test_the_card_revision_follows_every_file(api: Any, card_file: Path) -> None:
    first = api.get("/api/card-revision")["revision"]
    (card_file.parent / "src" / "a.c").write_text("x\nx\ny\n")
    second = api.get("/api/card-revision")["revision"]
    card_file.write_text(card_file.read_text() + "\n")
    assert len({first, second, api.get("/api/card-revision")["revision"]}) == 3


def test_health_counts_the_slow_ways_of_replays(api: Any) -> None:
    slow = {"late_pc_sign": 2, "no_checkpoint": 0, "failed_restart": 0, "second_run": 1}
    assert api.get("/api/health")["slow_fallbacks"] == slow


def test_a_card_that_broke_is_served_as_it_was_and_seen_in_health(api: Any, card_file: Path) -> None:
    identity = api.get("/api/identity")
    card_file.write_text("{")
    assert api.get("/api/identity") == identity
    health = api.get("/api/health")
    assert health["status"] == "degraded"
    assert "card_source.json" in health["card"]["reason"]


class TestAllocator:
    def test_before_the_first_checkpoint_nothing_is_available(self, api: Any) -> None:
        found = api.get("/api/allocator")
        assert (found["available"], found["allocator"], found["key"]) == (False, None, None)
        assert "sync" in found["reason"]

    def test_a_checkpoint_has_its_model_and_the_difference_to_the_previous_one(self, api: Any, publish: Any) -> None:
        publish("t1/b1/p1/s1/one", READING)
        first = api.get("/api/allocator")
        assert (first["available"], first["difference"], first["previous_key"]) == (True, None, None)
        assert first["allocator"]["allocation_pointer"] == 4120
        assert first["values"] == {"n": {"value": "1", "error": None}}
        block = {"offset": 24, "size": 8, "label": "q"}
        publish("t1/b1/p1/s1/two", {**READING, "used": 32, "blocks": [block]}, generation=2)
        second = api.get("/api/allocator")
        assert (second["key"], second["previous_key"]) == ("t1/b1/p1/s1/two", "t1/b1/p1/s1/one")
        assert second["difference"] == {"used": 8, "size": 0, "high_water": None, "added": [block], "removed": []}
        publish("t1/b1/p1/s1/two", {**READING, "used": 32, "blocks": [block]}, generation=3)
        again = api.get("/api/allocator")
        assert (again["previous_key"], again["difference"]) == (second["previous_key"], second["difference"])

    def test_linked_nodes_have_no_figures_but_a_difference(self, api: Any, publish: Any) -> None:
        first, second = ({"offset": at, "size": 32, "label": label} for at, label in ((0x5000, "a"), (0x6000, "b")))
        nodes = {"base": None, "size": None, "used": None, "high_water": None, "blocks": [second]}
        publish("t1/b1/p1/s1/one", nodes)
        publish("t1/b1/p1/s1/two", nodes | {"blocks": [first, second]}, generation=2)
        found = api.get("/api/allocator")
        assert found["allocator"]["blocks"] == [first | {"padding": 0}, second | {"padding": 0}]
        assert {value for name, value in found["allocator"].items() if name != "blocks"} == {None}
        unchanged = {"used": None, "size": None, "high_water": None}
        assert found["difference"] == unchanged | {"added": [first], "removed": []}

    def test_a_checkpoint_without_a_reading_has_no_model(self, api: Any, publish: Any) -> None:
        publish("t1/b1/p1/s1/one", None)
        found = api.get("/api/allocator")
        assert (found["available"], found["key"]) == (False, "t1/b1/p1/s1/one")

    def test_a_card_without_an_allocator_has_no_model_but_values(self, api: Any, card_file: Path, publish: Any) -> None:
        source = json.loads(card_file.read_text())
        del source["allocator"]
        card_file.write_text(json.dumps(source))
        publish("t1/b1/p1/s1/one", None)
        publish("t1/b1/p1/s1/two", None, generation=2)
        found = api.get("/api/allocator")
        assert (found["available"], found["reason"]) == (False, "this card describes no allocator")
        assert found["previous_key"] == "t1/b1/p1/s1/one"
        assert found["previous_values"] == {"n": {"value": "1", "error": None}}
