"""Progress, the chronological record, evidence and the reports over HTTP."""

from __future__ import annotations

import base64
import hashlib
import re
from typing import Any

import webtest

from cardapp.card.model import Identity
from cardapp.card.progress import LastResult
from cardapp.state import checkpoint_results
from cardapp.state import events as record
from cardapp.web.services import Services

ITEM = "/api/progress/t1.b1.p1.s1"
PNG = {"Content-Type": "image/png"}
AT = "2025-03-01T10:00:00.000Z"


def events(api: Any, query: str = "") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = api.get(f"/api/events{query}")["events"]
    return found


# -- progress ------------------------------------------------------------------------------------------------------


def test_an_item_is_approved_and_taken_back(api: Any) -> None:
    approved = api("PUT", ITEM, {"status": "approved", "note": "seen\nit", "actor": "me"}, status=200).json
    assert (approved["status"], approved["note"], approved["actor"], approved["revision"]) == (
        "approved",
        "seen\nit",
        "me",
        1,
    )
    assert api.get("/api/progress")["summary"]["approved"] == 1
    pending = api("PUT", ITEM, {"status": "pending"}, status=200).json
    assert (pending["status"], pending["note"], pending["revision"]) == ("pending", "seen\nit", 2), "keeps its note"
    assert api("PUT", ITEM, {"status": "pending", "note": ""}, status=200).json["note"] == ""
    first, second, _ = events(api)
    assert (first["kind"], first["key"], first["actor"]) == ("progress.changed", "t1/b1/p1/s1", "me")
    assert first["data"] == {"item": "t1.b1.p1.s1", "from": "pending", "to": "approved", "note": "seen\nit"}
    assert second["data"] == {"item": "t1.b1.p1.s1", "from": "approved", "to": "pending", "note": "seen\nit"}


def test_an_item_that_is_no_step_is_not_found(api: Any) -> None:
    for item in ("t1", "t1.b1.p1", "t1.b1.p1.nope", "t1%2Fb1%2Fp1%2Fs1"):
        api.problem("PUT", f"/api/progress/{item}", {"status": "approved"}, status=404, code="not_found")


def test_the_summary_counts_what_the_replays_showed(api: Any, services: Services) -> None:
    with services.database.write() as tx:
        for step, state in (("t1/b1/p1/s1", "ready"), ("t1/b1/p1/s2", "failed")):
            result = LastResult(state, "2025-03-01T10:00:00.000Z", f"{step}/one", None)
            checkpoint_results.save_result(tx, "11111111-2222-3333-4444-555555555555", step, result)
    found = api.get("/api/progress")
    execution = found["summary"]["execution"]
    assert (execution["ready"], execution["failed"], execution["never_run"]) == (1, 1, 2)
    assert found["items"][0]["last_result"]["state"] == "ready"


# -- events --------------------------------------------------------------------------------------------------------


def test_a_note_is_appended_at_the_position(api: Any) -> None:
    api("POST", "/api/navigation/move", {"level": "task", "delta": 1}, status=200)
    response = api(
        "POST", "/api/events", {"kind": "x-timer", "actor": "me", "text": "go", "data": {"s": 1}}, status=201
    )
    event = response.json
    assert (event["kind"], event["key"], event["data"]) == ("x-timer", "t1", {"text": "go", "s": 1})
    assert api.get(response.headers["Location"])["events"] == [event]


def test_a_client_cannot_append_a_kind_of_the_service(api: Any) -> None:
    others = ("", "notes", "x-", "x--a", "X-a", "x-Ü", "note\n", "x-a\n", "x-" + "a" * 63)
    for kind in (*sorted(record.BACKEND_KINDS), *others):
        body = {"kind": kind, "actor": "me", "text": "t"}
        found = api.problem("POST", "/api/events", body, status=422, code="invalid_value")
        assert found["errors"][0]["pointer"] == "/kind", kind


def test_a_bad_query_is_refused(api: Any) -> None:
    for query in ("limit=0", "limit=1001", "limit=x", "limit=1.0", "after=-1", "after=9e9", "after=1&after=2"):
        api.problem("GET", f"/api/events?{query}", status=422, code="invalid_value")


# -- evidence ------------------------------------------------------------------------------------------------------


def form(*files: tuple[str, str, bytes], **fields: str) -> tuple[bytes, dict[str, str]]:
    """A multipart body with its Content-Type; WebTest makes it."""
    app = webtest.TestApp(lambda environ, start: [])
    media_type, body = app.encode_multipart(list(fields.items()), list(files))
    return body, {"Content-Type": media_type}


def test_a_raw_picture_is_stored_pinned_and_served(api: Any, picture: bytes) -> None:
    response = api("POST", "/api/evidence?caption=what%20I%20saw&actor=me", raw=picture, headers=PNG, status=201)
    record = response.json
    digest = hashlib.sha256(picture).hexdigest()
    assert record["name"] == f"{digest}.png"
    assert (record["caption"], record["actor"], record["event_seq"]) == ("what I saw", "me", record["seq"])
    served = api("GET", response.headers["Location"], status=200)
    assert served.body == picture
    assert served.headers["Content-Type"] == "image/png"
    assert "immutable" in served.headers["Cache-Control"]
    api("GET", response.headers["Location"], headers={"If-None-Match": served.headers["ETag"]}, status=304)
    (event,) = events(api)
    assert (event["kind"], event["evidence"][0]["name"]) == ("evidence.added", record["name"])


