"""The service itself: identity, revision, health, and the composite state."""

from __future__ import annotations

import shlex
import time
from pathlib import Path
from typing import Any

from cardapp import __version__
from cardapp.errors import CardAppError
from cardapp.settings import ROOT
from cardapp.state import events
from cardapp.web.http import Reply, Request, answer
from cardapp.web.resources import navigation, viewer
from cardapp.web.services import Services


def welcome(request: Request) -> Reply:
    """The links of the API, for a client that accepts only JSON."""
    return answer(
        {
            "name": "cardapp",
            "version": __version__,
            "card": request.services.card_loader.current().card.title,
            "about": "The HTTP API of a card. A browser gets the page at this address.",
            "links": {"description": "/api/openapi.json", "state": "/api/state", "health": "/api/health"},
        }
    )


def health(request: Request) -> Reply:
    """Whether the database and the card can be used, and how often replays were slow. The HTTP status is always 200."""
    services = request.services
    services.card_loader.current()  # reads the file again if it has changed, which updates the fault
    parts = {"database": _database(services), "card": _part(services.card_loader.fault)}
    return answer(
        {
            "status": "ok" if all(part["ok"] for part in parts.values()) else "degraded",
            "version": __version__,
            "time": services.clock(),
            "uptime_s": round(time.monotonic() - services.started, 3),
            **parts,
            "slow_fallbacks": services.checkpoints.fallbacks(),
        }
    )


def identity(request: Request) -> Reply:
    """The identity of the card."""
    return answer(request.services.card_loader.current().identity.as_json())


def card_revision(request: Request) -> Reply:
    """The revision of the card. It changes whenever one of the card's files changes."""
    return answer(request.services.card_loader.revision())


def control(request: Request) -> Reply:
    """The state of SYNC. It is read from the database; the session is not called."""
    return answer(request.services.control.state())


def state(request: Request) -> Reply:
    """The composite state: everything that a page needs when it is opened."""
    services, loaded = request.services, request.services.card_loader.current()
    shown = navigation.describe(services, loaded)
    return answer(
        {
            "identity": loaded.identity.as_json(),
            "session": {**services.sessions.brief(), "start_command": _start_command(loaded.path)},
            "navigation": shown,
            "viewer": viewer.describe(services, loaded),
            "checkpoint": shown["checkpoint"],
            "editor": services.editor.availability(),
            "control": services.control.state(),
        }
    )


def _start_command(source: Path) -> str:
    """The shell command that starts a session on the served card. It is run in the project's folder."""
    folder = source.parent.resolve()
    shown = folder.relative_to(ROOT) if folder.is_relative_to(ROOT) else folder
    return f"bin/card-session start {shlex.quote(str(shown))}"


def _database(services: Services) -> dict[str, Any]:
    try:
        with services.database.read() as conn:
            events.head(conn)
        fault: CardAppError | None = services.database.damage
    except CardAppError as error:
        fault = error
    return {**_part(fault.detail if fault else None), "code": fault.code if fault else None}


def _part(reason: str | None) -> dict[str, Any]:
    return {"ok": reason is None, "reason": reason}
