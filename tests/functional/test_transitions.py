"""Every row of the table "States and transitions" of the contract, on the whole application."""

from __future__ import annotations

from typing import Any

import pytest

from tests.functional.serving import Api, Stage, position

pytestmark = [pytest.mark.functional, pytest.mark.each_runtime]

ITEM = "t1.b1.p1.quick"


def target_state(stage: Stage) -> Any:
    return stage.link.debugger_state()["stop_id"]


# -- navigation ----------------------------------------------------------------------------------------------------


def test_setting_and_moving_never_start_the_program(api: Api, stage: Stage) -> None:
    before, generation = target_state(stage), api.get("/api/checkpoint/status")["generation"]
    assert api.put("/api/navigation/current", position("quick", "first", sync_requested=True)).status == 200
    assert api.post("/api/navigation/move", {"level": "step", "delta": 2}).status == 200
    assert api.get("/api/control/state")["requested"] is True
    assert target_state(stage) == before
    assert api.get("/api/checkpoint/status")["generation"] == generation


@pytest.mark.parametrize(
    ("body", "key"),
    [
        (position("quick"), "t1/b1/p1/quick/first"),
        (position("quick", "second"), "t1/b1/p1/quick/second"),
        ({"task_id": "t1", "block_id": "b1", "focus_level": "block"}, "t1/b1/p1/quick/first"),
        ({"task_id": "t1", "block_id": "b1", "phase_id": "p1", "focus_level": "phase"}, "t1/b1/p1/quick/first"),
    ],
)
def test_sync_replays_and_publishes(api: Api, body: dict[str, Any], key: str) -> None:
    api.put("/api/navigation/current", {**body, "sync_requested": True})
    answer = api.post("/api/navigation/sync")
    assert (answer.status, answer.json["state"], answer.json["snapshot_ref"]) == (200, "ready", key), answer.body
    control = api.get("/api/control/state")
    assert (control["sync"], control["key"], control["at_position"], control["requested"]) == ("on", key, True, False)
    assert api.get("/api/navigation/current")["published"]["key"] == key


@pytest.mark.parametrize("body", [{"focus_level": "card"}, {"focus_level": "task", "task_id": "t1"}])
def test_sync_is_rejected_at_card_and_task(api: Api, stage: Stage, body: dict[str, Any]) -> None:
    api.put("/api/navigation/current", body)
    before, generation = stage.published(), api.get("/api/checkpoint/status")["generation"]
    answer = api.post("/api/navigation/sync", {})
    assert (answer.status, answer.json["code"]) == (409, "level_not_syncable")
    assert (stage.published(), api.get("/api/checkpoint/status")["generation"]) == (before, generation)


def test_only_a_ready_replay_publishes(api: Api, stage: Stage) -> None:
    api.put("/api/navigation/current", position("quick"))
    assert api.post("/api/navigation/sync").status == 200
    before = stage.published()[:2]
    for step, status in (("drifted", 409), ("beyond", 502)):
        api.put("/api/navigation/current", position(step))
        assert api.post("/api/navigation/sync").status == status
        assert stage.published()[:2] == before
    summary = api.get("/api/progress")["summary"]["execution"]
    assert (summary["ready"], summary["failed"]) == (1, 2)


# -- progress ------------------------------------------------------------------------------------------------------


def test_an_item_is_approved_and_set_back_to_pending(api: Api) -> None:
    api.put(f"/api/progress/{ITEM}", {"status": "pending", "note": "", "actor": "ada"})
    for status, note in (("approved", "understood"), ("pending", "look again")):
        answer = api.put(f"/api/progress/{ITEM}", {"status": status, "note": note, "actor": "grace"})
        response = {name: answer.json[name] for name in ("status", "note", "actor")}
        assert response == {"status": status, "note": note, "actor": "grace"}
        stored = next(item for item in api.get("/api/progress")["items"] if item["id"] == ITEM)
        assert (stored["status"], stored["note"], stored["actor"]) == (status, note, "grace")
        assert api.get("/api/events?kind=progress.changed&limit=1000")["events"][-1]["actor"] == "grace"


# -- viewer --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "patch", "after"),
    [
        ({"sync": True, "control": True}, {"sync": False}, (False, False)),
        ({"sync": False}, {"sync": True}, (True, False)),
        ({"sync": False}, {"sync": True, "control": True}, (True, True)),
    ],
)
def test_editor_control_ends_with_editor_sync(
    api: Api, before: dict[str, bool], patch: dict[str, bool], after: tuple[bool, bool]
) -> None:
    assert api.put("/api/viewer/state", {"viewer": {"editor": {"sync": False}}}).status == 200
    assert api.put("/api/viewer/state", {"viewer": {"editor": before}}).status == 200
    assert api.put("/api/viewer/state", {"viewer": {"editor": patch}}).status == 200
    editor = api.get("/api/viewer/state")["viewer"]["editor"]
    assert (editor["sync"], editor["control"]) == after


def test_control_without_sync_is_refused(api: Api) -> None:
    api.put("/api/viewer/state", {"viewer": {"editor": {"sync": False}}})
    answer = api.put("/api/viewer/state", {"viewer": {"editor": {"control": True}}})
    assert (answer.status, answer.json["code"]) == (409, "editor_sync_off")
