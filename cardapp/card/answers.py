"""The learner's predictions, answers and uncovered values at each stop, from the events of a card.

A stop is a snapshot. An event at a step counts for each stop of the step. Only the first try, which is the first
prediction, counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from types import MappingProxyType
from typing import Any, NamedTuple

from cardapp.card.catalog import Catalog
from cardapp.card.notation import shown

PREDICTION = "x-prediction"
ANSWER = "x-answer"
REVEALED = "x-revealed"
SELF = "x-self"
HINT = "x-hint"
JUDGED = "prediction.judged"
PROVED = "checkpoint.ready"
TEACHER = "x-teacher"
"""The switch ``Teacher`` was turned on or off. While it is on, the page shows every covered value."""

KINDS = (PREDICTION, ANSWER, REVEALED, SELF, HINT, JUDGED)
"""The kinds of entries that all count. Of the kind ``PROVED`` only the first entry at a stop counts."""
_MEMBERS: Mapping[str, tuple[str, type]] = {PREDICTION: ("values", dict), SELF: ("self", str), HINT: ("hint", int)}

_MAX_GAP_SECONDS = 600.0
"""A longer time between two events does not count as work."""


class AskedStop(NamedTuple):
    """A stop with its questions. ``step`` is the key of its step, and ``number`` is the step's number in the card, from
    1. ``title`` is the step's title, ``name`` the stop's name. ``undefined`` are the asked expressions whose value the
    card calls undefined; ``formats`` has the print formats of others."""

    key: str
    step: str
    number: int
    title: str
    name: str
    question: str | None
    ask: Sequence[str]
    undefined: Sequence[str] = ()
    formats: Mapping[str, str] = MappingProxyType({})


def asked_stops(catalog: Catalog) -> list[AskedStop]:
    """All stops of the card, in document order."""
    return [asked_stop(catalog, key) for key in catalog.snapshots]


def asked_stop(catalog: Catalog, key: str) -> AskedStop:
    """The stop with this key."""
    snapshot, step = catalog.snapshots[key], catalog.item(catalog.item(key).first_step)
    question = catalog.steps[step.key].question or None
    asked = [each for each in snapshot.expect if each.expression in snapshot.ask]
    return AskedStop(
        key,
        step.key,
        step.index + 1,
        step.title,
        snapshot.title,
        question,
        snapshot.ask,
        [each.expression for each in asked if each.undefined],
        {each.expression: each.format for each in asked if each.format is not None},
    )


class Entry(NamedTuple):
    """An event of one of the kinds above. Of the kind ``PROVED`` only the first event at a stop is needed, without its
    ``data``."""

    seq: int
    at: str
    kind: str
    key: str
    data: Mapping[str, Any]


def is_usable(entry: Entry) -> bool:
    """Whether the entry has the data of its kind. It may come from a file that somebody handed in."""
    member = _MEMBERS.get(entry.kind)
    return member is None or isinstance(entry.data.get(member[0]), member[1])


def overview(stops: Sequence[AskedStop], entries: Iterable[Entry]) -> dict[str, Any]:
    """Build ``{items, summary}``: an item for each of the stops that has an entry.

    ``entries`` are in order; those at other positions are ignored. An entry at a step counts for each of its stops.
    """
    by_stop: dict[str, list[Entry]] = {stop.key: [] for stop in stops}
    at_step: dict[str, list[str]] = {}
    for stop in stops:
        at_step.setdefault(stop.step, []).append(stop.key)
    times = []
    for entry in entries:
        found = [by_stop[key] for key in at_step.get(entry.key, [entry.key]) if key in by_stop]
        for each in found:
            each.append(entry)
        if found:
            times.append(entry.at)
    items = [_item(stop, by_stop[stop.key]) for stop in stops if by_stop[stop.key]]
    summary = {
        "stops": len(stops),
        "predicted": sum(item["tries"] > 0 for item in items),
        "right_first": sum(item["right_first"] is True and not item["looked_first"] for item in items),
        "looked_first": sum(item["looked_first"] for item in items),
        "seconds": _seconds(times),
        "misconceptions": [each for stop in stops for each in _misconceptions(stop, by_stop[stop.key])],
    }
    return {"items": items, "summary": summary}


def _item(stop: AskedStop, entries: Sequence[Entry]) -> dict[str, Any]:
    by_kind: dict[str, list[Entry]] = {}
    for entry in entries:
        by_kind.setdefault(entry.kind, []).append(entry)
    tries, answers = by_kind.get(PREDICTION, []), by_kind.get(ANSWER, [])
    judgements = _judgements(entries)
    seen = _first_look(entries)
    attempt = next(iter(tries or answers), None)
    first, latest = (_rows(stop, each, judgements) for each in (tries[:1], tries[-1:]))
    rights = [row["right"] for row in first if row["right"] is not None]
    proofs, ratings = by_kind.get(PROVED, []), by_kind.get(SELF, [])
    return {
        "key": stop.key,
        "question": stop.question,
        "answer": answers[-1].data["text"] if answers else None,
        "predictions": first,
        "latest": latest,
        "by": judgements.get(tries[-1].seq, {}).get("by") if tries else None,
        "tries": len(tries),
        "looked_first": seen is not None and (attempt is None or seen < attempt.seq),
        "revealed": seen is not None,
        "hints": max((entry.data["hint"] for entry in by_kind.get(HINT, [])), default=0),
        "self": ratings[-1].data["self"] if ratings else None,
        "first_at": attempt.at if attempt else None,
        "proved_at": proofs[0].at if proofs else None,
        "right_first": all(rights) if rights else None,
    }


def _first_look(entries: Iterable[Entry]) -> int | None:
    """The number of the event that uncovered the values of the stop; None if they are covered."""
    for entry in entries:
        if entry.kind in (REVEALED, PROVED) or (entry.kind == JUDGED and entry.data["by"] == "card"):
            return entry.seq
    return None


def _rows(stop: AskedStop, tries: Sequence[Entry], judgements: Mapping[int, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A row for each asked value of the try, in the order in which the card asks, also for those that were left empty.
    ``tries`` has at most one entry."""
    if not tries:
        return []
    said = tries[0].data["values"]
    judgement = judgements.get(tries[0].seq)
    # A value that the card asks since then was not left empty.
    asked = [each for each in stop.ask if each in said or judgement is None or each in judgement["right"]]
    return [_row(stop, each, said.get(each, ""), judgement or {}) for each in dict.fromkeys([*asked, *said])]


