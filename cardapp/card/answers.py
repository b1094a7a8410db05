"""What a learner predicted, answered and looked at, stop by stop, from the events of a card.

A stop is a snapshot. An event at a step counts for each stop of the step. The first try counts: the first prediction.
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

_MAX_GAP_SECONDS = 600.0
"""A longer time between two events is no work."""


class Entry(NamedTuple):
    """An event of one of the kinds above. Of ``PROVED`` only the first at a stop is needed, without its ``data``."""

    seq: int
    at: str
    kind: str
    key: str
    data: Mapping[str, Any]


def overview(catalog: Catalog, keys: Sequence[str], entries: Iterable[Entry]) -> dict[str, Any]:
    """Build ``{items, summary}``: an item for each of the stops ``keys`` that has an entry.

    ``entries`` are in order; those at other positions are ignored.
    """
    by_stop: dict[str, list[Entry]] = {key: [] for key in keys}
    times = []
    for entry in entries:
        found = [by_stop[stop] for stop in _stops(catalog, entry.key) if stop in by_stop]
        for each in found:
            each.append(entry)
        if found:
            times.append(entry.at)
    items = [_item(catalog, key, found) for key, found in by_stop.items() if found]
    summary = {
        "stops": len(keys),
        "predicted": sum(item["tries"] > 0 for item in items),
        "right_first": sum(item["right_first"] is True and not item["looked_first"] for item in items),
        "looked_first": sum(item["looked_first"] for item in items),
        "seconds": _seconds(times),
    }
    return {"items": items, "summary": summary}


def _stops(catalog: Catalog, key: str) -> list[str]:
    """The stop ``key``, or the stops of the step ``key``."""
    step = catalog.steps.get(key)
    return [key] if step is None else [f"{key}/{snapshot.id}" for snapshot in step.snapshots]


def _item(catalog: Catalog, key: str, entries: Sequence[Entry]) -> dict[str, Any]:
    by_kind: dict[str, list[Entry]] = {}
    for entry in entries:
        by_kind.setdefault(entry.kind, []).append(entry)
    tries, answers = by_kind.get(PREDICTION, []), by_kind.get(ANSWER, [])
    judgements = {entry.data["prediction"]: entry.data for entry in by_kind.get(JUDGED, [])}
    seen = _first_look(entries)
    attempt = next(iter(tries or answers), None)
    first, latest = (_rows(catalog, key, each, judgements) for each in (tries[:1], tries[-1:]))
    rights = [row["right"] for row in first if row["right"] is not None]
    proofs, ratings = by_kind.get(PROVED, []), by_kind.get(SELF, [])
    return {
        "key": key,
        "question": catalog.steps[catalog.item(key).first_step].question or None,
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


def _rows(
    catalog: Catalog, key: str, tries: Sequence[Entry], judgements: Mapping[int, Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """A row for each predicted value of the only one of ``tries``, in the order in which the card asks."""
    if not tries:
        return []
    said = tries[0].data["values"]
    judgement = judgements.get(tries[0].seq, {"seen": {}, "right": {}})
    asked = [expression for expression in catalog.snapshots[key].ask if expression in said]
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
    """The time of work: the gaps between the events, without the long ones."""
    instants = [datetime.fromisoformat(at).timestamp() for at in times]
    gaps = (after - before for before, after in pairwise(instants))
    return round(sum(gap for gap in gaps if 0 <= gap <= _MAX_GAP_SECONDS))
