"""Predictions as events, their judgement by the card, and the learner's answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cardapp.web.conftest import card_source

STOP, SECOND, STEP = "t1/b1/p1/s1/one", "t1/b1/p1/s1/two", "t1/b1/p1/s1"


@pytest.fixture
def card_file(card_file: Path) -> Path:
    source = card_source()
    step = source["tasks"][0]["blocks"][0]["phases"][0]["steps"][0]
    step |= {"question": "How *many*?", "text": "Look at `n`."}
    step["snapshots"][0] |= {
        "expect": {"n": "64", "p": {"undefined": True}},
        "ask": ["n", "p", "m"],
        "hints": ["It **doubles**.", "<b>32</b> twice"],
        "explanation": "See [the next step](#t1/b1/p1/s2) or [nowhere](#t9).",
    }
    card_file.write_text(json.dumps(source))
    return card_file


def event(kind: str, **members: Any) -> dict[str, Any]:
    return {"kind": kind, "actor": "ada", "key": STOP, **members}


def predict(api: Any, values: dict[str, str]) -> Any:
    return api("POST", "/api/events", event("x-prediction", data={"values": values}), status=201).json


def said_and_right(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in ("expression", "said", "right", "empty"))


def test_the_catalog_has_what_the_page_asks_and_shows(api: Any) -> None:
    items = {item["key"]: item for item in api.get("/api/navigation/catalog")["items"]}
    step, stop, plain = items[STEP], items[STOP], items[SECOND]
    assert (step["question"], step["text"]) == ("How *many*?", "Look at `n`.")
    assert "<em>many</em>" in step["question_html"]
    assert (stop["ask"], stop["undefined"]) == (["n", "p", "m"], ["p"])
    assert "<strong>doubles</strong>" in stop["hints_html"][0]
    assert "&lt;b&gt;32&lt;/b&gt;" in stop["hints_html"][1]
    assert 'href="#t1/b1/p1/s2"' in stop["explanation_html"]
    assert 'href="#t9"' not in stop["explanation_html"]
    assert (plain["ask"], plain["undefined"], plain["hints_html"], plain["explanation_html"]) == (["n"], [], [], None)
    assert [items["t1/b1/p1/s2"][name] for name in ("question", "question_html", "text")] == [None] * 3
    assert "ask" not in step
    assert "question" not in items["t1"]


def test_a_prediction_waits_for_the_session(api: Any) -> None:
    made = predict(api, {"n": "0x40"})
    assert (made["key"], made["data"]) == (STOP, {"values": {"n": "0x40"}})
    found = api.get("/api/answers")
    (item,) = found["items"]
    assert [said_and_right(row) for row in item["predictions"]] == [
        ("n", "0x40", None, False),
        ("p", None, None, True),
        ("m", None, False, True),
    ]
    assert (item["question"], item["by"], item["revealed"]) == ("How *many*?", None, False)
    assert (found["summary"]["stops"], found["summary"]["predicted"]) == (5, 1)


def test_without_a_session_the_card_judges_at_once(api: Any, no_session: Any) -> None:
    made = predict(api, {"n": "0x40", "p": "0", "m": "1"})
    (verdict,) = api.get("/api/events?kind=prediction.judged")["events"]
    assert (verdict["seq"], verdict["key"], verdict["actor"]) == (made["seq"] + 1, STOP, "ada")
    assert verdict["data"] == {
        "prediction": made["seq"],
        "said": {"n": "0x40", "p": "0", "m": "1"},
        "reads": {"n": "64", "p": "0", "m": "1"},
        "seen": {"n": "64", "p": "undefined", "m": None},
        "right": {"n": True, "p": None, "m": None},
        "by": "card",
    }
    predict(api, {"n": "65"})
    assert len(api.get("/api/events?kind=prediction.judged")["events"]) == 2
    (item,) = api.get(f"/api/answers?key={STOP}")["items"]
    assert [each["right"] for each in item["predictions"]] == [True, None, None]
    assert [said_and_right(each) for each in item["latest"]] == [
        ("n", "65", False, False),
        ("p", None, None, True),
        ("m", None, False, True),
    ]
    assert (item["tries"], item["by"], item["right_first"], item["revealed"]) == (2, "card", True, True)


def test_an_event_of_another_shape_is_refused(api: Any) -> None:
    right = {"values": {"n": "1"}}
    for kind, members, pointer in (
        ("x-prediction", {}, "/data"),
        ("x-prediction", {"data": {}}, "/data/values"),
        ("x-prediction", {"data": {"values": {}}}, "/data/values"),
        ("x-prediction", {"data": {"values": {"n": 64}}}, "/data/values/n"),
        ("x-prediction", {"data": {"values": {"n": "x" * 1001}}}, "/data/values/n"),
        ("x-prediction", {"data": right | {"by": "me"}}, "/data/by"),
        ("x-prediction", {"data": {"values": {"n": "1", "q/r": "1"}}}, "/data/values/q~1r"),
        ("x-prediction", {"data": right, "key": STEP}, "/key"),
        ("x-prediction", {"data": right, "key": ""}, "/key"),
        ("x-self", {"data": {"self": "maybe"}}, "/data/self"),
        ("x-self", {"data": {}}, "/data/self"),
        ("x-hint", {"data": {"hint": 0}}, "/data/hint"),
        ("x-hint", {"data": {"hint": True}}, "/data/hint"),
        ("x-hint", {"data": {"hint": 3}}, "/data/hint"),
    ):
        found = api.problem("POST", "/api/events", event(kind, **members), status=422, code="invalid_value")
        assert found["errors"][0]["pointer"] == pointer, (kind, members)
    assert api.get("/api/events")["events"] == []


def test_other_kinds_need_a_text_and_their_data_is_free(api: Any) -> None:
    for kind in ("note", "x-timer"):
        found = api.problem("POST", "/api/events", event(kind), status=422, code="invalid_value")
        assert found["errors"] == [{"pointer": "/text", "message": "is missing"}]
    api("POST", "/api/events", event("x-timer", text="go", data={"values": {}, "hint": 9}), status=201)


def test_answers_hints_and_ratings_are_read_back(api: Any) -> None:
    api("POST", "/api/events", event("x-answer", text="it doubles", key=STEP), status=201)
    api("POST", "/api/events", event("x-hint", data={"hint": 1}), status=201)
    api("POST", "/api/events", event("x-self", data={"self": "partly"}), status=201)
    first, second = api.get("/api/answers")["items"]
    assert (first["answer"], first["hints"], first["self"], first["first_at"] is None) == (
        "it doubles",
        1,
        "partly",
        False,
    )
    assert (second["key"], second["answer"], second["hints"]) == (SECOND, "it doubles", 0)
    assert api.get(f"/api/answers?key={STOP}")["items"] == [first]


def test_there_are_no_answers_of_a_position_that_is_no_stop(api: Any) -> None:
    for key in ("", STEP, "t9"):
        api.problem("GET", f"/api/answers?key={key}", status=404, code="not_found")


def test_an_asked_value_that_was_left_empty_is_not_right(api: Any, no_session: Any) -> None:
    for values in ({"n": "64"}, {"n": "64", "m": " "}):
        predict(api, values)
        (item,) = api.get(f"/api/answers?key={STOP}")["items"]
        assert [said_and_right(row) for row in item["latest"]] == [
            ("n", "64", True, False),
            ("p", None, None, True),  # undefined, so it is not judged
            ("m", None, False, True),
        ]
    assert item["right_first"] is False
    assert "<em>left empty</em>" in api("GET", "/api/report/answers.html").text
    rows = [line.split(",") for line in api("GET", "/api/report/answers.csv").text.splitlines()]
    (right,) = (row[rows[0].index("right_first_try")] for row in rows if "left empty" in row and "m" in row)
    assert right == "no"


def test_what_was_typed_is_read_before_it_is_predicted(api: Any, no_session: Any) -> None:
    values = {"n": "8u", "p": "NULL", "m": "eight"}
    found = api("POST", "/api/predictions/read", {"key": STOP, "values": values}).json["values"]
    assert (found["n"], found["p"]) == ({"reads": "8", "reason": None}, {"reads": "0x0", "reason": None})
    assert found["m"]["reads"] is None
    assert found["m"]["reason"]
    assert api.get("/api/events")["events"] == []
    for body, pointer in (
        ({"key": STEP, "values": {"n": "1"}}, "/key"),
        ({"key": STOP, "values": {"q": "1"}}, "/values/q"),
        ({"key": STOP, "values": {}}, "/values"),
    ):
        refused = api.problem("POST", "/api/predictions/read", body, status=422, code="invalid_value")
        assert refused["errors"][0]["pointer"] == pointer


def test_wrong_values_are_counted_by_what_they_mean(api: Any, no_session: Any) -> None:
    for said in ("0x3f", "63", "077", "65", "64", "no idea"):
        predict(api, {"n": said})
    assert api.get("/api/answers")["summary"]["misconceptions"] == [
        {"key": STOP, "expression": "n", "reads": "63", "times": 3},
        {"key": STOP, "expression": "n", "reads": "65", "times": 1},
        {"key": STOP, "expression": "n", "reads": "no idea", "times": 1},
    ]
    rows = api.get("/api/answers")["items"][0]["predictions"]
    assert rows[0]["shown"] == {"said": "0x3f", "said_title": "63", "seen": "0x40", "seen_title": "64"}
