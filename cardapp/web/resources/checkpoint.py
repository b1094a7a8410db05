"""Checkpoints: their status, their activation, and the allocator at the published one."""

from __future__ import annotations

from typing import Any

from cardapp.card import allocator as model
from cardapp.state import checkpoint_results
from cardapp.state.checkpoint_results import Publication
from cardapp.web.http import Reply, Request, answer


def status(request: Request) -> Reply:
    """The operation under way, the last one, and the generation."""
    services, loaded = request.services, request.services.card_loader.current()
    with services.database.read() as conn:
        found = services.checkpoints.status(conn, loaded.identity.uuid)
    return answer(found)


def activate(request: Request) -> Reply:
    """Activate the checkpoint of a snapshot; waits for the end."""
    return answer(request.services.checkpoints.activate(request.body))


def cancel(request: Request) -> Reply:
    """Cancel the operation under way; waits for its end."""
    request.services.checkpoints.cancel(request.body.get("actor", "api"))
    return status(request)


def allocator(request: Request) -> Reply:
    """The allocator at the published checkpoint, and its difference to the previous one."""
    services, loaded = request.services, request.services.card_loader.current()
    with services.database.read() as conn:
        published = checkpoint_results.load_publication(conn, loaded.identity.uuid)
    if loaded.card.allocator is None:
        return answer(_nothing("this card describes no allocator", published))
    if published is None:
        return answer(_nothing("no checkpoint has been published yet: sync at a step first", published))
    reading = published.observed.get("allocator")
    if reading is None:
        return answer(_nothing("the allocator could not be read at this checkpoint", published))
    previous = (published.previous_observed or {}).get("allocator")
    off = f"SYNC is off ({published.reason}): the program may have left this checkpoint"
    seen = _nothing(None if published.sync == "on" else off, published)
    return answer(
        {
            **seen,
            "available": True,
            "allocator": model.describe(reading),
            "difference": model.difference(previous, reading),
        }
    )


def _nothing(reason: str | None, published: Publication | None) -> dict[str, Any]:
    """The values of the checkpoint and of the one before it, without an allocator."""
    before = (published.previous_observed or {}) if published else {}
    return {
        "available": False,
        "reason": reason,
        "sync": published.sync if published else "off",
        "key": published.key if published else None,
        "generation": published.generation if published else None,
        "at": published.updated_at if published else None,
        "allocator": None,
        "values": published.observed.get("values", {}) if published else {},
        "previous_key": published.previous_key if published and before else None,
        "previous_values": before.get("values", {}),
        "difference": None,
    }
