"""The chronological record of events: reads a page of events, and appends a client's event."""

from __future__ import annotations

from cardapp.errors import InvalidValue
from cardapp.state import events as store
from cardapp.web.http import Reply, Request, answer, created
from cardapp.web.resources.navigation import key_of_saved


def page(request: Request) -> Reply:
    """The events after a ``seq``, in order. The next page is read with ``after`` set to ``next_after``; an empty page
    is the end. A page ends at ``limit`` events or about 4 MiB.
    """
    query = request.query
    with request.services.database.read() as conn:
        found = store.page(
            conn, after=query["after"], limit=query["limit"], kind=query.get("kind"), key=query.get("key")
        )
        last = store.head(conn).seq
    return answer({"events": found, "next_after": found[-1]["seq"] if found else query["after"], "last_seq": last})


def append(request: Request) -> Reply:
    """Append a note, or an event of a kind that the client defines. Without ``key`` the saved position is used."""
    services, loaded, body = request.services, request.services.card_loader.current(), request.body
    key = body.get("key")
    if key is not None and loaded.catalog.find(key) is None:
        raise InvalidValue.of("/key", f"{key!r} is not a position of this card; GET /api/navigation/catalog lists all")
    with services.database.write() as tx:
        event = store.append(
            tx,
            kind=body["kind"],
            actor=body["actor"],
            key=key_of_saved(tx, loaded) if key is None else key,
            card=loaded.identity,
            data=body.get("data", {}),
            text=body["text"],
            at=services.clock(),
        )
    return created(event, f"/api/events?after={event['seq'] - 1}&limit=1")
