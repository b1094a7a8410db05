"""Navigation: the catalog, the saved position, moves, and the activation of the saved position's checkpoint."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

from cardapp.card import keyboard
from cardapp.card import navigation as rules
from cardapp.card.catalog import Catalog, Item
from cardapp.card.model import LEVELS, Identity
from cardapp.card.navigation import Position
from cardapp.card_loader import ServedCard
from cardapp.layout.component_builder import stop_place
from cardapp.layout.html.text_blocks import unmeasured
from cardapp.state import card_state, checkpoint_results, events
from cardapp.state.database import Connection
from cardapp.web.http import Reply, Request, answer, encode
from cardapp.web.services import Services


def shortcuts(request: Request) -> Reply:
    """The table from which the page and the editor's plugin make their key bindings."""
    return answer(keyboard.as_json())


def catalog(request: Request) -> Reply:
    """All valid positions. The body is computed once per revision of the card."""
    loaded = request.services.card_loader.current()
    return Reply(_catalog_body(loaded.identity, loaded.catalog))


@lru_cache(maxsize=2)
def _catalog_body(identity: Identity, catalog: Catalog) -> bytes:
    items = [item.as_json() | _texts(item, catalog) for item in catalog.items]
    return encode({"identity": identity.as_json(), "levels": LEVELS, "counts": catalog.counts, "items": items})


def _texts(item: Item, catalog: Catalog) -> dict[str, Any]:
    """The members of a step or a snapshot that the page shows outside the sheets."""

    def as_html(markdown: str) -> str:
        return unmeasured(markdown, keys=catalog)

    if item.level == "step":
        step = catalog.steps[item.key]
        question = as_html(step.question) if step.question else None
        return {"question": step.question or None, "question_html": question, "text": step.text or None}
    if item.level == "snapshot":
        snapshot = catalog.snapshots[item.key]
        return {
            "place": stop_place(snapshot.stop),
            "ask": snapshot.ask,
            "undefined": [each.expression for each in snapshot.expect if each.undefined],
            "hints_html": [as_html(hint) for hint in snapshot.hints],
            "explanation_html": as_html(snapshot.explanation) if snapshot.explanation else None,
        }
    return {}


def current(request: Request) -> Reply:
    """The saved position, the published checkpoint, and the status of the operations."""
    return answer(describe(request.services, request.services.card_loader.current()))


def describe(services: Services, loaded: ServedCard) -> dict[str, Any]:
    """The body of ``GET /api/navigation/current``."""
    with services.database.read() as conn:
        return _current(conn, services, loaded)


def set_current(request: Request) -> Reply:
    """Save a position, without starting a replay."""
    services, loaded = request.services, request.services.card_loader.current()
    position = rules.from_request(loaded.catalog, request.body)
    with services.database.write() as tx:
        request.expect_revision(card_state.load_position(tx, loaded.identity.uuid).revision)
        _save(tx, services, loaded, position, events.NAVIGATION_SET, {"sync_requested": position.sync_requested})
        reply = _current(tx, services, loaded)
    return answer(reply)


def move(request: Request) -> Reply:
    """Move the position along a level, without starting a replay. At the first or last item nothing is saved."""
    services, loaded = request.services, request.services.card_loader.current()
    delta = request.body["delta"]
    with services.database.write() as tx:
        saved = card_state.load_position(tx, loaded.identity.uuid)
        position = rules.repair(loaded.catalog, saved.position)
        level = request.body.get("level", position.focus_level)
        moved = rules.move(loaded.catalog, position, level, delta)
        if moved.moved:
            reached = replace(moved.position, actor=request.body.get("actor", "api"))
            data = {"level": level, "delta": delta, "moved": moved.moved}
            _save(tx, services, loaded, reached, events.NAVIGATION_MOVED, data)
        reply = {**_current(tx, services, loaded), "moved": moved.moved, "at_end": moved.at_end}
    return answer(reply)


def sync(request: Request) -> Reply:
    """Activate the snapshot of the saved position. The response is sent when the activation has ended."""
    return answer(request.services.checkpoints.sync(request.body.get("actor")))


def key_of_saved(conn: Connection, loaded: ServedCard) -> str:
    """The key of the saved position, for events of other kinds."""
    return rules.key_of(rules.repair(loaded.catalog, card_state.load_position(conn, loaded.identity.uuid).position))


def _save(
    tx: Connection, services: Services, loaded: ServedCard, position: Position, kind: str, data: dict[str, Any]
) -> None:
    at = services.clock()
    card_state.save_position(tx, loaded.identity.uuid, position, at)
    key, card = rules.key_of(position), loaded.identity
    events.append(tx, kind=kind, actor=position.actor, key=key, card=card, data=data, at=at)


def _current(conn: Connection, services: Services, loaded: ServedCard) -> dict[str, Any]:
    """The body of ``GET /api/navigation/current``. It is read in the transaction of ``conn``, so it is consistent."""
    uuid = loaded.identity.uuid
    status = services.checkpoints.status(conn, uuid)
    saved, published = card_state.load_position(conn, uuid), checkpoint_results.load_publication(conn, uuid)
    position = rules.repair(loaded.catalog, saved.position)
    return {
        "position": position.as_json(),
        "key": rules.key_of(position),
        "index": rules.index_of(loaded.catalog, position),
        "revision": saved.revision,
        "updated_at": saved.updated_at,
        "published": _published(published) if published else None,
        "checkpoint": status,
    }


def _published(found: checkpoint_results.Publication) -> dict[str, Any]:
    return {
        "key": found.key,
        "page_index": found.page_index,
        "sync": found.sync,
        "reason": found.reason,
        "generation": found.generation,
        "at": found.updated_at,
    }
