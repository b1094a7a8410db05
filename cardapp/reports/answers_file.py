"""The file of a learner's answers (``answers.json``): the predictions and answers at each stop of a card, and the whole
chain of the learner's events, from which the answers can be computed again.

The hash of an event covers the event and the event before it. ``digest`` covers everything else in the file and the
hash of the last event. So every changed, added or removed part of the file is detected, unless somebody computes all
hashes again, which needs no secret.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cardapp.card.answers import KINDS, PROVED, TEACHER, AskedStop, Entry, is_usable, overview
from cardapp.card.model import Card, Identity
from cardapp.errors import InvalidValue
from cardapp.state.events import GENESIS, LEARNER_NAMED, canonical, covered, event_hash

SCHEMA = "card-answers.v1"
_READ = frozenset({*KINDS, PROVED})


# -- writing -------------------------------------------------------------------------------------------------------


def render(
    *,
    learner: str,
    identity: Identity,
    card: Card,
    stops: Sequence[AskedStop],
    answers: Mapping[str, Any],
    events: Iterable[Mapping[str, Any]],
    head: str,
    at: str,
) -> Iterator[str]:
    """Yield the file in pieces, an event on each line.

    :param answers: from ``card.answers.overview``.
    :param events: all events of the learner, of every card, in order.
    :param head: the hash of the last event; GENESIS if there is none.
    """
    about = {
        "schema": SCHEMA,
        "learner": learner,
        "at": at,
        "card": {**identity.as_json(), "title": card.title},
        "stops": [stop._asdict() for stop in stops],
        **answers,
    }
    members = (f'"{name}":{_text(value)}' for name, value in about.items())
    yield "{" + ",\n".join(members) + ',\n"events":['
    separator = "\n"
    for event in events:
        yield f"{separator}{_text({**covered(event), 'hash': event['hash']})}"
        separator = ",\n"
    yield f'\n],\n"digest":"{_digest(about, head)}"}}\n'


def _digest(about: Mapping[str, Any], head: str) -> str:
    return hashlib.sha256(canonical({**about, "head": head}).encode()).hexdigest()


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


# -- reading -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class HandedIn:
    """The content of a file with valid hashes. ``learner`` is the name in the chain; "" if no name was given.
    ``answers`` are made from the events (``card.answers.overview``). ``origin`` is the hash of the first event, which
    distinguishes records; "" if there is no event. ``used_teacher``: the switch ``Teacher`` was turned on."""

    learner: str
    card: Mapping[str, str]
    stops: Sequence[AskedStop]
    answers: Mapping[str, Any]
    events: int
    used_teacher: bool
    origin: str
    at: str


def read(content: bytes) -> HandedIn:
    """Read and verify a file.

    :raises InvalidValue: it is not such a file, or it was changed. The message says where.
    """
    try:
        document = json.loads(content)
        if document["schema"] != SCHEMA:
            raise InvalidValue(f"the schema is {document['schema']!r:.100}, not {SCHEMA}")
        return _verified(document)
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise InvalidValue("it is not a file of answers: save it with “Answers as JSON” in the page's menu") from error


def _verified(document: dict[str, Any]) -> HandedIn:
    events, digest = document.pop("events"), document.pop("digest")
    if _digest(document, _head(events)) != digest:
        raise InvalidValue("it was changed outside the events, or the last events were removed: the digest differs")
    card = {name: str(document["card"][name]) for name in ("id", "version", "source_sha256", "title")}
    stops = [AskedStop(**stop) for stop in document["stops"]]
    names = [event["data"]["name"] for event in events if event["kind"] == LEARNER_NAMED]
    return HandedIn(
        learner=str(names[-1]) if names else "",
        card=card,
        stops=stops,
        answers=overview(stops, _entries(events, card["id"])),
        events=len(events),
        used_teacher=any(event["kind"] == TEACHER and event["data"]["text"] == "on" for event in events),
        origin=events[0]["hash"] if events else "",
        at=str(document["at"]),
    )


def _head(events: Sequence[dict[str, Any]]) -> str:
    """The hash of the last event. :raises InvalidValue: the hash of an event is wrong."""
    head = GENESIS
    for event in events:
        members = dict(event)
        digest = members.pop("hash")
        if event_hash(head, members) != digest:
            raise InvalidValue(f"event {event['seq']} was changed, or the event before it was: its hash differs")
        head = digest
    return head


def _entries(events: Iterable[Mapping[str, Any]], card_id: str) -> Iterator[Entry]:
    for event in events:
        if event["kind"] in _READ and event["card"]["id"] == card_id:
            entry = Entry(event["seq"], event["at"], event["kind"], event["key"], event["data"])
            if is_usable(entry):
                yield entry
