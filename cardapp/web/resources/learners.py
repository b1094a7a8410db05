"""The learners: the list, a new learner, and the choice of the learner whose record is shown and continued."""

from __future__ import annotations

from cardapp.errors import Conflict
from cardapp.state import learners
from cardapp.web.http import Reply, Request, answer


def overview(request: Request) -> Reply:
    """All learners, and which is current."""
    with request.services.database.read() as conn:
        return answer(learners.overview(conn))


def create(request: Request) -> Reply:
    """Begin a new record, or name the unnamed one. The learner becomes the current one."""
    return _changed(request, learners.name_record if request.body.get("keep_record") else learners.create)


def choose(request: Request) -> Reply:
    """Continue the record of a learner."""
    return _changed(request, learners.choose)


def _changed(request: Request, change: learners.Change) -> Reply:
    services, body = request.services, request.body
    if services.checkpoints.active() is not None:
        raise Conflict(
            "a replay runs, and its result belongs to the learner who began it; cancel it, or repeat this when it has "
            "ended",
            code="replay_running",
        )
    identity = services.card_loader.current().identity
    with services.database.write() as tx:
        request.expect_revision(learners.revision(tx))
        change(tx, body["name"], actor=body.get("actor", "api"), card=identity, at=services.clock())
        return answer(learners.overview(tx))
