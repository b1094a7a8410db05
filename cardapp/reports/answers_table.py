"""The rows of the tables of answers: one for each predicted value of a learner, and one for each step of a learner."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cardapp.card.answers import AskedStop

COLUMNS = (
    "learner", "card", "key", "step", "title", "stop", "question", "expression", "prediction", "reads", "truth",
    "right_first_try", "tries", "looked_first", "first_at", "answer", "self", "hints", "judged_by",
)  # fmt: skip

LEFT_EMPTY = "left empty"
"""What is shown in place of a value that was asked and not predicted."""
_NOTHING = {**dict.fromkeys(("expression", "said", "reads", "seen", "right")), "empty": False}


def value_rows(
    learner: str, card_id: str, stops: Sequence[AskedStop], answers: Mapping[str, Any]
) -> Iterator[Sequence[object]]:
    """Yield the columns, then a row for each value of the first try. A stop without a prediction has one row."""
    yield COLUMNS
    known = {stop.key: stop for stop in stops}
    for item in answers["items"]:
        stop = known[item["key"]]
        for row in item["predictions"] or [_NOTHING]:
            prediction = LEFT_EMPTY if row["empty"] else row["said"]
            yield (
                learner, card_id, stop.key, stop.number, stop.title, stop.name, stop.question, row["expression"],
                prediction, row["reads"], row["seen"], row["right"], item["tries"], item["looked_first"],
                item["first_at"], item["answer"], item["self"], item["hints"], item["by"],
            )  # fmt: skip


@dataclass(frozen=True)
class StepRow:
    """A learner's answers at one step, all its stops together. ``predictions`` are the values of the first tries,
    ``right_first`` is None if none of them was judged, and ``tried`` says whether there is an event at all."""

    step: str
    number: int
    title: str
    question: str | None
    predictions: Sequence[Mapping[str, Any]]
    right_first: bool | None
    tries: int
    looked_first: bool
    first_at: str | None
    answer: str | None
    self: str | None
    hints: int
    tried: bool


def step_rows(stops: Sequence[AskedStop], answers: Mapping[str, Any]) -> list[StepRow]:
    """A row for each step of the card, also for those without an event."""
    items = {item["key"]: item for item in answers["items"]}
    by_step: dict[str, list[AskedStop]] = {}
    for stop in stops:
        by_step.setdefault(stop.step, []).append(stop)
    return [
        _step_row(of_step[0], [items[stop.key] for stop in of_step if stop.key in items])
        for of_step in by_step.values()
    ]


def _step_row(stop: AskedStop, items: Sequence[Mapping[str, Any]]) -> StepRow:
    rights = [item["right_first"] for item in items if item["right_first"] is not None]
    return StepRow(
        step=stop.step,
        number=stop.number,
        title=stop.title,
        question=stop.question,
        predictions=[row for item in items for row in item["predictions"]],
        right_first=all(rights) if rights else None,
        tries=sum(item["tries"] for item in items),
        looked_first=any(item["looked_first"] for item in items),
        first_at=min((item["first_at"] for item in items if item["first_at"]), default=None),
        answer=_last(item["answer"] for item in items),
        self=_last(item["self"] for item in items),
        hints=sum(item["hints"] for item in items),
        tried=bool(items),
    )


def _last(values: Iterable[str | None]) -> str | None:
    return next((value for value in reversed(list(values)) if value), None)


def said(row: StepRow) -> str:
    """The predicted values in one line: ``a.used = 48; a.n left empty``."""
    return "; ".join(map(said_value, row.predictions))


def said_value(prediction: Mapping[str, Any]) -> str:
    """A predicted value with its expression: ``a.used = 48``."""
    if prediction["empty"]:
        return f"{prediction['expression']} {LEFT_EMPTY}"
    return f"{prediction['expression']} = {prediction['shown']['said']}"


def seen(row: StepRow) -> str:
    """The known actual values, in one line."""
    return "; ".join(
        f"{each['expression']} = {each['shown']['seen']}" for each in row.predictions if each["seen"] is not None
    )
