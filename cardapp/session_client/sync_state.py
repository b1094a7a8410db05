"""The state of SYNC, read from the database alone, without a call to the session."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from cardapp.card import navigation
from cardapp.card.catalog import Catalog, depth
from cardapp.card.navigation import Position
from cardapp.card_loader import CardLoader
from cardapp.errors import LevelNotSyncable
from cardapp.session_client.operation import unless_stored
from cardapp.state import checkpoint as checkpoint_store
from cardapp.state import events, publication, viewer
from cardapp.state import navigation as navigation_store
from cardapp.state.database import Connection, Database
from cardapp.state.publication import Publication


class Control:
    """Reads the state of SYNC, and switches SYNC off with a reason and an event."""

    def __init__(
        self,
        *,
        card_loader: CardLoader,
        database: Database,
        active: Callable[[], dict[str, Any] | None],
        clock: Callable[[], str],
    ) -> None:
        self._card_loader = card_loader
        self._database = database
        self._active = active
        self._clock = clock
        self.reset_lock = threading.Lock()
        """Held by a request that resets the target until it has switched SYNC off, so that no one else does."""

    def state(self) -> dict[str, Any]:
        """The body of ``GET /api/control/state``; ``revision`` counts the changes of the publication."""
        served = self._card_loader.current()
        uuid = served.identity.uuid
        active = self._active()
        with self._database.read() as conn:
            published = publication.load(conn, uuid)
            saved = navigation_store.load(conn, uuid)
            generation = checkpoint_store.load_generation(conn)
            last = checkpoint_store.load_operation(conn, uuid)
            viewer_revision = viewer.load(conn, uuid)[1]
        position = navigation.repair(served.catalog, saved.position)
        return {
            "sync": published.sync if published else "off",
            "reason": published.reason if published else None,
            "at_position": published is not None and stands_at(served.catalog, position, published),
            "requested": position.sync_requested,
            "generation": generation,
            "key": published.key if published else None,
            "page_index": published.page_index if published else None,
            "checkpoint": _brief(unless_stored(active, last) or last),
            "position_key": navigation.key_of(position),
            "navigation_revision": saved.revision,
            "viewer_revision": viewer_revision,
            "card_revision": self._card_loader.revision()["revision"],
            "revision": published.revision if published else 0,
        }

    def published_operation(self) -> str | None:
        """The id of the operation whose result is published now."""
        with self._database.read() as conn:
            published = publication.load(conn, self._card_loader.current().identity.uuid)
        return published.operation_id if published else None

    def switch_off(self, tx: Connection, operation_id: str | None, reason: str, *, actor: str = "backend") -> bool:
        """Switch SYNC off in the write transaction ``tx``, with its event.

        False if SYNC is off already, or if an operation other than ``operation_id`` has published meanwhile.
        """
        identity = self._card_loader.current().identity
        published = publication.load(tx, identity.uuid)
        if published is None or published.operation_id != operation_id:
            return False
        at = self._clock()
        if not publication.switch_off(tx, identity.uuid, reason, at):
            return False
        card, data = identity.as_json(), {"reason": reason, "generation": published.generation}
        events.append(tx, kind="sync.off", actor=actor, key=published.key, card=card, data=data, at=at)
        return True


def stands_at(catalog: Catalog, position: Position, published: Publication) -> bool:
    """Whether the program is at the position: SYNC is on, and the published snapshot is that of the position.

    At the step level each snapshot of the step counts, above it the one that a sync of the position would activate.
    """
    if published.sync != "on":
        return False
    if depth(position.focus_level) >= depth("step"):
        chosen = "/".join(navigation.ids(position))
        return published.key == chosen or published.key.startswith(f"{chosen}/")
    try:
        return navigation.sync_target(catalog, position) == published.key
    except LevelNotSyncable:
        return False


def _brief(operation: dict[str, Any] | None) -> dict[str, Any] | None:
    names = ("operation_id", "generation", "snapshot_ref", "state", "stage", "code", "reason")
    return {name: operation[name] for name in names} if operation is not None else None
