"""Withdrawn notes and images, and the record in reverse order."""

from __future__ import annotations

from typing import Any


def note(api: Any, text: str) -> int:
    made = api("POST", "/api/events", {"kind": "note", "actor": "ada", "text": text}, status=201).json
    return int(made["seq"])


def pin(api: Any, picture: bytes, query: str) -> int:
    headers = {"Content-Type": "image/png"}
    return int(api("POST", f"/api/evidence?{query}", raw=picture, headers=headers, status=201).json["seq"])


def withdraw(api: Any, seq: int, **members: Any) -> Any:
    return api("POST", f"/api/events/{seq}/withdraw", {"actor": "ada", **members}, status=201).json


def reports(api: Any) -> str:
    return str(api("GET", "/api/report/teams.md").text + api("GET", "/api/report/lesson.html").text)


def test_reports_leave_a_withdrawn_note_out_and_nothing_is_deleted(api: Any) -> None:
    seq = note(api, "a slip of the pen")
    note(api, "this one stays")
    event = withdraw(api, seq, reason="<b>wrong</b>")
    assert (event["kind"], event["data"]) == ("event.withdrawn", {"event_seq": seq, "reason": "<b>wrong</b>"})
    text = reports(api)
    assert "this one stays" in text
    assert "a slip of the pen" not in text
    assert "wrong" not in text
    assert "1 withdrawn" not in text  # two entries are left out: the note and its withdrawal
    assert "2 withdrawn" in text
    found = {each["seq"]: each for each in api.get("/api/events")["events"]}
    assert (found[seq]["withdrawn"], found[seq]["data"]["text"]) == (True, "a slip of the pen")
    assert "a slip of the pen" in api("GET", "/api/report/answers.json").text


def test_an_image_is_withdrawn_alone_or_with_its_note(api: Any, picture: bytes) -> None:
    seq = note(api, "see below")
    alone, kept = (
        pin(api, picture, f"event_seq={seq}&caption=Arena"),
        pin(api, picture, f"event_seq={seq}&caption=Heap"),
    )
    withdraw(api, alone)
    pictures = next(each for each in api.get("/api/events")["events"] if each["seq"] == seq)["evidence"]
    assert [(each["seq"], each["withdrawn"]) for each in pictures] == [(alone, True), (kept, False)]
    text = reports(api)
    assert "Arena" not in text
    assert "<figcaption>Heap" in text
    withdraw(api, seq)
    text = reports(api)
    assert "Heap" not in text
    assert api("POST", f"/api/events/{kept}/withdraw", {"actor": "ada"}, status=409).json["code"] == "already_withdrawn"
    assert api("GET", f"/api/evidence/{pictures[1]['name']}", status=200).body == picture


def test_the_record_is_read_backwards(api: Any) -> None:
    seqs = [note(api, str(number)) for number in range(5)]
    found = api.get("/api/events?before=9007199254740991&limit=2")
    assert [each["seq"] for each in found["events"]] == [seqs[4], seqs[3]]
    assert (found["next_before"], found["last_seq"]) == (seqs[3], seqs[4])
    assert api.get(f"/api/events?before={seqs[0]}")["next_before"] is None
