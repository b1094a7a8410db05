"""The tables of a class: which students are counted, which questions come first, and that no text becomes markup."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest

from cardapp.card.model import Card
from cardapp.reports import answers_file, class_page, class_table, csv_text
from cardapp.reports.class_table import CardClass
from tests.cardapp.reports.answers_files import answered, chained, file_of, looked, named, predicted
from tests.cardapp.reports.conftest import STEPS

FIRST, SECOND = (f"{step}/end" for step in STEPS[:2])


def student(card: Card, name: str, *told: Any) -> class_table.Student:
    events = chained([named(name), *(each for part in told for each in part)])
    return class_table.student(f"{name}.json", answers_file.read(file_of(card, events, learner=name)))


@pytest.fixture
def found(card: Card) -> CardClass:
    students = [
        student(card, "zoë", predicted(2, SECOND, "40", right=False), predicted(4, SECOND, "48", right=True)),
        student(card, "Ada", predicted(2, FIRST, "48", right=True), predicted(4, SECOND, "40", right=False)),
        student(card, "bob", [looked(FIRST)], predicted(3, FIRST, "7", right=False), [answered(SECOND, "=1+1")]),
        student(card, "Carl"),
    ]
    (only,) = class_table.by_card(students)
    return only


def test_students_are_sorted_by_name_and_every_step_has_a_row(found: CardClass) -> None:
    assert [each.name for each in found.students] == ["Ada", "bob", "Carl", "zoë"]
    rows = list(class_table.csv_rows([found]))
    assert len(rows) == 1 + 4 * 3
    cells = [dict(zip(class_table.COLUMNS, row, strict=True)) for row in rows[1:]]
    ada = [(row["number"], row["prediction"], row["truth"], row["right_first_try"]) for row in cells[:3]]
    assert ada == [(1, "a.used = 48", "a.used = 48", True), (2, "a.used = 40", "a.used = 48", False), (3, "", "", None)]
    assert [cells[3][name] for name in ("student", "looked_first", "tries")] == ["bob", True, 1]


def test_the_questions_that_most_got_wrong_come_first(found: CardClass) -> None:
    assert [(step.row.number, step.wrong, step.right) for step in found.hardest] == [(2, 2, 0), (1, 1, 1)]
    assert found.hardest[0].mistakes == [("a.used = 40", 2)]
    text = page(found)
    assert text.index("2 of 2 wrong") < text.index("1 of 2 wrong")


def test_wrong_values_are_counted_by_what_they_mean(card: Card) -> None:
    students = [
        student(card, name, predicted(2, FIRST, said, right=False, reads=reads))
        for name, said, reads in (
            ("Ada", "0x28", "40"),
            ("Bob", "40", "40"),
            ("Carl", "no  idea", None),
            ("Dan", " ", None),
        )
    ]
    (found,) = class_table.by_card(students)
    assert found.steps[0].mistakes == [("a.used = 40", 2), ("a.used = no idea", 1), ("a.used left empty", 1)]
    assert found.steps[0].wrong == 4
    text = page(found)
    assert "<code>a.used = 40</code>\N{NO-BREAK SPACE}2×" in text
    assert 'title="a.used = 0x28; there is a.used = 0x30"' in text
    assert 'title="a.used left empty; there is a.used = 48"' in text
    table = "".join(csv_text.lines(class_table.csv_rows([found])))
    assert [row["prediction"] for row in csv.DictReader(io.StringIO(table)) if row["prediction"]] == [
        "a.used = 0x28", "a.used = 40", "a.used = no  idea", "a.used left empty",
    ]  # fmt: skip


def page(found: CardClass, left_out: list[str] | None = None) -> str:
    return "".join(class_page.render([found], left_out or [], "2025-03-09T12:00:00.000Z"))


def test_the_page_says_what_its_numbers_count(card: Card) -> None:
    told = [looked(FIRST)], predicted(3, FIRST, "48", right=True), predicted(5, SECOND, "48", right=True)
    (found,) = class_table.by_card([student(card, "Ada", *told)])
    text = page(found)
    assert "<td>1/2</td>" in text
    assert "Right: how many of the predicted stops were right at the first try, without looking first." in text


def test_the_page_says_what_the_check_cannot_detect_and_names_what_was_left_out(found: CardClass) -> None:
    text = page(found, ["eve.json: event 3 was changed"])
    assert "A chain of events that was computed again from its start cannot be detected" in text
    assert "<strong>Left out:</strong> eve.json: event 3 was changed" in text


def test_no_text_of_a_file_becomes_markup_or_a_formula(card: Card) -> None:
    evil = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>"
    told = [
        predicted(2, FIRST, evil, right=False),
        [answered(FIRST, evil)],
        predicted(5, SECOND, "=cmd|'/C calc'!A0", right=False),
    ]
    (found,) = class_table.by_card([student(card, evil, *told)])
    text = "".join(class_page.render([found], [evil], evil))
    assert "<script" not in text
    assert "<img" not in text
    assert 'onerror=alert(1)>"' not in text
    table = "".join(csv_text.lines(class_table.csv_rows([found])))
    for row in csv.reader(io.StringIO(table)):
        assert not any(cell.startswith(("=", "+", "-", "@")) for cell in row)


def test_a_student_who_turned_the_switch_teacher_on_is_marked(card: Card) -> None:
    students = [
        student(card, "Ada", [("x-teacher", FIRST, {"text": "on"}), ("x-teacher", FIRST, {"text": "off"})]),
        student(card, "Bob", [("x-teacher", FIRST, {"text": "off"})]),
    ]
    assert page(*class_table.by_card(students)).count("Teacher was on") == 1
