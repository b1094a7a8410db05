"""One activation of a checkpoint: what ``GET /api/checkpoint/status`` shows of it, and how each error ends it."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from dataclasses import dataclass, field, replace
from typing import Any

from cardapp.errors import (
    CardAppError,
    CheckpointCancelled,
    CheckpointRejected,
    SnapshotDrift,
    TooSlow,
)

_log = logging.getLogger(__name__)

STAGES = ("binding", "resetting", "replaying", "verifying")


@dataclass
class Operation:
    """An operation, as its own thread writes it and any thread reads it.

    The operation under way stays ``running``; :meth:`finished` makes the copy that is stored. So a reader never sees an
    end that is not yet in the database.
    """

    generation: int
    snapshot_ref: str
    identity: dict[str, str]
    binding: dict[str, str]
    started_at: str
    operation_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    state: str = "running"
    stage: str = "binding"
    finished_at: str | None = None
    duration_ms: float | None = None
    code: str | None = None
    reason: str | None = None
    observed: dict[str, Any] | None = None
    cancelled: threading.Event = field(default_factory=threading.Event)
    cancellation: CheckpointCancelled | None = None
    """The error that ends the operation once ``cancelled`` is set."""
    cancelled_by: str | None = None
    """The actor of a request to cancel it."""
    ended: threading.Event = field(default_factory=threading.Event)
    _clock_start: float = field(default_factory=time.monotonic)

    def seconds(self) -> float:
        """Seconds since the operation began."""
        return time.monotonic() - self._clock_start

    def cancel(self, error: CheckpointCancelled, actor: str | None = None) -> None:
        """Have the operation end with ``error``. Only the first call counts; callers hold one lock."""
        if not self.cancelled.is_set():
            self.cancellation, self.cancelled_by = error, actor
            self.cancelled.set()

    def finished(self, state: str, at: str, error: CardAppError | None = None) -> Operation:
        """A copy that ended in ``state`` at the time ``at``, with the code and the reason of ``error``."""
        return replace(
            self,
            state=state,
            finished_at=at,
            duration_ms=self._milliseconds(),
            code=error.code if error else None,
            reason=error.detail if error else None,
        )

    def as_json(self) -> dict[str, Any]:
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
            "binding": self.binding,
            "identity": self.identity,
            "code": self.code,
            "reason": self.reason,
            "observed": self.observed,
        }

    def _milliseconds(self) -> float:
        return round(1000 * self.seconds(), 3)


def unless_stored(active: dict[str, Any] | None, last: dict[str, Any] | None) -> dict[str, Any] | None:
    """The operation under way, or None if it is the ``last`` one: its end is stored before its thread lets go of it."""
    if active is not None and last is not None and active["operation_id"] == last["operation_id"]:
        return None
    return active


def end_state(error: CardAppError) -> str:
    """The state that an operation ends in because of ``error``."""
    if isinstance(error, CheckpointRejected):
        return "rejected"
    if isinstance(error, CheckpointCancelled):
        return "cancelled"
    if isinstance(error, TooSlow):
        return "timeout"
    return "failed"


def internal_error(operation: Operation) -> CardAppError:
    """Log the exception in which the service itself failed; the error that ends the operation because of it."""
    _log.exception("internal error in the activation of %s", operation.snapshot_ref)
    return CardAppError("internal error in the activation of the checkpoint; see the log", code="internal_error")


def drifted(reason: str, observed: dict[str, Any]) -> SnapshotDrift:
    """The error for a program that reached the stop with other values than the card expects."""
    return SnapshotDrift(
        f"the snapshot drifted: {reason}. If the session's sources were edited, undo the edit or fetch them again with "
        "bin/card-session refresh; otherwise the card is wrong here",
        extra={"observed": observed},
    )
