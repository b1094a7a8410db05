"""The viewer state: scroll, scale and flags with which a page shows the card."""

from __future__ import annotations

from typing import Any

from cardapp.card import viewer as rules
from cardapp.card_loader import ServedCard
from cardapp.state import card_state, events
from cardapp.state.database import Connection
from cardapp.web.http import Reply, Request, answer
from cardapp.web.resources.navigation import key_of_saved
from cardapp.web.services import Services


def state(request: Request) -> Reply:
    """The viewer state with its revision."""
    return answer(describe(request.services, request.services.card_loader.current()))


def describe(services: Services, loaded: ServedCard) -> dict[str, Any]:
    """The body of ``GET /api/viewer/state``."""
    with services.database.read() as conn:
        present, revision = _load(conn, loaded)
    return {**present, "revision": revision}


def update(request: Request) -> Reply:
    """Merge the body into the state. An event is recorded only if a flag or the page changes. If nothing changes, the
    revision stays the same."""
    services, loaded = request.services, request.services.card_loader.current()
    patch = {name: part for name, part in request.body.items() if name in rules.FRESH}
    with services.database.write() as tx:
        present, revision = _load(tx, loaded)
        request.expect_revision(revision)
        merged = rules.merge(present, patch, loaded.catalog.page_count)
        if merged.changed:
            at = services.clock()
            revision = card_state.save_viewer(tx, loaded.identity.uuid, merged.state, at)
            if merged.noteworthy:
                events.append(
                    tx,
                    kind=events.VIEWER_CHANGED,
                    actor=request.body.get("actor", "api"),
                    key=key_of_saved(tx, loaded),
                    card=loaded.identity,
                    data={name: _at(merged.state, name) for name in merged.noteworthy},
                    at=at,
                )
    return answer({**merged.state, "revision": revision})


def _load(conn: Connection, loaded: ServedCard) -> tuple[rules.State, int]:
    stored, revision = card_state.load_viewer(conn, loaded.identity.uuid)
    return (rules.repair(stored, loaded.catalog.page_count) if stored else rules.FRESH), revision


def _at(state: rules.State, name: str) -> Any:
    value: Any = state
    for part in name.split("."):
        value = value[part]
    return value
