"""The service itself: what it serves, in which revision, how it is, and everything at once."""

from __future__ import annotations

import time
from typing import Any

from cardapp import __version__
from cardapp.errors import CardAppError
from cardapp.state import events
from cardapp.web.http import Reply, Request, answer
from cardapp.web.resources import navigation, viewer
from cardapp.web.services import Services


def welcome(request: Request) -> Reply:
    """Where a newcomer who opened the address goes on."""
    return answer(
        {
            "name": "cardapp",
            "version": __version__,
            "card": request.services.card_loader.current().card.title,
            "about": "The HTTP API of a card. There is no page yet: read the description, or GET /api/state.",
            "links": {"description": "/api/openapi.json", "state": "/api/state", "health": "/api/health"},
        }
    )


def health(request: Request) -> Reply:
    """Whether the parts that every request needs work; always 200 while the service answers."""
    services = request.services
    services.card_loader.current()  # looks at the file: the fault is then that of the file as it is now
    parts = {"database": _database(services), "card": _part(services.card_loader.fault)}
    return answer(
        {
            "status": "ok" if all(part["ok"] for part in parts.values()) else "degraded",
            "version": __version__,
            "time": services.clock(),
            "uptime_s": round(time.monotonic() - services.started, 3),
            **parts,
        }
    )


def identity(request: Request) -> Reply:
    """Which card, in which revision."""
    return answer(request.services.card_loader.current().identity.as_json())


def card_revision(request: Request) -> Reply:
    """Changes with any file of the card."""
    return answer(request.services.card_loader.revision())


def session(request: Request) -> Reply:
    """The chosen session as it answers now."""
    return answer(request.services.sessions.describe())


def control(request: Request) -> Reply:
    """Page synchronisation, from the store alone."""
    return answer(request.services.control.state())


def state(request: Request) -> Reply:
    """Everything that a page shows first."""
    services, loaded = request.services, request.services.card_loader.current()
    shown = navigation.describe(services, loaded)
    return answer(
        {
            "identity": loaded.identity.as_json(),
            "session": services.sessions.brief(),
            "navigation": shown,
            "viewer": viewer.describe(services, loaded),
            "checkpoint": shown["checkpoint"],
            "editor": services.editor.availability(),
            "control": services.control.state(),
        }
    )


def _database(services: Services) -> dict[str, Any]:
    try:
        with services.database.read() as conn:
            events.head(conn)
    except CardAppError as error:
        return _part(error.detail)
    return _part(None)


def _part(reason: str | None) -> dict[str, Any]:
    return {"ok": reason is None, "reason": reason}
