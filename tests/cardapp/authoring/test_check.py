"""The faults of a card that are found without running its program."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cardapp.authoring.check import source_faults, static_faults
from cardapp.authoring.fault import Fault
from cardapp.card.anchors import digest
from cardapp.card.source import load_card
from cardapp.errors import InvalidCard
from tests.cardapp.card.conftest import first_step, small_source

LINES = ["int a;", "int b;", "int x;", "int c;"]


class AuthoredCard:
    """A small card in a separate folder. A test changes its source and its C file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.document = small_source()
        (folder / "src").mkdir(parents=True)
        self.write_code(*LINES)

    @property
    def step(self) -> dict[str, Any]:
        """The first step, which has two snapshots; the key is ``t1/b1/p1/s1``."""
        return first_step(self.document)

    def anchor(self, first: int, last: int) -> None:
        lines = LINES[first - 1 : last]
        self.step["code"] = {"file": "a.c", "from": first, "to": last, "text": lines[0], "digest": digest(lines)}

    def write_code(self, *lines: str) -> None:
        (self.folder / "src" / "a.c").write_text("\n".join(lines) + "\n")

    def faults(self) -> list[Fault]:
        (self.folder / "card_source.json").write_text(json.dumps(self.document))
        return static_faults(load_card(self.folder))


@pytest.fixture
def card(tmp_path: Path) -> AuthoredCard:
    return AuthoredCard(tmp_path / "card")


def test_a_moved_stop_names_the_nearest_line_that_has_the_text_now(card: AuthoredCard) -> None:
    assert card.faults() == []
    card.write_code("int x;", "", "", "", "int x;")
    (first, *others) = card.faults()
    assert len(others) == 4
    assert (first.key, first.code, first.fix) == ("t1/b1/p1/s1/one", "source_drift", {"line": 1})
    assert first.pointer == "/tasks/0/blocks/0/phases/0/steps/0/snapshots/0/stop"
    assert "it is now in lines 1, 5" in first.detail


def test_a_source_that_leads_out_of_the_root_is_a_fault_and_is_not_shown(card: AuthoredCard, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("int x;\n")
    (card.folder / "src" / "a.c").unlink()
    (card.folder / "src" / "a.c").symlink_to(tmp_path / "secret")
    (first, *_) = card.faults()
    assert (first.pointer, first.code) == ("/target/sources/0", "source_missing")
    assert "leads out of" in first.detail
    assert load_card(card.folder).sources() == {}


def test_a_stop_whose_text_is_gone_has_no_fix_and_says_what_to_do(card: AuthoredCard) -> None:
    card.write_code("int a;", "int b;", "int y;")
    first = card.faults()[0]
    assert (first.fix, first.expected, first.seen) == (None, "x", "int y;")
    assert first.detail.endswith("no line of the file contains it: correct line and text of the stop")
    card.step["snapshots"][0]["stop"] = {"file": "a.c", "line": 3, "text": "n = n + 1;"}
    for lines, advice in (
        (("int a;", "int b;", "    n += 1;"), "accept the present text with bin/cardapp record, or choose another"),
        (("    n += 1;", "int b;", "int c;"), "(line 1 is similar: n += 1;): correct line and text of the stop"),
    ):
        card.write_code(*lines)
        fault = next(each for each in card.faults() if each.key == "t1/b1/p1/s1/one")
        assert fault.detail.endswith(advice)


def test_an_unknown_signal_is_a_fault_with_a_similar_name(card: AuthoredCard) -> None:
    card.step["snapshots"][0]["stop"] = {"signal": "SIG34"}
    card.step["snapshots"][1]["stop"] = {"signal": "SIGSEV"}
    (fault,) = (each for each in card.faults() if each.pointer.endswith("/stop/signal"))
    assert (fault.code, fault.pointer[-24:]) == ("unknown_signal", "/snapshots/1/stop/signal")
    assert fault.detail == "there is no signal SIGSEV; did you mean SIGSEGV?"


def test_a_missing_folder_is_one_fault(card: AuthoredCard) -> None:
    card.document["target"]["directory"] = "sources"
    (fault,) = card.faults()
    assert (fault.code, fault.pointer) == ("source_missing", "/target/directory")
    assert "target.directory is relative to the card's folder" in fault.detail


def test_an_excerpt_that_moved_is_a_fault_with_its_new_lines(card: AuthoredCard) -> None:
    card.anchor(1, 2)
    assert card.faults() == []
    card.write_code(*LINES[2:3], "", *LINES[2:], *LINES[:2])
    (fault,) = card.faults()
    assert (fault.key, fault.code, fault.fix) == ("t1/b1/p1/s1", "code_changed", {"from": 5, "to": 6})


def test_a_changed_excerpt_shows_both_texts_and_where_its_first_line_is_now(card: AuthoredCard) -> None:
    card.anchor(1, 2)
    card.write_code("long a;", *LINES[1:])
    (fault,) = card.faults()
    assert (fault.code, fault.expected, fault.seen, fault.fix) == ("code_changed", "int a;", "long a;", None)
    card.write_code("int a;", "long b;", *LINES[2:])
    assert card.faults()[0].seen == "the lines differ"
    card.anchor(2, 3)
    card.write_code("", "", "int a;", "int b;", "int y;", "int x;")
    fault = next(each for each in card.faults() if each.key == "t1/b1/p1/s1")
    assert fault.detail.endswith("; their first line is now line 4")
    assert (fault.expected, fault.seen, fault.fix) == ("int b;", "an empty line", None)
    card.anchor(3, 4)
    card.write_code(*LINES[:3])
    (fault,) = (each for each in card.faults() if each.key == "t1/b1/p1/s1")
    assert (fault.code, fault.expected, fault.fix) == ("code_changed", "int x;", None)
    assert "a.c has only 3 lines: choose other lines (from, to)" in fault.detail


def test_what_was_not_recorded_is_a_fault(card: AuthoredCard) -> None:
    card.step["code"] = {"file": "a.c", "function": "main"}
    card.step["snapshots"][0]["expect"] = {"n": "1", "a/b": "?"}
    card.step["snapshots"][0]["stop"] = {"file": "a.c", "line": 1, "text": "?"}
    excerpt, stop, value = card.faults()
    assert {excerpt.code, stop.code, value.code} == {"not_recorded"}
    assert stop.pointer.endswith("/snapshots/0/stop/text")
    assert "bin/cardapp record" in excerpt.detail
    assert value.expression == "a/b"
    assert value.pointer.endswith("/snapshots/0/expect/a~1b")


def test_a_value_that_json_does_not_have_and_a_name_that_stands_twice_have_their_place(card: AuthoredCard) -> None:
    card.step["snapshots"][0]["expect"] = {"n": 1, "m": 2}
    path = card.folder / "card_source.json"
    written = json.dumps(card.document, indent=1)
    for wrong, name, said in (
        ('"m": NaN', "m", "NaN, which is not a JSON value"),
        ('"m": 1e999', "m", "which is too large"),
        ('"n": 2', "n", "the name 'n' twice"),
        ('"m": null', "m", "must be a string or a number, not null"),
    ):
        path.write_text(written.replace('"m": 2', wrong))
        with pytest.raises(InvalidCard) as caught:
            load_card(path)
        (fault,) = source_faults(path, caught.value)
        assert (fault.key, fault.pointer.rpartition("/")[2]) == ("t1/b1/p1/s1/one", name)
        assert wrong in path.read_text().splitlines()[(fault.line or 0) - 1]
        assert said in fault.detail
