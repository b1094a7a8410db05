"""Database access for the activation of checkpoints.

The result of an operation, its event and, if it is ready, its publication are written in one transaction.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from cardapp.card import navigation
from cardapp.card.navigation import Position
from cardapp.card.progress import LastResult
from cardapp.card_loader import ServedCard
from cardapp.errors import CardAppError
from cardapp.session_client.operation import Operation
from cardapp.state import checkpoint as checkpoint_store
from cardapp.state import events, publication
from cardapp.state import navigation as navigation_store
from cardapp.state.database import Connection, Database


class CheckpointStorage:
    """The database as :class:`~cardapp.session_client.checkpoint.Checkpoints` uses it.

    ``clock`` returns the time in RFC 3339, UTC, with milliseconds.
    """

    def __init__(self, database: Database, clock: Callable[[], str]) -> None:
        self._database = database
        self.now = clock

    def generation(self) -> int:
        with self._database.read() as conn:
            return checkpoint_store.load_generation(conn)

    @staticmethod
    def last(conn: Connection, uuid: str) -> tuple[int, dict[str, Any] | None]:
        """The last generation, and the last finished operation of the card with this ``uuid``."""
        return checkpoint_store.load_generation(conn), checkpoint_store.load_operation(conn, uuid)

    def position(self, served: ServedCard) -> Position:
        """The saved position, or its nearest ancestor that still exists in the card."""
        with self._database.read() as conn:
            saved = navigation_store.load(conn, served.identity.uuid)
        return navigation.repair(served.catalog, saved.position)

    def take_generation(self, wanted: int | None) -> int:
        """Store the generation ``wanted``, or the next one, and return it."""
        with self._database.write() as tx:
            taken = wanted if wanted is not None else checkpoint_store.load_generation(tx) + 1
            return checkpoint_store.save_generation(tx, taken)

    def refused(self, served: ServedCard, key: str, generation: int | None, error: CardAppError, actor: str) -> None:
        """Record an operation that was refused before it began: only an event is written."""
        data = {"generation": generation, "code": error.code, "reason": error.detail}
        with self._database.write() as tx:
            self._append(tx, served, "checkpoint.rejected", key, data, actor)

    def ended(self, served: ServedCard, operation: Operation, actor: str) -> None:
        """Record an operation whose final state is not ``ready``. The published snapshot does not change."""
        with self._database.write() as tx:
            self._save(tx, served, operation, actor)

    def ready(
        self, served: ServedCard, operation: Operation, *, socket: str, stop_id: str, actor: str, synced: bool
    ) -> None:
        """Publish the operation's snapshot with SYNC ON; a sync also clears the position's ``sync_requested``."""
        uuid, key = served.identity.uuid, operation.snapshot_ref
        with self._database.write() as tx:
            self._save(tx, served, operation, actor)
            publication.publish(
                tx,
                uuid,
                key=key,
                page_index=served.catalog.item(key).page_index,
                operation_id=operation.operation_id,
                generation=operation.generation,
                stop_id=stop_id,
                binding=operation.binding,
                instance=operation.binding["instance"],
                socket=socket,
                source_sha256=served.identity.source_sha256,
                observed=operation.observed or {},
                at=operation.finished_at or self.now(),
            )
            if synced:
                saved = navigation_store.load(tx, uuid)
                if saved.position.sync_requested:
                    position = replace(saved.position, sync_requested=False)
                    navigation_store.save(tx, uuid, position, self.now())
                self._append(tx, served, "navigation.synced", key, {"generation": operation.generation}, actor)

    def _save(self, tx: Connection, served: ServedCard, operation: Operation, actor: str) -> None:
        uuid, key = served.identity.uuid, operation.snapshot_ref
        at = operation.finished_at or self.now()
        shown = operation.as_json()
        checkpoint_store.save_operation(tx, uuid, shown)
        checkpoint_store.save_result(
            tx, uuid, served.catalog.item(key).first_step, LastResult(operation.state, at, key, operation.code)
        )
        data = {
            name: shown[name]
            for name in ("operation_id", "generation", "stage", "duration_ms", "code", "reason", "binding", "observed")
        }
        self._append(tx, served, f"checkpoint.{operation.state}", key, data, actor)

    def _append(
        self, tx: Connection, served: ServedCard, kind: str, key: str, data: dict[str, Any], actor: str
    ) -> None:
        card = served.identity.as_json()
        events.append(tx, kind=kind, actor=actor, key=key, card=card, data=data, at=self.now())
