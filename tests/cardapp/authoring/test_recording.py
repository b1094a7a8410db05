"""Which values are recorded in a card, and which existing values are replaced only on request."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cardapp.authoring.recording import Change, Recording, changed_text, place_changes, selected, value_changes
from cardapp.card.anchors import digest
from cardapp.card.catalog import Catalog
from cardapp.card.source import load_card
from cardapp.errors import Conflict, InvalidCard, InvalidValue
from tests.cardapp.card.conftest import first_step, small_source

LINES = ["/* Adds. */", "static int", "total(int count)", "{", "    return count; // x", "}", ""]
STEP = "t1/b1/p1/s1"
AT = "/tasks/0/blocks/0/phases/0/steps/0"


class DraftCard:
    """A small card on ``a.c``; a test changes its first step, which has the key :data:`STEP`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.document = small_source()
        self.step = first_step(self.document)
        self.step["snapshots"] = self.step["snapshots"][:1]
        self.snapshot: dict[str, Any] = self.step["snapshots"][0]
        self.snapshot["stop"] = {"function": "total"}
        (folder / "src").mkdir(parents=True)
        self.write_code(*LINES)

    def write_code(self, *lines: str) -> None:
        (self.folder / "src" / "a.c").write_text("\n".join(lines))

    def changes(self) -> dict[str, tuple[Any, Any, bool]]:
        """Old value, new value and whether the new value replaces the old one, by the place below the step."""
        (self.folder / "card_source.json").write_text(json.dumps(self.document))
        loaded = load_card(self.folder)
        found, problems = place_changes(loaded, selected(loaded, STEP))
        self.problems = [problem.detail for problem in problems]
        return {each.pointer.removeprefix(AT): (each.old, each.new, each.replaces) for each in found}


@pytest.fixture
def card(tmp_path: Path) -> DraftCard:
    return DraftCard(tmp_path / "card")


def test_a_named_function_gets_its_lines_and_its_anchor(card: DraftCard) -> None:
    card.step["code"] = {"file": "a.c", "function": "total"}
    assert card.changes() == {
        "/code/from": (None, 2, False),
        "/code/to": (None, 6, False),
        "/code/text": (None, "static int", False),
        "/code/digest": (None, digest(LINES[1:6]), False),
    }


def test_an_excerpt_without_an_anchor_gets_one(card: DraftCard) -> None:
    card.step["code"] = {"file": "a.c", "from": 3, "to": 4}
    assert card.changes().keys() == {"/code/text", "/code/digest"}
    assert card.changes()["/code/text"] == (None, "total(int count)", False)


def anchored(first: int, last: int) -> dict[str, Any]:
    lines = LINES[first - 1 : last]
    return {"file": "a.c", "from": first, "to": last, "text": lines[0], "digest": digest(lines)}


def test_an_anchored_excerpt_is_recorded_again_on_request_where_it_moved_or_changed(card: DraftCard) -> None:
    card.step["code"] = anchored(3, 4) | {"function": "total"}
    assert card.changes() == {}
    card.step["code"] = anchored(3, 4)
    card.write_code("", *LINES)
    assert card.changes() == {"/code/from": (3, 4, True), "/code/to": (4, 5, True)}
    card.write_code(*(line.replace("count", "n") for line in LINES))
    assert card.changes()["/code/text"] == ("total(int count)", "total(int n)", True)
    assert card.changes().keys() == {"/code/text", "/code/digest"}
    card.step["code"] = anchored(2, 6) | {"function": "total"}
    card.write_code("", *LINES[:4], "    count++;", *LINES[4:])
    assert card.changes().keys() == {"/code/from", "/code/to", "/code/digest"}
    assert card.changes()["/code/to"] == (6, 8, True)


def test_a_stop_gets_the_text_or_the_line_that_it_has_now(card: DraftCard) -> None:
    for line, text, change in (
        (5, "?", {"/snapshots/0/stop/text": ("?", "return count; // x", False)}),
        (4, "return count;", {"/snapshots/0/stop/line": (4, 5, True)}),
        (5, "return n;", {"/snapshots/0/stop/text": ("return n;", "return count; // x", True)}),
    ):
        card.snapshot["stop"] = {"file": "a.c", "line": line, "text": text}
        assert card.changes() == change


