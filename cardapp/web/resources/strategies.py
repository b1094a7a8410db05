"""Debugging strategies: the list, add and remove, and the dry run at the snapshot."""

from __future__ import annotations

from typing import Any

from cardapp.card import expression, navigation, strategy
from cardapp.card.strategy import Strategy
from cardapp.card_loader import ServedCard
from cardapp.errors import CommandNotAllowed, Conflict, FieldError, InvalidValue, NotFound
from cardapp.session_client.sync import EXITED, RAN_ON
from cardapp.state import card_state, checkpoint_results, events, explanations
from cardapp.state.database import Connection
from cardapp.web.http import Reply, Request, answer, created


def listed(request: Request) -> Reply:
    """All strategies of the card, or those at a position and below it."""
    services, loaded = request.services, request.services.card_loader.current()
    with services.database.read() as conn:
        return answer(_listed(conn, loaded, request.query.get("key", "")))


def add(request: Request) -> Reply:
    """Add a strategy. Its commands are checked now, and again by the session before they run."""
    services, loaded, body = request.services, request.services.card_loader.current(), request.body
    _check_commands(body["commands"], loaded)
    expected = body.get("expected_observations", [None] * len(body["commands"]))
    if len(expected) != len(body["commands"]):
        raise InvalidValue.of(
            "/expected_observations",
            f"has {len(expected)} entries, but there are {len(body['commands'])} commands: give one for each, or null",
        )
    with services.database.write() as tx:
        key = snapshot_of(tx, loaded, body.get("key"))
        found = explanations.add_strategy(tx, loaded.identity.uuid, key, {**body, "expected_observations": expected})
        record(tx, request, loaded, events.STRATEGY_ADDED, key, found.as_json())
    return created(found.as_json(), f"/api/strategies?key={key}")


def remove(request: Request) -> Reply:
    """Remove a strategy with its annotations. Each removal has its own event, which contains the removed record."""
    services, loaded, identifier = request.services, request.services.card_loader.current(), request.path["id"]
    uuid = loaded.identity.uuid
    with services.database.write() as tx:
        found = _found(tx, loaded, identifier)
        for each in explanations.annotations_of(tx, identifier):
            explanations.remove_annotation(tx, uuid, each["id"])
            record(tx, request, loaded, events.ANNOTATION_REMOVED, each["key"], each)
        explanations.remove_strategy(tx, uuid, identifier)
        record(tx, request, loaded, events.STRATEGY_REMOVED, found.key, found.as_json())
        reply = _listed(tx, loaded, "")
    return answer(reply)


def run(request: Request) -> Reply:
    """Replay the strategy's snapshot and run its commands there. If they move the program, SYNC is switched off."""
    services, loaded = request.services, request.services.card_loader.current()
    with services.database.read() as conn:
        found = _found(conn, loaded, request.path["id"])
    if found.key not in loaded.catalog.snapshots:
        raise Conflict(f"the card no longer has the snapshot {found.key} of this strategy: remove it, and add it anew")
    operation = services.checkpoints.bring_to(found.key, _actor(request))
    with services.control.target_lock:
        with services.database.read() as conn:
            published = checkpoint_results.load_publication(conn, loaded.identity.uuid)
        if published is None or published.operation_id != operation["operation_id"]:
            raise Conflict("another replay took over the program: run the strategy again", code="superseded")
        outcome = services.program.run(list(found.commands), published.stop_id)
        if outcome["stop_id"] != published.stop_id:
            with services.database.write() as tx:
                data = {"command": "; ".join(found.commands), "strategy_id": found.id}
                record(tx, request, loaded, events.PROGRAM_MOVED, found.key, data)
                reason = EXITED if outcome["state"] == "exited" else RAN_ON
                services.control.switch_off(tx, published.operation_id, reason, actor=_actor(request))
    return answer({"id": found.id, "results": list(strategy.results(found, outcome["outputs"]))})


# -- for annotations too ---------------------------------------------------------------------------------------------


def snapshot_of(conn: Connection, loaded: ServedCard, key: str | None) -> str:
    """The snapshot ``key``; without a key, the snapshot that a sync of the saved position would replay."""
    if key is None:
        position = card_state.load_position(conn, loaded.identity.uuid).position
        return navigation.sync_target(loaded.catalog, navigation.repair(loaded.catalog, position))
    if key not in loaded.catalog.snapshots:
        raise InvalidValue.of("/key", f"{key!r} is not a snapshot; give task/block/phase/step/snapshot")
    return key


def below(records: list[dict[str, Any]], key: str) -> list[dict[str, Any]]:
    """The records that are pinned to the position ``key`` or below it."""
    return [each for each in records if key == "" or f"{each['key']}/".startswith(f"{key}/")]


def record(tx: Connection, request: Request, loaded: ServedCard, kind: str, key: str, data: dict[str, Any]) -> None:
    """Append an event at ``key``."""
    card, at = loaded.identity, request.services.clock()
    events.append(tx, kind=kind, actor=_actor(request), key=key, card=card, data=data, at=at)


def _actor(request: Request) -> str:
    actor: str = request.body.get("actor") or request.query.get("actor") or "api"
    return actor


# -- parts of the handlers -------------------------------------------------------------------------------------------


def _listed(conn: Connection, loaded: ServedCard, key: str) -> dict[str, Any]:
    uuid = loaded.identity.uuid
    found = [each.as_json() for each in explanations.all_strategies(conn, uuid)]
    return {"strategies": below(found, key), "revision": explanations.revision(conn, uuid)}


def _found(conn: Connection, loaded: ServedCard, identifier: str) -> Strategy:
    found = explanations.strategy(conn, loaded.identity.uuid, identifier)
    if found is None:
        raise NotFound(f"this card has no strategy {identifier}; GET /api/strategies lists all")
    return found


def _check_commands(commands: list[str], loaded: ServedCard) -> None:
    known = loaded.macros() if any(map(expression.called, commands)) else ()
    faults = [(place, command, strategy.fault(command, known)) for place, command in enumerate(commands)]
    found = [FieldError(f"/commands/{place}", f"{command!r} {reason}") for place, command, reason in faults if reason]
    if found:
        raise CommandNotAllowed(f"{found[0].pointer}: {found[0].message}", errors=tuple(found))
