"""The cards of the series with the learner's progress, and the choice of the card that is shown."""

from __future__ import annotations

from typing import Any

from cardapp.card import progress as rules
from cardapp.session_client.series import SeriesCard
from cardapp.state import card_state, events
from cardapp.state.database import Connection
from cardapp.web.http import Reply, Request, answer


def overview(request: Request) -> Reply:
    """The cards of the series. The progress is that of the current learner."""
    cards = request.services.series.cards()
    with request.services.database.read() as conn:
        shown = [_shown(conn, card) for card in cards]
    known = [each["progress"] for each in shown if each["progress"] is not None]
    return answer(
        {
            "cards": shown,
            "current": next((each["card"] for each in shown if each["current"]), None),
            "progress": {name: sum(each[name] for each in known) for name in ("total", "approved")},
        }
    )


def choose(request: Request) -> Reply:
    """Show another card of the series, with its session. The service starts no session."""
    services, body = request.services, request.body
    services.series.choose(body["card"])
    identity = services.card_loader.current().identity
    with services.database.write() as tx:
        events.append(
            tx,
            kind=events.CARD_CHOSEN,
            actor=body.get("actor", "api"),
            key="",
            card=identity,
            data={"card": body["card"]},
            at=services.clock(),
        )
    return overview(request)


def _shown(conn: Connection, card: SeriesCard) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "card": card.name,
        "current": card.is_current,
        "running": card.is_running,
        "command": card.command,
        "fault": card.fault,
        **dict.fromkeys(("identity", "title", "progress")),
    }
    if card.loaded is not None:
        statuses = card_state.load_statuses(conn, card.loaded.identity.uuid)
        summary = rules.overview(card.loaded.catalog, statuses, {})["summary"]
        shown |= {
            "identity": card.loaded.identity.as_json(),
            "title": card.loaded.card.title,
            "progress": {name: summary[name] for name in ("total", "approved")},
        }
    return shown
