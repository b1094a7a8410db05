"""Judges a learner's prediction at a stop: with the program's values there, or with the card's values.

Values are compared as in a proof: ``0x40`` equals 64. A value is not judged if the card calls it undefined, or if there
is no known value for the comparison.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from cardapp.card.model import NOT_RECORDED, Expectation, Snapshot
from cardapp.card.proof import same_value

Judge = Literal["program", "card"]


def unasked(snapshot: Snapshot, values: Mapping[str, str]) -> Iterator[str]:
    """The expressions in ``values`` that the stop does not ask for."""
    return (expression for expression in values if expression not in snapshot.ask)


def judged(seq: int, said: Mapping[str, str], snapshot: Snapshot, values: Mapping[str, Any] | None) -> dict[str, Any]:
    """The judgement of the prediction with the number ``seq``: the data of an event ``prediction.judged``.

    :param said: the predicted values by expression.
    :param values: what the session read at the stop, ``{expression: {value, error}}``; None: the card judges.
    """
    expected = {each.expression: each for each in snapshot.expect}
    seen: dict[str, str | None] = {}
    right: dict[str, bool | None] = {}
    for expression, text in said.items():
        wanted = expected.get(expression, Expectation(expression, NOT_RECORDED))
        if wanted.undefined:
            seen[expression], right[expression] = wanted.value, None
        elif values is not None:
            seen[expression] = values.get(expression, {}).get("value")
            right[expression] = _equals(wanted, text, seen[expression])
        else:
            known = wanted.value != NOT_RECORDED
            seen[expression] = wanted.value if known else None
            right[expression] = (same_value(wanted, text) or _equals(wanted, text, wanted.value)) if known else None
    by: Judge = "card" if values is None else "program"
    return {"prediction": seq, "said": dict(said), "seen": seen, "right": right, "by": by}


def _equals(wanted: Expectation, said: str, seen: str | None) -> bool | None:
    """Whether the program's value equals the predicted value, within the card's tolerance; None if it is not known."""
    if seen is None:
        return None
    return same_value(Expectation(wanted.expression, said, wanted.format, wanted.tolerance), seen)
