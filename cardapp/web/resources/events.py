"""The chronological record of events: reads a page of events, appends a client's event, and summarises the learner's
events for each stop."""

from __future__ import annotations

from typing import Any

from cardapp.card import answers as rules
from cardapp.card.catalog import Catalog
from cardapp.card.constant import language_of
from cardapp.card.model import Snapshot
from cardapp.card_loader import ServedCard
from cardapp.errors import InvalidValue, NotFound
from cardapp.reports.event_text import headline
from cardapp.state import events as store
from cardapp.state import learner
from cardapp.web.http import Reply, Request, answer, created
from cardapp.web.resources.navigation import key_of_saved
from cardapp.web.resources.predictions import stop_that_asks

_AT_STOPS = (rules.PREDICTION, rules.SELF, rules.HINT)


def page(request: Request) -> Reply:
    """The events after a ``seq``, in order; or, with ``before``, those before a ``seq``, the newest first. The next
    page is read with ``next_after`` or ``next_before``; an empty page is the end. A page ends at ``limit`` events or
    about 4 MiB.
    """
    query = request.query
    with request.services.database.read() as conn:
        found = store.page(
            conn,
            after=query["after"],
            before=query.get("before"),
            limit=query["limit"],
            kind=query.get("kind"),
            key=query.get("key"),
            actor=query.get("actor"),
        )
        last = store.head(conn).seq
    seqs = [event["seq"] for event in found]
    catalog = request.services.card_loader.current().catalog
    return answer(
        {
            "events": [_told(event, catalog) for event in found],
            "next_after": max(seqs, default=query["after"]),
            "next_before": min(seqs, default=None),
            "last_seq": last,
        }
    )


def withdraw(request: Request) -> Reply:
    """Withdraw a note or an image: reports leave it out, and nothing is deleted."""
    services, loaded, body = request.services, request.services.card_loader.current(), request.body
    with services.database.write() as tx:
        event = store.withdraw(
            tx,
            int(request.path["seq"]),
            reason=body.get("reason", ""),
            actor=body["actor"],
            card=loaded.identity,
            at=services.clock(),
        )
    return _created(event, loaded.catalog)


def append(request: Request) -> Reply:
    """Append a note, or an event of a kind that the client defines. Without ``key`` the saved position is used.

    If no session runs, a prediction is judged at once with the card's own values, in the same transaction.
    """
    services, loaded, body = request.services, request.services.card_loader.current(), request.body
    key = body.get("key")
    if key is not None and loaded.catalog.find(key) is None:
        raise InvalidValue.of("/key", f"{key!r} is not a position of this card; GET /api/navigation/catalog lists all")
    by_card = body["kind"] == rules.PREDICTION and not services.sessions.brief()["available"]
    with services.database.write() as tx:
        at_key = key_of_saved(tx, loaded) if key is None else key
        snapshot = _stop(loaded, at_key, body) if body["kind"] in _AT_STOPS else None
        event = store.append(
            tx,
            kind=body["kind"],
            actor=body["actor"],
            key=at_key,
            card=loaded.identity,
            data=body.get("data", {}),
            text=body.get("text"),
            at=services.clock(),
        )
        if by_card and snapshot is not None:
            learner.judge(
                tx,
                at_key,
                snapshot,
                None,
                language=language_of(loaded.card.target.sources),
                actor=body["actor"],
                card=loaded.identity,
                at=services.clock(),
            )
    return _created(event, loaded.catalog)


def _created(event: dict[str, Any], catalog: Catalog) -> Reply:
    return created(_told(event, catalog), f"/api/events?after={event['seq'] - 1}&limit=1")


def _told(event: dict[str, Any], catalog: Catalog) -> dict[str, Any]:
    return {**event, "headline": headline(event, catalog.title(event["key"]))}


def _stop(loaded: ServedCard, key: str, body: dict[str, Any]) -> Snapshot:
    """The stop of a prediction, a rating or a hint. Refuses expressions and hints that the card's stop does not
    have."""
    data = body["data"]
    snapshot = stop_that_asks(loaded, key, data.get("values", {}), ["data", "values"])
    if data.get("hint", 0) > len(snapshot.hints):
        raise InvalidValue.of("/data/hint", f"is not a hint of this stop, which has {len(snapshot.hints)}")
    return snapshot


def answers(request: Request) -> Reply:
    """The learner's predictions and answers, and which of them were right: an item for each stop with an event."""
    loaded, key = request.services.card_loader.current(), request.query.get("key")
    if key is not None and key not in loaded.catalog.snapshots:
        raise NotFound(f"this card has no snapshot {key!r}; GET /api/navigation/catalog lists all")
    with request.services.database.read() as conn:
        if key is None:
            stops = rules.asked_stops(loaded.catalog)
            found = learner.entries(conn, loaded.identity.id)
        else:
            stops = [rules.asked_stop(loaded.catalog, key)]
            found = learner.entries_at(conn, loaded.identity.id, (key, stops[0].step))
    return answer(rules.overview(stops, found))
