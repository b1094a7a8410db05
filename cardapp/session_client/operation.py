"""One activation of a checkpoint (an operation): its record, its final state after an error, and its storage.

One transaction writes the result of an operation, its event and, if the operation is ready, its publication.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypedDict, cast

from cardapp.card import navigation
from cardapp.card.constant import language_of
from cardapp.card.literal import Constants
from cardapp.card.model import Identity
from cardapp.card.navigation import Position
from cardapp.card.prediction import names_in
from cardapp.card.progress import LastResult
from cardapp.card_loader import ServedCard
from cardapp.errors import (
    CardAppError,
    CheckpointCancelled,
    CheckpointRejected,
    SnapshotDrift,
    TooSlow,
)
from cardapp.session_client.failure_details import Details
from cardapp.session_client.session_tools import Binding
from cardapp.state import card_state, checkpoint_results, events, learner
from cardapp.state.database import Connection, Database

_log = logging.getLogger(__name__)

STAGES = ("binding", "building", "resetting", "replaying", "verifying")


class OperationRecord(TypedDict):
    """An operation as it is stored, and as ``GET /api/checkpoint/status`` shows it."""

    operation_id: str
    generation: int
    snapshot_ref: str
    state: str
    stage: str
    started_at: str
    finished_at: str | None
    duration_ms: float
    binding: dict[str, str] | None
    identity: dict[str, str]
    code: str | None
    reason: str | None
    observed: dict[str, Any] | None
    failure: Details | None


@dataclass
class Operation:
    """An operation. Only the thread that runs it changes it; any thread may read it.

    The running operation's state stays ``running``. :meth:`finished` makes a finished copy for the database, so a
    reader never sees an end that is not stored.
    """

    generation: int
    snapshot_ref: str
    identity: Identity
    binding: Binding | None
    """None if the request was refused before the session was asked."""
    started_at: str
    operation_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    state: str = "running"
    stage: str = "binding"
    finished_at: str | None = None
    duration_ms: float | None = None
    code: str | None = None
    reason: str | None = None
    observed: dict[str, Any] | None = None
    failure: Details | None = None
    cancelled: threading.Event = field(default_factory=threading.Event)
    cancellation: CheckpointCancelled | None = None
    """The error that ends the operation once ``cancelled`` is set."""
    cancelled_by: str | None = None
    """The actor of the request that cancelled the operation."""
    ended: threading.Event = field(default_factory=threading.Event)
    building: float = 0.0
    """Seconds that builds took. They do not count as time of the replay."""
    _clock_start: float = field(default_factory=time.monotonic)
    _stage_start: float = field(default_factory=time.monotonic)

    def seconds(self) -> float:
        """Seconds since the operation began."""
        return time.monotonic() - self._clock_start

    def enter(self, stage: str) -> None:
        """Begin another stage."""
        now = time.monotonic()
        if self.stage == "building":
            self.building += now - self._stage_start
        self.stage, self._stage_start = stage, now

    @property
    def has_moved(self) -> bool:
        """Whether the operation may have moved the program. A build does not."""
        return STAGES.index(self.stage) >= STAGES.index("resetting")

    def cancel(self, error: CheckpointCancelled, actor: str | None = None) -> None:
        """Make the operation end with ``error``. Only the first call has an effect. Callers must hold a common lock."""
        if not self.cancelled.is_set():
            self.cancellation, self.cancelled_by = error, actor
            self.cancelled.set()

    def finished(self, state: str, at: str, error: CardAppError | None = None) -> Operation:
        """A copy that ended in ``state`` at the time ``at``, with the code, the reason and the details of ``error``."""
        return replace(
            self,
            state=state,
            finished_at=at,
            duration_ms=self._milliseconds(),
            code=error.code if error else None,
            reason=error.detail if error else None,
            failure=error.extra.get("failure") if error else None,
        )

    def as_json(self) -> OperationRecord:
        duration = self.duration_ms if self.duration_ms is not None else self._milliseconds()
        return {
            "operation_id": self.operation_id,
            "generation": self.generation,
            "snapshot_ref": self.snapshot_ref,
            "state": self.state,
            "stage": self.stage,
            "started_at": self.started_at,
            "finished_at": self.finished_at,
            "duration_ms": duration,
            "binding": self.binding.as_json() if self.binding is not None else None,
            "identity": self.identity.as_json(),
            "code": self.code,
            "reason": self.reason,
            "observed": self.observed,
            "failure": self.failure,
        }

    def _milliseconds(self) -> float:
        return round(1000 * self.seconds(), 3)


def unless_stored(active: OperationRecord | None, last: OperationRecord | None) -> OperationRecord | None:
    """Return ``active``, or None if its end is already stored as ``last``."""
    if active is not None and last is not None and active["operation_id"] == last["operation_id"]:
        return None
    return active


def load_last(conn: Connection, uuid: str) -> OperationRecord | None:
    """The last finished operation of the card with this ``uuid``; None before the first."""
    stored = checkpoint_results.load_operation(conn, uuid)
    return None if stored is None else cast("OperationRecord", stored)


def end_state(error: CardAppError) -> str:
    """The final state of an operation that failed with ``error``."""
    if isinstance(error, CheckpointRejected):
        return "rejected"
    if isinstance(error, CheckpointCancelled):
        return "cancelled"
    if isinstance(error, TooSlow):
        return "timeout"
    return "failed"


def internal_error(operation: Operation) -> CardAppError:
    """Log the current exception, which is a fault of the service. Returns the error that ends the operation."""
    _log.exception("internal error in the activation of %s", operation.snapshot_ref)
    return CardAppError("internal error in the activation of the checkpoint; see the log", code="internal_error")


def drifted(reason: str, observed: dict[str, Any]) -> SnapshotDrift:
    """The error for a program that reached the stop with other values than the card expects."""
    return SnapshotDrift(
        f"the snapshot drifted: {reason}. If the session's sources were edited, undo the edit or fetch them again with "
        "bin/card-session refresh; otherwise the card is wrong here",
        extra={"observed": observed},
    )


# -- the database --------------------------------------------------------------------------------------------------


class CheckpointStorage:
    """Reads and writes the database for :class:`~cardapp.session_client.checkpoint.Checkpoints`.

    ``clock`` returns the time in RFC 3339, UTC, with milliseconds.
    """

    def __init__(self, database: Database, clock: Callable[[], str]) -> None:
        self._database = database
        self.now = clock

    def generation(self) -> int:
        with self._database.read() as conn:
            return checkpoint_results.load_generation(conn)

    @staticmethod
    def last(conn: Connection, uuid: str) -> tuple[int, OperationRecord | None]:
        """The last generation, and the last finished operation of the card with this ``uuid``."""
        return checkpoint_results.load_generation(conn), load_last(conn, uuid)

    def position(self, served: ServedCard) -> Position:
        """The saved position, or its nearest ancestor that still exists in the card."""
        with self._database.read() as conn:
            saved = card_state.load_position(conn, served.identity.uuid)
        return navigation.repair(served.catalog, saved.position)

    def names_to_read(self, served: ServedCard, key: str, values: dict[str, Any]) -> list[str]:
        """The texts in the predictions at the stop ``key`` that gdb has to evaluate before these are judged."""
        with self._database.read() as conn:
            made = learner.unjudged(conn, key, served.identity.id)
        snapshot, language = served.catalog.snapshots[key], language_of(served.card.target.sources)
        return sorted(set().union(*(names_in(each.data["values"], snapshot, values, language) for each in made)))

    def take_generation(self, wanted: int | None) -> int:
        """Store the generation ``wanted``, or the next generation if it is None. Returns the stored generation."""
        with self._database.write() as tx:
            taken = wanted if wanted is not None else checkpoint_results.load_generation(tx) + 1
            return checkpoint_results.save_generation(tx, taken)

    def refused(
        self,
        served: ServedCard,
        key: str,
        generation: int | None,
        binding: Binding | None,
        error: CardAppError,
        actor: str,
    ) -> Operation:
        """Record a request that was refused before its operation began, as the last operation. Returns its record.

        The last result of the step does not change, because nothing was replayed.
        """
        at = self.now()
        wanted = generation if generation is not None else self.generation()
        refused = Operation(wanted, key, served.identity, binding, at).finished("rejected", at, error)
        data = {"generation": generation, "code": error.code, "reason": error.detail}
        with self._database.write() as tx:
            checkpoint_results.save_operation(tx, served.identity.uuid, dict(refused.as_json()))
            self._append(tx, served, "checkpoint.rejected", key, data, actor)
        return refused

    def ended(self, served: ServedCard, operation: Operation, actor: str) -> None:
        """Record an operation whose final state is not ``ready``. The published snapshot does not change."""
        with self._database.write() as tx:
            self._save(tx, served, operation, actor)

    def ready(
        self,
        served: ServedCard,
        operation: Operation,
        *,
        socket: str,
        stop_id: str,
        actor: str,
        synced: bool,
        constants: Constants,
    ) -> None:
        """Publish the operation's snapshot with SYNC on, and judge the predictions of its values.

        ``constants`` are the values of the predicted texts that gdb evaluated. If the operation is a sync (``synced``),
        also clear the position's ``sync_requested``.
        """
        uuid, key, binding = served.identity.uuid, operation.snapshot_ref, operation.binding
        assert binding is not None
        with self._database.write() as tx:
            self._save(tx, served, operation, actor)
            checkpoint_results.publish(
                tx,
                uuid,
                key=key,
                page_index=served.catalog.item(key).page_index,
                operation_id=operation.operation_id,
                generation=operation.generation,
                stop_id=stop_id,
                binding=binding.as_json(),
                instance=binding.instance,
                socket=socket,
                source_sha256=served.identity.source_sha256,
                observed=operation.observed or {},
                at=operation.finished_at or self.now(),
            )
            self._judge(tx, served, operation, constants, actor)
            if synced:
                saved = card_state.load_position(tx, uuid)
                if saved.position.sync_requested:
                    position = replace(saved.position, sync_requested=False)
                    card_state.save_position(tx, uuid, position, self.now())
                self._append(tx, served, "navigation.synced", key, {"generation": operation.generation}, actor)

    def _judge(
        self, tx: Connection, served: ServedCard, operation: Operation, constants: Constants, actor: str
    ) -> None:
        key = operation.snapshot_ref
        learner.judge(
            tx,
            key,
            served.catalog.snapshots[key],
            (operation.observed or {}).get("values", {}),
            language=language_of(served.card.target.sources),
            constants=constants,
            actor=actor,
            card=served.identity,
            at=self.now(),
        )

    def _save(self, tx: Connection, served: ServedCard, operation: Operation, actor: str) -> None:
        uuid, key = served.identity.uuid, operation.snapshot_ref
        at = operation.finished_at or self.now()
        record = operation.as_json()
        checkpoint_results.save_operation(tx, uuid, dict(record))
        checkpoint_results.save_result(
            tx, uuid, served.catalog.item(key).first_step, LastResult(operation.state, at, key, operation.code)
        )
        data = {
            "operation_id": record["operation_id"],
            "generation": record["generation"],
            "stage": record["stage"],
            "duration_ms": record["duration_ms"],
            "code": record["code"],
            "reason": record["reason"],
            "binding": record["binding"],
            "observed": record["observed"],
        }
        self._append(tx, served, f"checkpoint.{operation.state}", key, data, actor)

    def _append(
        self, tx: Connection, served: ServedCard, kind: str, key: str, data: dict[str, Any], actor: str
    ) -> None:
        events.append(tx, kind=kind, actor=actor, key=key, card=served.identity, data=data, at=self.now())
