"""The viewer's transitions and the editor's refusals, as HTTP shows them."""

from __future__ import annotations

from typing import Any

from cardapp.errors import EditorBlocked, InvalidValue


def events(api: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = api.get("/api/events")["events"]
    return found


def test_a_part_is_merged_and_only_flags_and_the_page_are_recorded(api: Any) -> None:
    assert api.get("/api/viewer/state")["revision"] == 0
    scrolled = api("PUT", "/api/viewer/state", {"scale": 2.5, "scroll": {"y": 10}}, status=200).json
    assert (scrolled["scale"], scrolled["scroll"]["y"], scrolled["revision"]) == (2.5, 10, 1)
    assert events(api) == []
    shown = api(
        "PUT",
        "/api/viewer/state",
        {"viewer": {"allocator": {"visible": True}}, "scroll": {"page_index": 2}, "actor": "me"},
        status=200,
    ).json
    assert (shown["scale"], shown["viewer"]["allocator"]["visible"], shown["revision"]) == (2.5, True, 2)
    (event,) = events(api)
    assert (event["kind"], event["actor"]) == ("viewer.changed", "me")
    assert event["data"] == {"viewer.allocator.visible": True, "scroll.page_index": 2}


def test_control_follows_sync(api: Any) -> None:
    def put(**editor: bool) -> dict[str, Any]:
        body = {"viewer": {"editor": editor}}
        state: dict[str, Any] = api("PUT", "/api/viewer/state", body, status=200).json["viewer"]["editor"]
        return state

    put(sync=False)
    refused = {"viewer": {"editor": {"control": True}}}
    api.problem("PUT", "/api/viewer/state", refused, status=409, code="editor_sync_off")
    assert put(sync=True)["control"] is False
    assert put(control=True)["control"] is True
    off = put(sync=False)
    assert (off["sync"], off["control"]) == (False, False)
    assert put(sync=True, control=True)["control"] is True


def test_a_bad_value_is_named(api: Any) -> None:
    for body, pointer in (
        ({"scale": 0.05}, "/scale"),
        ({"scale": 8.01}, "/scale"),
        ({"scroll": {"x": -1}}, "/scroll/x"),
        ({"scroll": {"page_index": 3}}, "/scroll/page_index"),
        ({"scroll": {"page_index": 1.5}}, "/scroll/page_index"),
        ({"viewer": {"page": {"fit": 1}}}, "/viewer/page/fit"),
        ({"viewer": {"page": {"zoom": 1}}}, "/viewer/page/zoom"),
        ({"revision": -1}, "/revision"),
    ):
        found = api.problem("PUT", "/api/viewer/state", body, status=422, code="invalid_value")
        assert found["errors"][0]["pointer"] == pointer, body


def test_a_state_is_taken_back_as_it_was_read(api: Any) -> None:
    first = api.get("/api/viewer/state")
    assert api("PUT", "/api/viewer/state", first, status=200).json == first
    second = api("PUT", "/api/viewer/state", {"scale": 2.5, "scroll": {"y": 10}}, status=200).json
    assert api("PUT", "/api/viewer/state", first, status=200).json == {**first, "revision": second["revision"] + 1}
    guarded = {**second, "expected_revision": second["revision"]}
    api.problem("PUT", "/api/viewer/state", guarded, status=409, code="revision_conflict")


def test_the_cursor_is_handed_on(api: Any, editor: Any) -> None:
    api("PUT", "/api/editor/cursor", {"row": 2, "column": 0, "window": 1000}, status=200)
    api("PUT", "/api/editor/cursor", {"row": 3, "column": 1, "file": "a.c"}, status=200)
    assert editor.calls == [("set_cursor", 2, 0, 1000, None), ("set_cursor", 3, 1, None, "a.c")]
    editor.answers["set_cursor"] = InvalidValue.of("/row", "99 is outside the buffer")
    found = api.problem("PUT", "/api/editor/cursor", {"row": 99, "column": 0}, status=422, code="invalid_value")
    assert found["errors"] == [{"pointer": "/row", "message": "99 is outside the buffer"}]
    api.problem("PUT", "/api/editor/cursor", {"row": 0, "column": 0}, status=422, code="invalid_value")
    editor.answers["set_cursor"] = EditorBlocked("Neovim waits")
    api.problem("PUT", "/api/editor/cursor", {"row": 1, "column": 0}, status=409, code="editor_blocked")


def test_input_is_bounded_in_characters(api: Any, editor: Any) -> None:
    longest = "é" * 256
    assert api("POST", "/api/editor/input", {"text": longest}, status=200).json == {"accepted": 1}
    for text in ("", longest + "x"):
        found = api.problem("POST", "/api/editor/input", {"text": text}, status=422, code="invalid_value")
        assert found["errors"][0]["pointer"] == "/text"
    assert editor.calls == [("input", longest)]


def test_reset_records_itself_and_switches_sync_off(api: Any, publish: Any) -> None:
    publish("t1/b1/p1/s1/one")
    api("POST", "/api/editor/reset", {"actor": "me"}, status=200)
    assert [(event["kind"], event["actor"]) for event in events(api)] == [("editor.reset", "me"), ("sync.off", "me")]
    control = api.get("/api/control/state")
    assert (control["sync"], control["reason"]) == ("off", "target_reset")


def test_no_change_makes_no_revision_and_no_event(api: Any) -> None:
    api("PUT", "/api/viewer/state", {"scale": 1, "viewer": {"page": {"fit": True}}}, status=200)
    assert api.get("/api/viewer/state")["revision"] == 0
    assert events(api) == []
