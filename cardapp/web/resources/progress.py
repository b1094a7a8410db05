"""The learner's progress: the status of every step, and the change of one."""

from __future__ import annotations

from cardapp.card import progress as rules
from cardapp.state import card_state, checkpoint_results, events
from cardapp.web.http import Reply, Request, answer


def overview(request: Request) -> Reply:
    """All items, and the summary with the results of the replays."""
    services, loaded = request.services, request.services.card_loader.current()
    with services.database.read() as conn:
        statuses = card_state.load_statuses(conn, loaded.identity.uuid)
        results = checkpoint_results.load_results(conn, loaded.identity.uuid)
    return answer(rules.overview(loaded.catalog, statuses, results))


def update(request: Request) -> Reply:
    """Set the status of one item, with note and actor; returns the item. Without a note the stored note stays."""
    services, loaded = request.services, request.services.card_loader.current()
    step = rules.step_of(loaded.catalog, request.path["itemId"])
    item, uuid, body = rules.item_id(step.key), loaded.identity.uuid, request.body
    status, actor = body["status"], body.get("actor", "api")
    with services.database.write() as tx:
        before = card_state.load_status(tx, uuid, item)
        request.expect_revision(before.revision if before else 0)
        note = body.get("note", before.note if before else "")
        at = services.clock()
        after = card_state.set_status(tx, uuid, item, status, note, actor, at)
        data = {"item": item, "from": before.status if before else "pending", "to": status, "note": note}
        events.append(
            tx,
            kind=events.PROGRESS_CHANGED,
            actor=actor,
            key=step.key,
            card=loaded.identity,
            data=data,
            at=at,
        )
        result = checkpoint_results.load_result(tx, uuid, step.key)
    return answer(rules.item_json(step, after, result))
