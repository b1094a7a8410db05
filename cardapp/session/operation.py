"""One checkpoint operation: what ``GET /api/checkpoint/status`` shows of it, and how its endings are told apart."""

from __future__ import annotations

import threading
import time
import uuid
from dataclasses import dataclass, field
from typing import Any

from cardapp.errors import (
    CardAppError,
    CheckpointCancelled,
    CheckpointRejected,
    SnapshotDrift,
    TooSlow,
)

STAGES = ("binding", "resetting", "replaying", "verifying")


@dataclass
class Operation:
    """An operation under way or finished. Written by the thread that runs it, read by any (each field at once)."""

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
    cancel: threading.Event = field(default_factory=threading.Event)
    ended: threading.Event = field(default_factory=threading.Event)
    _clock_start: float = field(default_factory=time.monotonic)

    def seconds(self) -> float:
        """Seconds since the operation began."""
        return time.monotonic() - self._clock_start

    def finish(self, state: str, at: str, error: CardAppError | None = None) -> None:
        self.duration_ms = round(1000 * self.seconds(), 3)
        self.finished_at = at
        if error is not None:
            self.code, self.reason = error.code, error.detail
        self.state = state

    def as_json(self) -> dict[str, Any]:
        duration = self.duration_ms if self.duration_ms is not None else round(1000 * self.seconds(), 3)
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


def ending(error: CardAppError) -> str:
    """The operation state that an error means."""
    if isinstance(error, CheckpointRejected):
        return "rejected"
    if isinstance(error, CheckpointCancelled):
        return "cancelled"
    if isinstance(error, TooSlow):
        return "timeout"
    return "failed"


def drifted(reason: str, observed: dict[str, Any]) -> SnapshotDrift:
    """The program stands at the stop but is not what the card says."""
    return SnapshotDrift(
        f"the snapshot drifted: {reason}. If the session's sources were edited, undo the edit or fetch them anew with "
        "bin/card-session refresh; otherwise the card is wrong here",
        extra={"observed": observed},
    )
