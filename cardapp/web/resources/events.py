"""The chronological record: read a part of it, append a client's own entry."""

from __future__ import annotations

from cardapp.state import events as store
from cardapp.web.http import Reply, Request, answer, created
from cardapp.web.resources.navigation import key_of_saved


def page(request: Request) -> Reply:
    """Entries after a ``seq``, in order; the next page begins at ``next_after``, and an empty page is the end.

    Large entries end a page before its ``limit``, at about 4 MiB.
    """
    query = request.query
    with request.services.database.read() as conn:
        found = store.page(
            conn, after=query["after"], limit=query["limit"], kind=query.get("kind"), key=query.get("key")
        )
        last = store.head(conn).seq
    return answer({"events": found, "next_after": found[-1]["seq"] if found else query["after"], "last_seq": last})


def append(request: Request) -> Reply:
    """Append a note, or an entry of a client's own kind, at the saved position."""
    services, loaded, body = request.services, request.services.card_loader.current(), request.body
    with services.database.write() as tx:
        event = store.append(
            tx,
            kind=body["kind"],
            actor=body["actor"],
            key=key_of_saved(tx, loaded),
            card=loaded.identity.as_json(),
            data=body.get("data", {}),
            text=body["text"],
            at=services.clock(),
        )
    return created(event, f"/api/events?after={event['seq'] - 1}&limit=1")
