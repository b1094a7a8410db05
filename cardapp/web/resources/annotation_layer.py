"""Lists, adds, removes, shows and hides the annotations that are drawn over the sheets."""

from __future__ import annotations

from typing import Any

from cardapp.card import annotation as rules
from cardapp.card_loader import ServedCard
from cardapp.errors import InvalidValue, NotFound
from cardapp.state import events, explanations
from cardapp.state.database import Connection
from cardapp.web.http import Reply, Request, answer, created
from cardapp.web.resources.strategies import below, record, snapshot_of


def listed(request: Request) -> Reply:
    """All annotations of the card, or those at a position and below it. Hidden ones are listed, too."""
    services, loaded = request.services, request.services.card_loader.current()
    with services.database.read() as conn:
        return answer(_listed(conn, loaded, request.query.get("key", "")))


def add(request: Request) -> Reply:
    """Add an annotation to a part of the sheets, pinned to a snapshot."""
    services, loaded, body = request.services, request.services.card_loader.current(), request.body
    given = {"strategy_id": None, "text": "", "visible": True, **body}
    rules.check(given)
    _check_part(services.sheets.part_names(), given["target"]["part"])
    with services.database.write() as tx:
        key = _key(tx, loaded, given)
        found = explanations.add_annotation(tx, loaded.identity.uuid, key, given)
        record(tx, request, loaded, events.ANNOTATION_ADDED, key, found)
    return created(found, f"/api/annotations?key={key}")


def remove(request: Request) -> Reply:
    """Remove an annotation. The event of the removal contains the removed annotation."""
    services, loaded = request.services, request.services.card_loader.current()
    with services.database.write() as tx:
        found = _found(tx, loaded, request.path["id"])
        explanations.remove_annotation(tx, loaded.identity.uuid, found["id"])
        record(tx, request, loaded, events.ANNOTATION_REMOVED, found["key"], found)
        reply = _listed(tx, loaded, "")
    return answer(reply)


def show(request: Request) -> Reply:
    """Show an annotation. Only ``visible`` changes."""
    return _set_one(request, True)


def hide(request: Request) -> Reply:
    """Hide an annotation. Only ``visible`` changes, and nothing is deleted."""
    return _set_one(request, False)


def toggle(request: Request) -> Reply:
    """Hide an annotation if it is shown, else show it."""
    return _set_one(request, None)


def show_all(request: Request) -> Reply:
    """Show all annotations of the card."""
    return _set_all(request, True)


def hide_all(request: Request) -> Reply:
    """Hide all annotations of the card; nothing is deleted."""
    return _set_all(request, False)


def toggle_all(request: Request) -> Reply:
    """Hide all annotations if one is shown, else show all."""
    return _set_all(request, None)


# -- parts of the handlers -------------------------------------------------------------------------------------------


def _set_one(request: Request, visible: bool | None) -> Reply:
    services, loaded = request.services, request.services.card_loader.current()
    with services.database.write() as tx:
        found = _found(tx, loaded, request.path["id"])
        wanted = not found["visible"] if visible is None else visible
        _set(tx, request, loaded, [found], wanted, found["key"])
    return answer({**found, "visible": wanted})


def _set_all(request: Request, visible: bool | None) -> Reply:
    services, loaded = request.services, request.services.card_loader.current()
    with services.database.write() as tx:
        found = explanations.all_annotations(tx, loaded.identity.uuid)
        wanted = not any(each["visible"] for each in found) if visible is None else visible
        _set(tx, request, loaded, found, wanted, "")
        reply = _listed(tx, loaded, "")
    return answer(reply)


def _set(
    tx: Connection, request: Request, loaded: ServedCard, found: list[dict[str, Any]], visible: bool, key: str
) -> None:
    """Show or hide the annotations that are not yet in that state, with one event at ``key``. If there are none,
    nothing happens."""
    changed = [each["id"] for each in found if each["visible"] != visible]
    if changed:
        explanations.set_visible(tx, loaded.identity.uuid, changed, visible)
        kind = events.ANNOTATION_SHOWN if visible else events.ANNOTATION_HIDDEN
        record(tx, request, loaded, kind, key, {"ids": changed})


def _listed(conn: Connection, loaded: ServedCard, key: str) -> dict[str, Any]:
    uuid = loaded.identity.uuid
    found = below(explanations.all_annotations(conn, uuid), key)
    return {"annotations": found, "revision": explanations.revision(conn, uuid)}


def _found(conn: Connection, loaded: ServedCard, identifier: str) -> dict[str, Any]:
    found = explanations.annotation(conn, loaded.identity.uuid, identifier)
    if found is None:
        raise NotFound(f"this card has no annotation {identifier}; GET /api/annotations lists all")
    return found


def _check_part(names: frozenset[str], part: str) -> None:
    if part not in names:
        raise InvalidValue.of(
            "/target/part", f"{part!r} is not a part of this card's sheets; their attribute data-part names all"
        )


def _key(tx: Connection, loaded: ServedCard, given: dict[str, Any]) -> str:
    """The snapshot to which the annotation is pinned: the snapshot of its strategy, if it has a strategy."""
    key, identifier = given.get("key"), given["strategy_id"]
    if identifier is None:
        return snapshot_of(tx, loaded, key)
    found = explanations.strategy(tx, loaded.identity.uuid, identifier)
    if found is None:
        raise InvalidValue.of("/strategy_id", f"{identifier!r} is not a strategy of this card; GET /api/strategies")
    if key is not None and key != found.key:
        raise InvalidValue.of("/key", f"is {key!r}, but the strategy {identifier} is pinned to {found.key!r}")
    return found.key
