"""The learner's predictions, answers and uncovered values at each stop, from the events of a card.

A stop is a snapshot. An event at a step counts for each stop of the step. Only the first try, which is the first
prediction, counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from typing import Any, NamedTuple

from cardapp.card.catalog import Catalog

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
    1. ``title`` is the step's title, ``name`` the stop's name."""

    key: str
    step: str
    number: int
    title: str
    name: str
    question: str | None
    ask: Sequence[str]


def asked_stops(catalog: Catalog) -> list[AskedStop]:
    """All stops of the card, in document order."""
    return [asked_stop(catalog, key) for key in catalog.snapshots]


def asked_stop(catalog: Catalog, key: str) -> AskedStop:
    """The stop with this key."""
    snapshot, step = catalog.snapshots[key], catalog.item(catalog.item(key).first_step)
    question = catalog.steps[step.key].question or None
    return AskedStop(key, step.key, step.index + 1, step.title, snapshot.title, question, snapshot.ask)


class Entry(NamedTuple):
    """An event of one of the kinds above. Of the kind ``PROVED`` only the first event at a stop is needed, without its
    ``data``."""

    seq: int
    at: str
    kind: str
    key: str
    data: Mapping[str, Any]


def is_usable(entry: Entry) -> bool:
    """Whether the entry has the data of its kind. An earlier release let a client append some kinds with any data."""
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
    }
    return {"items": items, "summary": summary}


def _item(stop: AskedStop, entries: Sequence[Entry]) -> dict[str, Any]:
    by_kind: dict[str, list[Entry]] = {}
    for entry in entries:
        by_kind.setdefault(entry.kind, []).append(entry)
    tries, answers = by_kind.get(PREDICTION, []), by_kind.get(ANSWER, [])
    judgements = {entry.data["prediction"]: entry.data for entry in by_kind.get(JUDGED, [])}
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
    """A row for each predicted value of the first try, in the order in which the card asks. ``tries`` has at most one
    entry."""
    if not tries:
        return []
    said = tries[0].data["values"]
    judgement = judgements.get(tries[0].seq, {"seen": {}, "right": {}})
    asked = [expression for expression in stop.ask if expression in said]
    return [
        {
            "expression": expression,
            "said": said[expression],
            "seen": judgement["seen"].get(expression),
            "right": judgement["right"].get(expression),
        }
        for expression in dict.fromkeys([*asked, *said])
    ]


def _seconds(times: Iterable[str]) -> int:
    """The working time: the sum of the gaps between the events, without long gaps."""
    instants = [datetime.fromisoformat(at).timestamp() for at in times]
    gaps = (after - before for before, after in pairwise(instants))
    return round(sum(gap for gap in gaps if 0 <= gap <= _MAX_GAP_SECONDS))