def test_a_stop_with_a_text_that_is_unique_gets_its_line(card: DraftCard) -> None:
    for line in ({}, {"line": "?"}):
        card.snapshot["stop"] = {"file": "a.c", "text": "return count;", **line}
        assert card.changes() == {"/snapshots/0/stop/line": (None, 5, False)}
    for text, problem in (
        ("count", "'count' is in lines 3, 5 of a.c: name the line, or a text that only one line has"),
        ("nowhere", "no line of the file contains it: correct line and text of the stop"),
    ):
        card.snapshot["stop"] = {"file": "a.c", "text": text}
        assert card.changes() == {}
        assert card.problems[0].endswith(problem)
    card.snapshot["stop"] = {"file": "a.c", "text": "?"}
    with pytest.raises(InvalidCard, match="needs a line, or the text of one"):
        card.changes()


def test_a_place_that_is_not_found_is_a_problem(card: DraftCard) -> None:
    card.step["code"] = {"file": "a.c", "function": "sum"}
    card.snapshot["stop"] = {"file": "a.c", "line": 70, "text": "?"}
    assert card.changes() == {}
    assert card.problems == [
        "a.c does not define the function sum; no line of it has this name",
        "a.c:70 is empty or behind the end of the file: name another line",
    ]


def test_values_are_filled_in_and_others_replace(card: DraftCard) -> None:
    card.snapshot["expect"] = {
        "n": "?", "same": "0x10", "a/b": "1", "f": {"value": "?", "format": "x"}, "gone": "?", "name": "?",
        "unset": {"undefined": True}, "lost": "?",
        "user": "{name = *}", "kept": "{name = *, n = <optimized out>}",
    }  # fmt: skip
    card.changes()
    snapshot = Catalog(load_card(card.folder).card).snapshots[f"{STEP}/one"]
    readings = {"n": "3", "same": "16", "a/b": "2", "f": "0x3", "name": '"ada"', "unset": "9"}
    readings |= {"lost": "{n = <optimized out>}", "user": '{name = * "ada"}'}
    readings["kept"] = '{name = * "ada", n = <optimized out>}'
    values: dict[str, Any] = {name: {"value": value, "error": None} for name, value in readings.items()}
    values["gone"] = {"value": None, "error": 'No symbol "gone" in current context.'}
    changes, problems = value_changes("key", "/s", snapshot, {"values": values})
    assert [(each.pointer, each.old, each.new, each.replaces) for each in changes] == [
        ("/s/expect/n", "?", "3", False),
        ("/s/expect/a~1b", "1", "2", True),
        ("/s/expect/f/value", "?", "0x3", False),
        ("/s/expect/name", "?", '"ada"', False),
        ("/s/expect/user", "{name = *}", '{name = * "ada"}', True),
    ]
    assert [problem.detail for problem in problems] == [
        'gone cannot be read: No symbol "gone" in current context.',
        "lost cannot be read: <optimized out>",
    ]


def test_without_the_request_no_value_of_a_place_that_moves_is_written(tmp_path: Path) -> None:
    moved = Change("a", "/line", "stop line", 3, 4, True, is_place=True)
    at_the_moved_stop = Change("a", "/v", "v", "?", "1", False)
    elsewhere = Change("b", "/w", "w", "?", "1", False)
    other_value = Change("b", "/x", "x", "1", "2", True)
    found = Recording(tmp_path, "", (moved, at_the_moved_stop, elsewhere, other_value), (), ())
    assert found.without_replacing() == (elsewhere,)
    assert found.replacing == (moved, other_value)


def test_a_file_that_changed_meanwhile_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "card_source.json"
    path.write_text('{ "n" : "?",\r\n\t"m":1 }')
    found = Recording(path, path.read_bytes().decode(), (Change("a", "/n", "n", "?", "3", False),), (), ())
    assert changed_text(found.text, found.changes) == '{ "n" : "3",\r\n\t"m":1 }'
    path.write_text("{}")
    with pytest.raises(Conflict):
        found.write(found.changes)
    assert path.read_text() == "{}"


def test_only_names_a_position_of_the_card(card: DraftCard) -> None:
    card.changes()
    loaded = load_card(card.folder)
    assert selected(loaded, STEP) == {STEP, f"{STEP}/one"}
    assert "" in selected(loaded, None)
    with pytest.raises(InvalidValue, match="no position 't1/b1/p1/s'"):
        selected(loaded, "t1/b1/p1/s")
