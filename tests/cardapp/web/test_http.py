"""Entity tags and ``If-None-Match`` (RFC 9110, sections 8.8.3 and 13.1.2)."""

from __future__ import annotations

from typing import Any

from cardapp.web.http import Reply, entity_tag, matches, revalidated


def test_a_header_with_the_tag_matches() -> None:
    matching = (
        '"a"', "*", " * ", 'W/"a"', '"b", "a"', '"b","a"', '"x,y", W/"a"', '"a" , "b"', ' "a"', '"b",\t"a"', '"a",'
    )  # fmt: skip
    others = ('"b"', "a", "", 'w/"a"', '"b" "a"', "'a'", '"a', "**", '"b";"a"', '"x"y"a"')
    assert [header for header in (*matching, *others) if matches(header, '"a"')] == [*matching]


def test_the_tag_is_strong_and_depends_on_the_bytes() -> None:
    assert entity_tag(b"a") == entity_tag(b"a") != entity_tag(b"b")
    assert entity_tag(b"a").startswith('"')


def test_only_a_whole_successful_body_is_tagged() -> None:
    for reply in (Reply(b"x", status=201), Reply(iter([b"x"]))):
        assert revalidated(reply, "*") is reply


def test_a_tag_of_the_handler_is_kept() -> None:
    reply = Reply(b"x", headers=(("ETag", '"own"'),))
    assert revalidated(reply, None) is reply
    assert revalidated(reply, '"own"').status == 304


def test_the_editors_state_is_not_cached(api: Any) -> None:
    response = api("GET", "/api/editor/state", headers={"If-None-Match": "*"}, status=200)
    assert response.headers["Cache-Control"] == "no-store"
    assert "ETag" not in response.headers
