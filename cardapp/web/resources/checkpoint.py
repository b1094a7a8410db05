"""Checkpoints: their status and activation, and the allocator at the published checkpoint."""

from __future__ import annotations

from typing import Any

from cardapp.card import allocator as model
from cardapp.state import checkpoint_results
from cardapp.state.checkpoint_results import Publication
from cardapp.web.http import Reply, Request, answer


def status(request: Request) -> Reply:
    """The running operation, the last operation, and the generation."""
    services, loaded = request.services, request.services.card_loader.current()
    with services.database.read() as conn:
        found = services.checkpoints.status(conn, loaded.identity.uuid)
    return answer(found)


def activate(request: Request) -> Reply:
    """Activate the checkpoint of a snapshot. The response is sent when the activation has ended."""
    return answer(request.services.checkpoints.activate(request.body))


def cancel(request: Request) -> Reply:
    """Cancel the running operation. The response is sent when the operation has ended."""
    request.services.checkpoints.cancel(request.body.get("actor", "api"))
    return status(request)


def allocator(request: Request) -> Reply:
    """The allocator at the published checkpoint, and its difference to the previous checkpoint."""
    services, loaded = request.services, request.services.card_loader.current()
    with services.database.read() as conn:
        published = checkpoint_results.load_publication(conn, loaded.identity.uuid)
    if loaded.card.allocator is None:
        return answer(_unavailable("this card describes no allocator", published))
    if published is None:
        return answer(_unavailable("no checkpoint has been published yet: sync at a step first", published))
    reading = published.observed.get("allocator")
    if reading is None:
        return answer(_unavailable("the allocator could not be read at this checkpoint", published))
    previous = (published.previous_observed or {}).get("allocator")
    off = f"SYNC is off ({published.reason}): the program may have left this checkpoint"
    return answer(
        {
            **_unavailable(None if published.sync == "on" else off, published),
            "available": True,
            "allocator": model.describe(reading),
            "difference": model.difference(previous, reading),
        }
    )


def _unavailable(reason: str | None, published: Publication | None) -> dict[str, Any]:
    """The body of a response without an allocator, with the values of the published and of the previous checkpoint."""
    previous = (published.previous_observed or {}) if published else {}
    return {
        "available": False,
        "reason": reason,
        "sync": published.sync if published else "off",
        "key": published.key if published else None,
        "generation": published.generation if published else None,
        "at": published.updated_at if published else None,
        "allocator": None,
        "values": published.observed.get("values", {}) if published else {},
        "previous_key": published.previous_key if published and previous else None,
        "previous_values": previous.get("values", {}),
        "difference": None,
    }
