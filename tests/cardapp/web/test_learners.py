"""Learners: a new record, the choice among them, and what belongs to a learner."""

from __future__ import annotations

from typing import Any

from tests.cardapp.web.conftest import StandIn, operation

STEP, STOP = "t1/b1/p1/s1", "t1/b1/p1/s1/one"


def create(api: Any, name: str, **members: Any) -> Any:
    return api("POST", "/api/learners", {"name": name, **members}).json


def names(found: dict[str, Any]) -> list[str]:
    return [each["name"] for each in found["learners"]]


def test_a_new_learner_has_an_empty_record_and_the_old_one_can_be_chosen_again(api: Any) -> None:
    api("PUT", "/api/navigation/current", {"focus_level": "task", "task_id": "t1"})
    api("PUT", "/api/progress/t1.b1.p1.s1", {"status": "approved"})
    before = api.get("/api/progress"), api.get("/api/navigation/current"), api.get("/api/events")
    made = create(api, "Ada")
    assert (names(made), made["current"], made["revision"]) == (["unnamed", "Ada"], "Ada", 1)
    assert api.get("/api/learners") == made
    assert api.get("/api/progress")["summary"]["approved"] == 0
    assert api.get("/api/navigation/current")["position"]["focus_level"] == "card"
    assert [event["kind"] for event in api.get("/api/events")["events"]] == ["learner.named"]
    assert api.get("/api/control/state")["learner"] == "Ada"
    api("PUT", "/api/learners/current", {"name": "unnamed"})
    after = api.get("/api/progress"), api.get("/api/navigation/current"), api.get("/api/events")
    assert after[:2] == before[:2]
    assert after[2]["events"][:-1] == before[2]["events"]
    assert after[2]["events"][-1]["kind"] == "learner.chosen"


def test_the_work_before_a_name_was_given_can_keep_it(api: Any) -> None:
    api("POST", "/api/events", {"kind": "x-answer", "actor": "page", "text": "two", "key": STOP}, status=201)
    made = create(api, "Ada", keep_record=True)
    assert names(made) == ["Ada"]
    assert [item["answer"] for item in api.get("/api/answers")["items"]] == ["two"]
    refused = api("POST", "/api/learners", {"name": "Bob", "keep_record": True}, status=409).json
    assert refused["code"] == "learner_named"


def test_a_judgement_belongs_to_the_learner_who_predicted(api: Any, no_session: Any) -> None:
    create(api, "Ada")
    predicted = {"kind": "x-prediction", "actor": "page", "key": STOP, "data": {"values": {"n": "2"}}}
    api("POST", "/api/events", predicted, status=201)
    assert api.get("/api/answers")["summary"]["predicted"] == 1
    create(api, "Bob")
    assert api.get("/api/answers")["items"] == []
    assert api.get("/api/events?kind=prediction.judged")["events"] == []


def test_while_a_replay_runs_the_learner_stays(api: Any, checkpoints: StandIn) -> None:
    checkpoints.answers["active"] = operation(state="running")
    assert api("POST", "/api/learners", {"name": "Ada"}, status=409).json["code"] == "replay_running"
    assert api("PUT", "/api/learners/current", {"name": "unnamed"}, status=409).json["code"] == "replay_running"
    assert names(api.get("/api/learners")) == ["unnamed"]