def _row(stop: AskedStop, expression: str, text: str, judgement: Mapping[str, Any]) -> dict[str, Any]:
    empty = not text.strip()
    said = None if empty else text
    seen, reads = (judgement.get(name, {}).get(expression) for name in ("seen", "reads"))
    right = judgement.get("right", {}).get(expression)
    if empty:
        right = None if expression in stop.undefined else False
    letter = stop.formats.get(expression)
    return {
        "expression": expression,
        "said": said,
        "reads": reads,
        "seen": seen,
        "right": right,
        "empty": empty,
        "format": letter,
        "shown": shown(said, reads, seen, letter),
    }


def _misconceptions(stop: AskedStop, entries: Sequence[Entry]) -> list[dict[str, Any]]:
    """The wrong values of all tries at a stop, by what they mean and not by how they were spelled, the most frequent
    first. A text that is no value counts as it was typed."""
    judgements = _judgements(entries)
    tries = [entry for entry in entries if entry.kind == PREDICTION]
    rows = [row for each in tries for row in _rows(stop, [each], judgements) if is_mistake(row)]
    found = Counter((row["expression"], meaning(row)) for row in rows)
    return [
        {"key": stop.key, "expression": expression, "reads": reads, "times": times}
        for (expression, reads), times in found.most_common()
    ]


def is_mistake(row: Mapping[str, Any]) -> bool:
    """Whether the row has a wrong value. One that was left empty is none."""
    return row["right"] is False and not row["empty"]


def meaning(row: Mapping[str, Any]) -> str:
    """What the learner said, however it was spelled. A text that is no value is kept, with each blank as one."""
    return row["reads"] or " ".join(row["said"].split())


def _judgements(entries: Iterable[Entry]) -> dict[int, Mapping[str, Any]]:
    return {entry.data["prediction"]: entry.data for entry in entries if entry.kind == JUDGED}


def _seconds(times: Iterable[str]) -> int:
    """The working time: the sum of the gaps between the events, without long gaps."""
    instants = [datetime.fromisoformat(at).timestamp() for at in times]
    gaps = (after - before for before, after in pairwise(instants))
    return round(sum(gap for gap in gaps if 0 <= gap <= _MAX_GAP_SECONDS))