def test_a_form_pins_its_picture_to_an_event(api: Any, picture: bytes) -> None:
    note = api("POST", "/api/events", {"kind": "note", "actor": "me", "text": "look"}, status=201).json
    body, headers = form(("file", "a.png", picture), event_seq=str(note["seq"]), caption="c")
    record = api("POST", "/api/evidence", raw=body, headers=headers, status=201).json
    assert (record["event_seq"], record["seq"]) == (1, 2)
    assert events(api)[0]["evidence"][0]["caption"] == "c"


def test_what_is_no_picture_is_refused_and_leaves_nothing(api: Any, services: Services, picture: bytes) -> None:
    svg = b"<svg xmlns='http://www.w3.org/2000/svg'/>"
    api.problem("POST", "/api/evidence", raw=svg, headers=PNG, status=415, code="unsupported_media_type")
    api.problem(
        "POST", "/api/evidence", raw=svg, headers={"Content-Type": "image/svg+xml"}, status=415,
        code="unsupported_media_type",
    )  # fmt: skip
    api.problem("POST", "/api/evidence", raw=picture[:-1], headers=PNG, status=422, code="invalid_value")
    api.problem("POST", "/api/evidence?event_seq=9", raw=picture, headers=PNG, status=422, code="invalid_value")
    api.problem("POST", "/api/evidence?event_seq=x", raw=picture, headers=PNG, status=422, code="invalid_value")
    api.problem("POST", "/api/evidence", raw=b"x" * 200_001, headers=PNG, status=413, code="too_large")
    api.problem("POST", "/api/evidence", raw=b"x" * 300_000, headers=PNG, status=413, code="too_large")
    assert events(api) == []


def test_a_form_that_cannot_be_used_is_refused(api: Any, picture: bytes) -> None:
    def refused(body: bytes, headers: dict[str, str], status: int, code: str) -> Any:
        return api.problem("POST", "/api/evidence", raw=body, headers=headers, status=status, code=code)

    refused(*form(caption="no file"), 422, "invalid_value")
    refused(*form(("file", "a.png", picture), ("file", "b.png", picture)), 422, "invalid_value")
    refused(*form(("file", "a.png", picture), colour="red"), 422, "invalid_value")
    refused(*form(("file", "a.png", picture), event_seq="1.0"), 422, "invalid_value")
    refused(*form(("file", "a.png", picture), ("caption", "c.txt", b"text")), 422, "invalid_value")
    body, headers = form(("file", "a.png", picture))
    refused(body[:-10], headers, 400, "bad_request")
    refused(body, {"Content-Type": "multipart/form-data"}, 400, "bad_request")
    refused(b"", {"Content-Type": "multipart/form-data; boundary=x"}, 400, "bad_request")


# -- reports -------------------------------------------------------------------------------------------------------


def test_the_reports_tell_what_happened_at_this_card(api: Any, services: Services, picture: bytes) -> None:
    for number in range(12):
        text = f"<script>own {number}"
        note = api("POST", "/api/events", {"kind": "note", "actor": "me", "text": text}, status=201).json
    api("POST", "/api/evidence", raw=picture, headers=PNG, status=201)
    position = {"focus_level": "block", "task_id": "t1", "block_id": "b1"}
    api("PUT", "/api/navigation/current", position, status=200)
    other = Identity("other", "u", "1.0.0", "0" * 64)
    with services.database.write() as tx:
        for _ in range(1000):
            record.append(tx, kind="note", actor="me", key="", card=other, data={}, text="foreign", at=AT)
    report = api("GET", "/api/report/teams.md", status=200).text
    assert [f"own {number}\n" in report for number in range(12)] == [False] * 2 + [True] * 10
    assert "foreign" not in report
    assert "http://127.0.0.1:8080/" in report
    lesson = api("GET", "/api/report/lesson.html", status=200).text
    assert base64.b64encode(picture).decode() in lesson
    assert f'id="e{note["seq"]}"' in lesson
    assert "foreign" not in lesson
    assert "<script" not in lesson
    assert re.search("left out: [^<]*1000 of other cards", lesson)
    (marked,) = re.findall('<a ([^>]*) aria-current="location">', lesson)
    assert marked.startswith('href="http://127.0.0.1:8080/#t1/b1"')


def test_the_lesson_allows_its_own_style_and_nothing_more(api: Any) -> None:
    lesson = api("GET", "/api/report/lesson.html", status=200)
    policy = lesson.headers["Content-Security-Policy"]
    (style,) = re.findall(r"<style>(.*?)</style>", lesson.text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert f"style-src 'sha256-{digest}'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "script-src" not in policy
    assert "unsafe" not in policy
    assert "<p>0 entries. " in lesson.text
    assert "The record ends" not in lesson.text
