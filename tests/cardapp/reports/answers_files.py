"""Makes files of answers as the service does, from events in a short form."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from cardapp.card.answers import ANSWER, JUDGED, PREDICTION, REVEALED, Entry, asked_stops, overview
from cardapp.card.catalog import Catalog
from cardapp.card.model import Card, Identity
from cardapp.reports import answers_file
from cardapp.state.events import GENESIS, event_hash

IDENTITY = Identity("arena", "u-1", "1.0.0", "ab" * 32)


def chained(told: Iterable[tuple[str, str, Mapping[str, Any]]], card_id: str = IDENTITY.id) -> list[dict[str, Any]]:
    """Events ``(kind, key, data)``, one a minute, with the hashes of a chain."""
    head, events = GENESIS, []
    for seq, (kind, key, data) in enumerate(told, 1):
        event: dict[str, Any] = {
            "seq": seq,
            "at": f"2025-03-01T{10 + seq // 60}:{seq % 60:02}:00.000Z",
            "kind": kind,
            "actor": "page",
            "key": key,
            "card": {"id": card_id, "version": IDENTITY.version, "source_sha256": IDENTITY.source_sha256},
            "data": dict(data),
        }
        head = event_hash(head, event)
        events.append({**event, "evidence": [], "withdrawn": False, "hash": head})
    return events


def named(name: str) -> tuple[str, str, dict[str, Any]]:
    return "learner.named", "", {"name": name}


def answered(key: str, text: str) -> tuple[str, str, dict[str, Any]]:
    return ANSWER, key, {"text": text}


def looked(key: str) -> tuple[str, str, dict[str, Any]]:
    return REVEALED, key, {"text": "Show values"}


def predicted(
    seq: int, key: str, said: str, *, right: bool | None = None, reads: str | None = None
) -> list[tuple[str, str, dict[str, Any]]]:
    """A prediction with the number ``seq``. It is judged unless ``right`` is None. The actual value is 48."""
    prediction = PREDICTION, key, {"values": {"a.used": said}}
    if right is None:
        return [prediction]
    said_and_seen = {"said": {"a.used": said}, "seen": {"a.used": "48"}, "right": {"a.used": right}}
    said_and_seen |= {"reads": {"a.used": reads}} if reads is not None else {}
    return [prediction, (JUDGED, key, {"prediction": seq, "by": "program", **said_and_seen})]


def file_of(card: Card, events: list[dict[str, Any]], *, learner: str = "unnamed", at: str = "2025-03-09") -> bytes:
    stops = asked_stops(Catalog(card))
    entries = [Entry(*(event[name] for name in ("seq", "at", "kind", "key", "data"))) for event in events]
    kinds = {ANSWER, JUDGED, PREDICTION, REVEALED}
    pieces = answers_file.render(
        learner=learner,
        identity=IDENTITY,
        card=card,
        stops=stops,
        answers=overview(stops, [entry for entry in entries if entry.kind in kinds]),
        events=events,
        head=events[-1]["hash"] if events else GENESIS,
        at=f"{at}T12:00:00.000Z",
    )
    return "".join(pieces).encode()
