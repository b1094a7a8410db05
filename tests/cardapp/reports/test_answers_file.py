"""The file that a learner hands in: every edit is found, and the answers come from the events alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from cardapp.card.model import Card
from cardapp.errors import InvalidValue
from cardapp.reports import answers_file
from tests.cardapp.reports.answers_files import answered, chained, file_of, looked, named, predicted

STOP = "t1/b1/p1/s1/end"


def is_refused(content: bytes) -> bool:
    try:
        answers_file.read(content)
    except InvalidValue:
        return True
    return False


@pytest.fixture
def content(card: Card) -> bytes:
    told = [named("Ada"), *predicted(2, STOP, "40", right=False), answered(STOP, "because <b>"), looked(STOP)]
    return file_of(card, chained(told), learner="Ada")


def test_an_intact_file_is_read(content: bytes) -> None:
    found = answers_file.read(content)
    assert (found.learner, found.card["id"], found.events) == ("Ada", "arena", 5)
    (item,) = found.answers["items"]
    assert (item["key"], item["answer"], item["right_first"], item["tries"]) == (STOP, "because <b>", False, 1)
    assert item == json.loads(content)["items"][0]


def test_a_file_in_another_form_is_still_intact(content: bytes) -> None:
    document = json.loads(content)
    for form in (
        json.dumps(document, indent=2),
        json.dumps(document, ensure_ascii=True),
        "\ufeff" + json.dumps(document, ensure_ascii=False, sort_keys=True),
    ):
        assert answers_file.read(form.encode()).learner == "Ada"


def test_the_name_is_that_of_the_chain(card: Card) -> None:
    events = chained([named("Ada"), named("Ada Lovelace")])
    assert answers_file.read(file_of(card, events, learner="Bob")).learner == "Ada Lovelace"
    assert answers_file.read(file_of(card, [])).learner == ""


def test_answers_at_another_card_are_not_counted(card: Card) -> None:
    found = answers_file.read(file_of(card, chained([answered(STOP, "x")], card_id="other")))
    assert (found.answers["items"], found.events) == ([], 1)


def test_every_changed_value_is_found(content: bytes) -> None:
    """Each value of the file is changed once, whatever it is."""
    places = list(_places(json.loads(content)))
    assert len(places) > 100
    for place in places:
        document = json.loads(content)
        *parents, last = place
        target: Any = document
        for name in parents:
            target = target[name]
        target[last] = _other(target[last])
        assert is_refused(json.dumps(document).encode()), place


def _places(value: Any, place: tuple[Any, ...] = ()) -> Any:
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    if place and not isinstance(value, dict | list):
        yield place
    for name, child in children:
        yield from _places(child, (*place, name))


def _other(value: Any) -> Any:
    if isinstance(value, bool) or value is None:
        return not value
    return value + 1 if isinstance(value, int) else f"{value}!"


def test_added_removed_and_moved_parts_are_found(content: bytes) -> None:
    edits: tuple[Callable[[Any], object], ...] = (
        lambda document: document["events"].pop(),
        lambda document: document["events"].pop(0),
        lambda document: document["events"].pop(2),
        lambda document: document["events"].reverse(),
        lambda document: document["events"].append(document["events"][-1]),
        lambda document: document["events"][1].update(more=1),
        lambda document: document["stops"].pop(),
        lambda document: document.update(more=1),
        lambda document: document.pop("items"),
    )
    for number, edit in enumerate(edits):
        document = json.loads(content)
        edit(document)
        assert is_refused(json.dumps(document).encode()), number


def test_another_file_is_refused() -> None:
    for content in (
        b"", b"null", b"[]", b"{}", b"7", b"\xff\xfe\x00", b'{"schema":"card-answers.v1"}', b"[" * 100_000,
        b'{"schema":"card-answers.v1","events":[],"digest":""}',
        b'{"schema":"card-answers.v1","events":{"a":1},"digest":""}',
        b'{"schema":"card-answers.v1","events":[null],"digest":""}',
        b'{"schema":"card-answers.v1","events":[{"hash":NaN}],"digest":""}',
        b'{"schema":["card-answers.v1"]}', b'{"schema":"card-answers.v2"}',
    ):  # fmt: skip
        assert is_refused(content), content[:60]
