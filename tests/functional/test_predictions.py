"""Predictions over the whole application: judged by a real program under gdb, and by the card without a session."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.functional.counting_card import CountingCard
from tests.functional.serving import Stage, running_stage, until

pytestmark = pytest.mark.functional

SECOND, END = "t1/b1/p1/s1/second", "t1/b1/p1/s1/end"


def counting(folder: Path) -> Path:
    card = CountingCard(folder)
    card.edit_code("static int add(int n)\n{\n", "static int add(int n)\n{ int unset; (void)&unset;\n")
    card.second["expect"] = {"total": 3, "n": {"value": "0x2", "format": "x"}, "unset": {"undefined": True}}
    card.second["ask"] = ["calls", "n", "total", "unset"]
    card.step["snapshots"][1]["expect"] = {"total": 8}  # the program has 7
    card.write()
    return folder


@pytest.fixture(scope="module")
def counted() -> Iterator[Stage]:
    with running_stage(counting) as stage:
        yield stage


def predict(stage: Stage, key: str, **values: str) -> int:
    event = {"kind": "x-prediction", "actor": "ada", "key": key, "data": {"values": values}}
    answer = stage.tcp.post("/api/events", event)
    assert answer.status == 201, answer.body
    seq: int = answer.json["seq"]
    return seq


def after(stage: Stage, seq: int) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = stage.tcp.get(f"/api/events?after={seq}&limit=1000")["events"]
    return events


def item(stage: Stage, key: str) -> dict[str, Any]:
    (found,) = stage.tcp.get(f"/api/answers?key={key}")["items"]
    return found


def test_the_program_judges_in_the_transaction_of_its_proof(counted: Stage) -> None:
    elsewhere = predict(counted, END, total="7")
    first = predict(counted, SECOND, total="0x3", n="5", calls="2", unset="0")
    assert [row["right"] for row in item(counted, SECOND)["predictions"]] == [None] * 4
    answer = counted.tcp.post("/api/checkpoint/activate", counted.activation(SECOND))
    assert answer.status == 200, answer.body
    unset = next(check for check in answer.json["observed"]["checks"] if check["name"] == "unset")
    assert (unset["expected"], unset["match"]) == ("undefined", None)
    assert unset["actual"].lstrip("-").isdecimal()
    ready, judged = after(counted, first)
    assert [ready["kind"], judged["kind"]] == ["checkpoint.ready", "prediction.judged"]
    assert judged["data"] == {
        "prediction": first,
        "said": {"calls": "2", "n": "5", "total": "0x3", "unset": "0"},
        "reads": {"calls": "2", "n": "5", "total": "3", "unset": "0"},
        "seen": {"calls": "2", "n": "0x2", "total": "3", "unset": "undefined"},
        "right": {"calls": True, "n": False, "total": True, "unset": None},
        "by": "program",
    }
    found = item(counted, SECOND)
    assert [row["expression"] for row in found["predictions"]] == ["calls", "n", "total", "unset"]
    assert (found["right_first"], found["by"], found["looked_first"]) == (False, "program", False)
    assert found["proved_at"] == ready["at"]
    again = predict(counted, SECOND, n="2")
    assert counted.tcp.post("/api/checkpoint/activate", counted.activation(SECOND)).status == 200
    assert [event["data"]["prediction"] for event in after(counted, again) if "prediction" in event["data"]] == [again]
    assert [(row["right"], row["empty"]) for row in item(counted, SECOND)["latest"]] == [
        (False, True),
        (True, False),
        (False, True),
        (None, True),  # the card calls it undefined
    ]
    assert not [event for event in after(counted, 0) if event["data"].get("prediction") == elsewhere]


def test_a_replay_that_proves_nothing_judges_nothing(counted: Stage) -> None:
    made = predict(counted, END, total="7")
    assert counted.tcp.post("/api/checkpoint/activate", counted.activation(END)).json["code"] == "snapshot_drift"
    assert {event["kind"] for event in after(counted, made)} - {"sync.off"} == {"checkpoint.failed"}


def test_without_a_session_the_card_judges(counted: Stage) -> None:
    counted.sessions.stop()
    until(lambda: not counted.tcp.get("/api/state")["session"]["available"])
    made = predict(counted, SECOND, total="4", calls="2")
    (judged,) = after(counted, made)
    assert (judged["kind"], judged["data"]["by"]) == ("prediction.judged", "card")
    assert judged["data"]["seen"] == {"total": "3", "calls": None, "n": "0x2", "unset": "undefined"}
    assert judged["data"]["right"] == {"total": False, "calls": None, "n": False, "unset": None}
