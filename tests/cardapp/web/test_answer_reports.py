"""The reports of a learner's answers (page, CSV and JSON), and the table of the class made from them."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest

from cardapp.state import events

STOP, SECOND = "t1/b1/p1/s1/one", "t1/b1/p1/s1/two"
EVIL = "<img src=x onerror=alert(1)>\"'&"


def append(api: Any, kind: str, **members: Any) -> Any:
    return api("POST", "/api/events", {"kind": kind, "actor": "page", "key": STOP, **members}, status=201).json


@pytest.fixture
def answered(api: Any, no_session: Any) -> Any:
    """Ada made a wrong prediction, then a right one, and answered a question. No session ran, so the card judged."""
    api("POST", "/api/learners", {"name": "Ada"})
    append(api, "x-prediction", data={"values": {"n": "=2"}})
    append(api, "x-prediction", data={"values": {"n": "1"}})
    append(api, "x-answer", text=EVIL, key=SECOND)
    return api


def test_the_table_has_a_row_for_each_predicted_value(answered: Any) -> None:
    response = answered("GET", "/api/report/answers.csv", status=200)
    assert response.headers["Content-Type"] == "text/csv; charset=utf-8"
    assert response.headers["Content-Disposition"] == "attachment; filename*=UTF-8''answers-small-Ada.csv"
    rows = list(csv.DictReader(io.StringIO(response.body.decode("utf-8-sig"))))
    names = ("key", "expression", "prediction", "truth", "right_first_try", "tries", "looked_first", "answer")
    assert [[row[name] for name in names] for row in rows] == [
        [STOP, "n", "'=2", "1", "no", "2", "no", ""],
        [SECOND, "", "", "", "", "0", "no", EVIL],
    ]


def test_every_report_names_the_learner_first_then_the_card(answered: Any) -> None:
    card = answered.get("/api/identity")
    title = answered("GET", "/api/report/teams.md").body.decode().partition(" · ")[2].splitlines()[0]
    for path in ("teams.md", "teams.html", "lesson.html", "answers.html"):
        text = answered("GET", f"/api/report/{path}", status=200).body.decode()
        text = text.partition("<body>")[2] or text
        places = [text.index(each) for each in ("Ada", title, card["version"], card["source_sha256"][:12])]
        assert places == sorted(places), path
        assert "minutes" not in text[places[-1] :]
    table = answered("GET", "/api/report/answers.csv").body.decode("utf-8-sig").splitlines()
    assert table[0].startswith("learner,card,")
    assert table[1].startswith(f"Ada,{card['id']},")


def test_the_page_shows_the_answers_as_text(answered: Any) -> None:
    response = answered("GET", "/api/report/answers.html", status=200)
    assert "<h1>Ada</h1>" in response.body.decode()
    assert "<img" not in response.body.decode()
    assert "script" not in response.headers["Content-Security-Policy"].replace("default-src 'none'", "")


def test_the_file_has_every_event_of_the_learner_with_its_hash(answered: Any) -> None:
    document = answered.get("/api/report/answers.json")
    kinds = [event["kind"] for event in document["events"]]
    assert kinds == ["learner.named", *["x-prediction", "prediction.judged"] * 2, "x-answer"]
    head = events.GENESIS
    for event in document["events"]:
        head = events.event_hash(head, events.covered(event))
        assert event["hash"] == head
    assert document["items"] == answered.get("/api/answers")["items"]


def test_a_name_with_any_character_is_a_safe_file_name(api: Any) -> None:
    api("POST", "/api/learners", {"name": 'Zoë "x"; a/../b'})
    header = api("GET", "/api/report/answers.csv").headers["Content-Disposition"]
    assert header == "attachment; filename*=UTF-8''answers-small-Zo%C3%AB%20%22x%22%3B%20a%2F..%2Fb.csv"
