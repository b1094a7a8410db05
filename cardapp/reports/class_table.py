"""The answers of a class: a row for each student and step, and the questions that most students got wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cardapp.card.answers import meaning
from cardapp.card.notation import read_in
from cardapp.reports.answers_file import HandedIn
from cardapp.reports.answers_table import StepRow, said, said_value, seen, step_rows

COLUMNS = (
    "student", "file", "card", "version", "step", "number", "title", "question", "prediction", "truth",
    "right_first_try", "tries", "looked_first", "first_at", "answer", "self", "hints",
)  # fmt: skip
HARDEST = 3
"""The number of questions in the list of those that most students got wrong."""


@dataclass(frozen=True)
class Student:
    """A student with a verified file, and the row of each step. ``name`` is the file's name if no name was given."""

    name: str
    file: str
    answers: HandedIn
    rows: Sequence[StepRow]


@dataclass(frozen=True)
class StepTally:
    """The numbers of students by their results at a step. ``mistakes`` are the wrong values ``expression = value``,
    each with its count, the most frequent first: counted by what they mean, not by how they were spelled."""

    row: StepRow
    right: int
    wrong: int
    looked: int
    tried: int
    mistakes: Sequence[tuple[str, int]]


@dataclass(frozen=True)
class CardClass:
    """All students of one card, in the order of their names. ``steps`` are in the order of the newest file."""

    title: str
    students: Sequence[Student]
    steps: Sequence[StepTally]

    @property
    def hardest(self) -> list[StepTally]:
        """The steps that most students got wrong at the first try, at most three, the worst first."""
        wrong = [step for step in self.steps if step.wrong]
        return sorted(wrong, key=lambda step: -step.wrong)[:HARDEST]


def student(file: str, answers: HandedIn) -> Student:
    return Student(answers.learner or file, file, answers, step_rows(answers.stops, answers.answers))


def by_card(students: Iterable[Student]) -> list[CardClass]:
    """The students of each card, in the order in which the cards occur first."""
    found: dict[str, list[Student]] = {}
    for each in students:
        found.setdefault(each.answers.card["id"], []).append(each)
    return [_class(members) for members in found.values()]


def csv_rows(classes: Iterable[CardClass]) -> Iterator[Sequence[object]]:
    """Yield the columns, then a row for each student and step."""
    yield COLUMNS
    for each in classes:
        for one in each.students:
            card = one.answers.card
            for row in one.rows:
                yield (
                    one.name, one.file, card["id"], card["version"], row.step, row.number, row.title, row.question,
                    said(row), seen(row), row.right_first, row.tries, row.looked_first, row.first_at, row.answer,
                    row.self, row.hints,
                )  # fmt: skip


def _class(students: Sequence[Student]) -> CardClass:
    newest = max(students, key=lambda each: each.answers.at)
    by_step: dict[str, list[StepRow]] = {row.step: [] for row in newest.rows}
    for each in students:
        for row in each.rows:
            by_step.setdefault(row.step, []).append(row)
    ordered = sorted(students, key=lambda each: (each.name.casefold(), each.file))
    return CardClass(newest.answers.card["title"], ordered, [_tally(rows) for rows in by_step.values()])


def _tally(rows: Sequence[StepRow]) -> StepTally:
    mistakes = Counter(
        _mistake(prediction) for row in rows for prediction in row.predictions if prediction["right"] is False
    )
    return StepTally(
        row=rows[0],
        right=sum(row.right_first is True for row in rows),
        wrong=sum(row.right_first is False for row in rows),
        looked=sum(row.looked_first for row in rows),
        tried=sum(row.tried for row in rows),
        mistakes=mistakes.most_common(HARDEST),
    )


def _mistake(prediction: Mapping[str, Any]) -> str:
    if prediction["empty"]:
        return said_value(prediction)
    return f"{prediction['expression']} = {read_in(meaning(prediction), prediction['format'])}"
