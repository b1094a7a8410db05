"""Position, moves and sync over HTTP: what is stored, what is recorded, what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from cardapp.errors import CheckpointCancelled, LevelNotSyncable, SnapshotDrift

STEP = {"task_id": "t1", "block_id": "b1", "phase_id": "p1", "step_id": "s1", "focus_level": "step"}


def kinds(api: Any) -> list[str]:
    return [event["kind"] for event in api.get("/api/events")["events"]]


def test_a_position_is_set_with_its_event_and_revision(api: Any) -> None:
    body = {**STEP, "snapshot_ref": "two", "sync_requested": True, "actor": "me"}
    found = api("PUT", "/api/navigation/current", body, status=200).json
    assert found["position"] == STEP | {
        "snapshot_ref": "t1/b1/p1/s1/two", "sync_requested": True, "actor": "me"
    }  # fmt: skip
    assert (found["key"], found["revision"]) == ("t1/b1/p1/s1", 1)
    assert found["index"] == {"task": 0, "block": 0, "phase": 0, "step": 0, "snapshot": 1}
    assert api.get("/api/navigation/current")["position"] == found["position"]
    (event,) = api.get("/api/events")["events"]
    assert (event["kind"], event["actor"], event["key"]) == ("navigation.set", "me", "t1/b1/p1/s1")


def test_a_refused_position_stores_and_records_nothing(api: Any) -> None:
    wrong = {**STEP, "step_id": "nowhere"}
    found = api.problem("PUT", "/api/navigation/current", wrong, status=422, code="invalid_value")
    assert found["errors"][0]["pointer"] == "/step_id"
    assert api.get("/api/navigation/current")["revision"] == 0
    assert kinds(api) == []


def test_expected_revision_guards_the_position(api: Any) -> None:
    api("PUT", "/api/navigation/current", {**STEP, "expected_revision": 0}, status=200)
    found = api.problem(
        "PUT", "/api/navigation/current", {**STEP, "expected_revision": 0}, status=409, code="revision_conflict"
    )
    assert found["revision"] == 1
    api("PUT", "/api/navigation/current", {**STEP, "expected_revision": 1}, status=200)


def test_a_move_walks_and_stops_at_the_end(api: Any) -> None:
    first = api("POST", "/api/navigation/move", {"level": "step", "delta": 2, "actor": "me"}, status=200).json
    assert (first["key"], first["moved"], first["at_end"]) == ("t1/b1/p1/s2", 2, None)
    last = api("POST", "/api/navigation/move", {"delta": 10000}, status=200).json
    assert (last["key"], last["moved"], last["at_end"]) == ("t2/b1/p1/s1", 2, "last")
    stuck = api("POST", "/api/navigation/move", {"delta": 1}, status=200).json
    assert (stuck["moved"], stuck["at_end"], stuck["revision"]) == (0, "last", last["revision"])
    assert kinds(api) == ["navigation.moved", "navigation.moved"]
    assert api.get("/api/events")["events"][0]["data"] == {"delta": 2, "level": "step", "moved": 2}


def test_a_sync_answers_the_finished_operation(api: Any, checkpoints: Any) -> None:
    found = api("POST", "/api/navigation/sync", {"actor": "me"}, status=200).json
    assert found["state"] == "ready"
    assert checkpoints.calls == [("sync", "me")]


def test_a_failed_sync_is_a_problem_that_carries_the_operation(api: Any, checkpoints: Any) -> None:
    operation = {**checkpoints.answers["sync"], "state": "failed"}
    checkpoints.answers["sync"] = SnapshotDrift("n is 2, the card expects 1", extra={"operation": operation})
    found = api.problem("POST", "/api/navigation/sync", status=409, code="snapshot_drift")
    assert found["operation"]["state"] == "failed"
    checkpoints.answers["sync"] = LevelNotSyncable("move to a step first")
    api.problem("POST", "/api/navigation/sync", status=409, code="level_not_syncable")
    checkpoints.answers["sync"] = CheckpointCancelled("a newer one took over")
    api.problem("POST", "/api/navigation/sync", status=409, code="superseded")


def test_the_catalog_lists_every_position_in_order(api: Any) -> None:
    found = api.get("/api/navigation/catalog")
    assert found["counts"] == {"card": 1, "task": 2, "block": 3, "phase": 3, "step": 4, "snapshot": 5}
    keys = [item["key"] for item in found["items"]]
    assert keys[:6] == ["", "t1", "t1/b1", "t1/b1/p1", "t1/b1/p1/s1", "t1/b1/p1/s1/one"]
    assert len(keys) == sum(found["counts"].values())


def test_a_position_whose_ids_vanished_falls_back_and_the_catalog_follows_the_card(api: Any, card_file: Path) -> None:
    last = {"task_id": "t2", "block_id": "b1", "phase_id": "p1", "step_id": "s1", "focus_level": "step"}
    api("PUT", "/api/navigation/current", last, status=200)
    before = api("GET", "/api/navigation/catalog").headers["ETag"]
    source = json.loads(card_file.read_text())
    source["tasks"][1]["blocks"][0]["id"] = "renamed"
    card_file.write_text(json.dumps(source))
    found = api.get("/api/navigation/current")
    assert (found["key"], found["position"]["focus_level"]) == ("t2", "task")
    after = api("GET", "/api/navigation/catalog", headers={"If-None-Match": before}, status=200)
    assert "t2/renamed" in [item["key"] for item in after.json["items"]]
