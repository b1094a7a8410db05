"""Checkpoints: a snapshot replayed in the chosen session as a guarded transaction.

Nothing is published unless the replay ended ``ready`` and the guard saw the same session, socket and source after it
as before. A newer accepted request cancels the running one; a refused request never does.
"""

from __future__ import annotations

import logging
import threading
from typing import Any

from cardapp.card import navigation, proof
from cardapp.card_loader import CardLoader, ServedCard
from cardapp.errors import (
    CardAppError,
    CheckpointCancelled,
    CheckpointRejected,
    DebuggerFailed,
    InvalidValue,
    McpCancelled,
    McpClosed,
    McpError,
    McpTimeout,
    SessionUnavailable,
    SnapshotDrift,
    TooSlow,
)
from cardapp.session import replay
from cardapp.session.checkpoint_storage import CheckpointStorage
from cardapp.session.guard import Guard, expect_binding, expect_identity, expect_same_card
from cardapp.session.link import SessionLink, failure
from cardapp.session.operation import STAGES, Operation, drifted, ending, unless_stored
from cardapp.state.database import Connection

_UNWIND_SECONDS = 10.0
_SESSION_MARGIN = 0.5

_log = logging.getLogger(__name__)


class Checkpoints:
    """Runs checkpoint operations, one at a time, each in the thread of the request that asked for it."""

    def __init__(
        self, *, card_loader: CardLoader, link: SessionLink, storage: CheckpointStorage, timeout: float
    ) -> None:
        self._card_loader = card_loader
        self._link = link
        self._storage = storage
        self._timeout = timeout
        self._lock = threading.Lock()
        self._active: Operation | None = None
        self._stopping = False

    # -- what callers see ------------------------------------------------------------------------------------------

    def active(self) -> dict[str, Any] | None:
        """The operation under way, if any."""
        operation = self._active
        return operation.as_json() if operation is not None else None

    def status(self, conn: Connection, uuid: str) -> dict[str, Any]:
        """``{generation, active, last}`` of the card ``uuid``, as of the transaction of ``conn``.

        In a read transaction this must be the first query: the operation under way is taken before the database's
        moment is fixed, so an operation that ends in between is found as ``last``.
        """
        active = self.active()
        generation, last = self._storage.last(conn, uuid)
        return {"generation": generation, "active": unless_stored(active, last), "last": last}

    def activate(self, request: dict[str, Any]) -> dict[str, Any]:
        """Replay ``request["snapshot_ref"]`` for a caller that pins generation, binding and identity."""
        served = self._card_loader.current()
        key = _snapshot_key(served, request["snapshot_ref"])
        return self._admit_and_run(served, key, request, actor=request.get("actor", "api"), synced=False)

    def sync(self, actor: str | None) -> dict[str, Any]:
        """Replay the checkpoint of the saved position, with binding and identity as they are now."""
        served = self._card_loader.current()
        position = self._storage.position(served)
        key = navigation.sync_target(served.catalog, position)
        return self._admit_and_run(served, key, None, actor=actor or position.actor, synced=True)

    def stop(self) -> None:
        """Admit nothing any more, and cancel what runs; its request ends with ``superseded``."""
        with self._lock:
            self._stopping = True
            operation = self._active
        if operation is not None:
            operation.cancel.set()
            operation.ended.wait(_UNWIND_SECONDS)

    # -- the gate --------------------------------------------------------------------------------------------------

    def _admit_and_run(
        self, served: ServedCard, key: str, request: dict[str, Any] | None, *, actor: str, synced: bool
    ) -> dict[str, Any]:
        guard = None
        try:
            try:
                self._check_request(served, request)
                guard = Guard(self._link, self._card_loader)
                self._check_session(guard, served, request)
                operation = self._admit(guard, served, key, request)
            except CheckpointRejected as error:
                self._storage.refused(served, key, request["generation"] if request else None, error, actor)
                raise
            return self._run(operation, guard, served, actor=actor, synced=synced)
        finally:
            if guard is not None:
                guard.close()

    def _check_request(self, served: ServedCard, request: dict[str, Any] | None) -> None:
        """What can be refused without asking the session."""
        if request is not None:
            self._check_generation(request["generation"])
            expect_identity(request["expected_identity"], served.identity.as_json())
        if self._card_loader.source_sha256() != served.identity.source_sha256:
            raise CheckpointRejected(
                "the card's source on the disk is not the one served: "
                f"{self._card_loader.fault or 'it just changed, look at the page again, then sync'}",
                code="source_changed",
            )

    def _check_session(self, guard: Guard, served: ServedCard, request: dict[str, Any] | None) -> None:
        expect_same_card(served.identity.as_json(), guard.before)
        if request is not None:
            expect_binding(request["expected_binding"], guard.before.binding)

    def _check_generation(self, generation: int) -> None:
        seen = self._storage.generation()
        if generation <= seen:
            raise CheckpointRejected(
                f"generation {generation} is not greater than the last seen, {seen}: use {seen + 1} or more",
                code="stale_generation",
                extra={"generation": seen},
            )

    def _admit(self, guard: Guard, served: ServedCard, key: str, request: dict[str, Any] | None) -> Operation:
        """Take the generation, then the session: the running operation is cancelled and waited for."""
        with self._lock:
            if self._stopping:
                raise SessionUnavailable("the service is stopping: sync again once it runs", code="stopping")
            if request is not None:
                self._check_generation(request["generation"])
            operation = Operation(
                generation=self._storage.take_generation(request["generation"] if request else None),
                snapshot_ref=key,
                identity=served.identity.as_json(),
                binding=guard.before.binding,
                started_at=self._storage.now(),
            )
            previous, self._active = self._active, operation
        if previous is not None:
            previous.cancel.set()
            previous.ended.wait(_UNWIND_SECONDS)
        return operation

    # -- the transaction -------------------------------------------------------------------------------------------

    def _run(
        self, operation: Operation, guard: Guard, served: ServedCard, *, actor: str, synced: bool
    ) -> dict[str, Any]:
        try:
            reading = self._proved(operation, guard, served)
            finished = self._publish(operation, guard, served, reading, actor=actor, synced=synced)
        except Exception as error:
            told = error if isinstance(error, CardAppError) else _surprise(operation)
            finished = operation.finished(ending(told), self._storage.now(), told)
            self._storage.ended(served, finished, actor)
            told.extra["operation"] = finished.as_json()
            if told is error:
                raise
            raise told from error
        finally:
            with self._lock:
                if self._active is operation:
                    self._active = None
            operation.ended.set()
        return finished.as_json()

    def _proved(self, operation: Operation, guard: Guard, served: ServedCard) -> dict[str, Any]:
        """The session's report of the stop, which is as the card says."""
        reading = self._replay(operation, guard, served)
        try:
            self._verify(operation, guard, served, reading)
        except SnapshotDrift:
            if reading["fresh"]:
                raise
            # Only a program that was started anew can tell whether it is the card that is wrong.
            reading = self._replay(operation, guard, served, fresh=True)
            self._verify(operation, guard, served, reading)
        return reading

    def _replay(self, operation: Operation, guard: Guard, served: ServedCard, *, fresh: bool = False) -> dict[str, Any]:
        """Have the session bring the program to the stop; its report as the tool's output schema says."""
        key = operation.snapshot_ref
        remaining = self._timeout - operation.seconds()
        # The session gives up first, so that its own, better told timeout arrives before ours cuts the line.
        own = max(remaining - _SESSION_MARGIN, remaining / 2)
        snapshot, allocator = served.catalog.snapshots[key], served.card.allocator
        asked = replay.arguments(
            operation.binding, operation.generation, key, snapshot, allocator, seconds=own, fresh=fresh
        )

        def progress(_done: float, _total: float | None, message: str | None) -> None:
            if message in STAGES:
                operation.stage = message

        try:
            result = guard.client.call_tool(
                replay.TOOL,
                asked,
                timeout=remaining,
                maximum=remaining,
                on_progress=progress,
                cancel=operation.cancel,
            )
        except McpError as error:
            raise self._broken(guard, error) from error
        if result.is_error:
            raise self._failed(guard, failure(result.structured, result.text))
        reading: dict[str, Any] = result.structured
        return reading

    def _verify(self, operation: Operation, guard: Guard, served: ServedCard, reading: dict[str, Any]) -> None:
        operation.stage = "verifying"
        found = proof.checks(served.catalog.snapshots[operation.snapshot_ref], reading)
        operation.observed = replay.observed(reading, found)
        guard.confirm()
        reason = proof.drift_reason(found)
        if reason is not None:
            raise drifted(reason, operation.observed)

    def _publish(
        self,
        operation: Operation,
        guard: Guard,
        served: ServedCard,
        reading: dict[str, Any],
        *,
        actor: str,
        synced: bool,
    ) -> Operation:
        """Publish and record in one transaction, unless a newer operation was admitted first."""
        socket, stop_id = guard.before.choice.socket, reading["stop_id"]
        with self._lock:
            if operation.cancel.is_set():
                raise CheckpointCancelled("a newer checkpoint took the session over")
            finished = operation.finished("ready", self._storage.now())
            self._storage.ready(served, finished, socket=socket, stop_id=stop_id, actor=actor, synced=synced)
        return finished

    # -- what went wrong -------------------------------------------------------------------------------------------

    def _failed(self, guard: Guard, error: CardAppError) -> CardAppError:
        """The session's own failure, unless the session or the source changed meanwhile: that explains it better."""
        if isinstance(error, CheckpointCancelled | TooSlow):
            return error
        return self._changed(guard) or error

    def _broken(self, guard: Guard, error: McpError) -> CardAppError:
        """What a broken conversation means for the operation."""
        if isinstance(error, McpCancelled):
            return CheckpointCancelled("a newer checkpoint took the session over")
        if isinstance(error, McpTimeout):
            return TooSlow(
                f"the replay did not end within {self._timeout:g} s: raise CARD_REPLAY_TIMEOUT, "
                "or reset the session with bin/card-session reset",
                code="replay_timeout",
            )
        changed = self._changed(guard) if isinstance(error, McpClosed) else None
        return changed or DebuggerFailed(
            f"the session did not keep to its protocol: {error.detail}: bin/card-session reset", code=error.code
        )

    @staticmethod
    def _changed(guard: Guard) -> CheckpointRejected | None:
        try:
            guard.confirm()
        except CheckpointRejected as rejected:
            return rejected
        return None


def _surprise(operation: Operation) -> CardAppError:
    """A defect of ours still has to end the operation in the record."""
    _log.exception("the checkpoint of %s met a surprise", operation.snapshot_ref)
    return CardAppError("the checkpoint failed inside the service; its log tells more", code="internal_error")


def _snapshot_key(served: ServedCard, reference: str) -> str:
    """The full key of a snapshot given by its full key."""
    item = served.catalog.find(reference)
    if item is None or item.level != "snapshot":
        raise InvalidValue.of("/snapshot_ref", f"{reference!r} is no snapshot; give task/block/phase/step/snapshot")
    return item.key
