"""Activates checkpoints. An activation is a guarded transaction: it replays a snapshot in the chosen session.

The result is published only if the replay ended ``ready`` and the guard found the same session, socket and source
before and after the replay. An accepted request cancels the operation that is running; a refused request does not. A
client can also cancel the running operation.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any

from cardapp.card import navigation, proof
from cardapp.card.literal import Constants
from cardapp.card_loader import CardLoader, ServedCard
from cardapp.errors import (
    CardAppError,
    CheckpointCancelled,
    CheckpointRejected,
    Conflict,
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
from cardapp.session_client import constants, session_tools
from cardapp.session_client.guard import Guard, expect_binding, expect_identity, expect_same_card
from cardapp.session_client.link import SessionLink
from cardapp.session_client.operation import (
    STAGES,
    CheckpointStorage,
    Operation,
    OperationRecord,
    drifted,
    end_state,
    internal_error,
    unless_stored,
)
from cardapp.session_client.session_tools import failure
from cardapp.state.database import Connection

MAX_SKIPPED = 1_000_000
"""A request may not skip more generations, because a very great one would leave none for later requests."""
_CANCEL_SECONDS = 10.0
"""The longest wait for the end of a cancelled operation."""
_SESSION_MARGIN = 0.5
"""By this many seconds the time limit of the session is lower than the time limit of the service."""


class Fallbacks:
    """Counts how often replays took each slow way (``SLOW_FALLBACKS``) since the service started. Any thread may use
    it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts = dict.fromkeys(session_tools.SLOW_FALLBACKS, 0)

    def add(self, names: Iterable[str]) -> None:
        with self._lock:
            for name in names:
                self._counts[name] += 1

    def counts(self) -> dict[str, int]:
        with self._lock:
            return dict(self._counts)


class Checkpoints:
    """Activates checkpoints, one at a time, each in the thread of its request."""

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
        self._fallbacks = Fallbacks()
        self.left_by: str | None = None
        """Why the program has left the published snapshot, if the last operation has moved it and did not become ready:
        ``sync_failed`` or ``sync_cancelled``."""
        self.on_change: Callable[[], None] = lambda: None
        """This function is called when an operation begins, ends or reaches another stage."""

    # -- requests --------------------------------------------------------------------------------------------------

    def active(self) -> OperationRecord | None:
        """The running operation; None if there is none."""
        operation = self._active
        return operation.as_json() if operation is not None else None

    def status(self, conn: Connection, uuid: str) -> dict[str, Any]:
        """Read ``{generation, active, last}`` of the card ``uuid`` in the transaction of ``conn``.

        In a read transaction this must be the first query. Then the running operation is read before the transaction's
        snapshot begins, so an operation that ends in between is found as ``last``.
        """
        active = self.active()
        generation, last = self._storage.last(conn, uuid)
        return {"generation": generation, "active": unless_stored(active, last), "last": last}

    def fallbacks(self) -> dict[str, int]:
        """How often replays took each slow way since the service started, by the name of the way."""
        return self._fallbacks.counts()

    def activate(self, request: dict[str, Any]) -> OperationRecord:
        """Activate the snapshot ``request["snapshot_ref"]``. The request is rejected if its generation is not new, or
        if it expects another binding or another identity."""
        served = self._card_loader.current()
        key = _snapshot_key(served, request["snapshot_ref"])
        return self._admit_and_activate(served, key, request, actor=request.get("actor", "api"), synced=False)

    def bring_to(self, key: str, actor: str) -> OperationRecord:
        """Activate the snapshot ``key``. Any generation, binding and identity are accepted."""
        served = self._card_loader.current()
        return self._admit_and_activate(served, _snapshot_key(served, key), None, actor=actor, synced=False)

    def sync(self, actor: str | None) -> OperationRecord:
        """Activate the checkpoint of the saved position. Any binding and identity are accepted."""
        served = self._card_loader.current()
        position = self._storage.position(served)
        key = navigation.sync_target(served.catalog, position)
        return self._admit_and_activate(served, key, None, actor=actor or position.actor, synced=True)

    def cancel(self, actor: str) -> None:
        """Cancel the running operation and wait for its end. Raises :class:`Conflict` if none runs.

        An operation that becomes ready before it notices the cancellation stays ready.
        """
        with self._lock:
            operation = self._active
            if operation is None:
                raise Conflict("no replay runs, so there is nothing to cancel", code="nothing_running")
            error = CheckpointCancelled("the replay was cancelled by request: sync again", code="cancelled_by_request")
            operation.cancel(error, actor)
        operation.ended.wait(_CANCEL_SECONDS)

    def stop(self) -> None:
        """Refuse further requests and cancel the running operation."""
        with self._lock:
            self._stopping = True
            operation = self._active
            if operation is not None:
                operation.cancel(CheckpointCancelled("the service stopped: sync again once it runs", code="stopping"))
        if operation is not None:
            operation.ended.wait(_CANCEL_SECONDS)

    # -- the gate --------------------------------------------------------------------------------------------------

    def _admit_and_activate(
        self, served: ServedCard, key: str, request: dict[str, Any] | None, *, actor: str, synced: bool
    ) -> OperationRecord:
        guard = None
        try:
            self._check_request(served, request)
            guard = Guard(self._link, self._card_loader)
            self._check_session(guard, served, request)
            operation = self._admit(guard, served, key, request)
        except (CheckpointRejected, InvalidValue) as error:
            binding = guard.before.binding if guard is not None else None
            generation = request["generation"] if request else None
            refused = self._storage.refused(served, key, generation, binding, error, actor)
            error.extra["operation"] = refused.as_json()
            raise
        return self._activate(operation, guard, served, actor=actor, synced=synced)

    def _check_request(self, served: ServedCard, request: dict[str, Any] | None) -> None:
        """Check everything that needs no call to the session."""
        if request is not None:
            self._check_generation(request["generation"])
            expect_identity(request["expected_identity"], served.identity)
        if self._card_loader.source_sha256() != served.identity.source_sha256:
            raise CheckpointRejected(
                "the card's source on the disk differs from the source that is served: "
                f"{self._card_loader.fault or 'the source has just changed; look at the page again, then sync'}",
                code="source_changed",
            )

    def _check_session(self, guard: Guard, served: ServedCard, request: dict[str, Any] | None) -> None:
        expect_same_card(served.identity, guard)
        if request is not None:
            expect_binding(request["expected_binding"], guard.before.binding)

    def _check_generation(self, generation: int) -> None:
        seen = self._storage.generation()
        if generation <= seen:
            raise CheckpointRejected(
                f"generation {generation} is not greater than the last one, {seen}: use {seen + 1} or more",
                code="stale_generation",
                extra={"generation": seen},
            )
        if generation > seen + MAX_SKIPPED:
            raise InvalidValue.of(
                "/generation",
                f"is {generation}, more than {MAX_SKIPPED} above the last one, {seen}: use {seen + 1}; "
                "GET /api/checkpoint/status has the last one",
            )

    def _admit(self, guard: Guard, served: ServedCard, key: str, request: dict[str, Any] | None) -> Operation:
        """Store the new generation, then cancel the running operation and wait until it has ended."""
        with self._lock:
            if self._stopping:
                raise SessionUnavailable("the service is stopping: sync again once it runs", code="stopping")
            if request is not None:
                self._check_generation(request["generation"])
            operation = Operation(
                generation=self._storage.take_generation(request["generation"] if request else None),
                snapshot_ref=key,
                identity=served.identity,
                binding=guard.before.binding,
                started_at=self._storage.now(),
            )
            previous, self._active = self._active, operation
            if previous is not None:
                previous.cancel(CheckpointCancelled("a newer request took over the session"))
        self.on_change()
        if previous is not None:
            previous.ended.wait(_CANCEL_SECONDS)
        return operation

    # -- the transaction -------------------------------------------------------------------------------------------

    def _activate(
        self, operation: Operation, guard: Guard, served: ServedCard, *, actor: str, synced: bool
    ) -> OperationRecord:
        try:
            reading = self._verified_replay(operation, guard, served)
            finished = self._publish(operation, guard, served, reading, actor=actor, synced=synced)
        except Exception as error:
            reported = error if isinstance(error, CardAppError) else internal_error(operation)
            finished = operation.finished(end_state(reported), self._storage.now(), reported)
            by = operation.cancelled_by if finished.state == "cancelled" else None
            self._storage.ended(served, finished, by or actor)
            if finished.has_moved:
                self.left_by = "sync_cancelled" if finished.state == "cancelled" else "sync_failed"
            reported.extra["operation"] = finished.as_json()
            if reported is error:
                raise
            raise reported from error
        finally:
            with self._lock:
                if self._active is operation:
                    self._active = None
            operation.ended.set()
            self.on_change()
        return finished.as_json()

    def _verified_replay(self, operation: Operation, guard: Guard, served: ServedCard) -> dict[str, Any]:
        """Replay the snapshot and compare the values at the stop with the card. Returns what the session has read."""
        reading = self._replay(operation, guard, served)
        try:
            self._verify(operation, guard, served, reading)
        except SnapshotDrift:
            if reading["fresh"]:
                raise
            # The replay restarted a fork checkpoint. Only a new run of the program can prove that the card is wrong.
            self._fallbacks.add(["second_run"])
            reading = self._replay(operation, guard, served, fresh=True)
            self._verify(operation, guard, served, reading)
        return reading

    def _replay(self, operation: Operation, guard: Guard, served: ServedCard, *, fresh: bool = False) -> dict[str, Any]:
        """Make the session replay the snapshot. Returns the validated result of the session's tool."""
        key = operation.snapshot_ref
        remaining = self._timeout - (operation.seconds() - operation.building)
        # The session must time out before this call does, because the session's error says where the program was.
        seconds = max(remaining - _SESSION_MARGIN, remaining / 2)
        snapshot, allocator = served.catalog.snapshots[key], served.card.allocator
        arguments = session_tools.replay_arguments(
            guard.before.binding, operation.generation, key, snapshot, allocator, seconds=seconds, fresh=fresh
        )

        def progress(_done: float, _total: float | None, message: str | None) -> None:
            if message in STAGES and message != operation.stage:
                operation.enter(message)
                self.on_change()

        try:
            result = guard.client.call_tool(
                session_tools.REPLAY,
                arguments,
                timeout=remaining,
                maximum=remaining + guard.result["build_timeout_s"],
                on_progress=progress,
                cancel=operation.cancelled,
            )
        except McpError as error:
            if isinstance(error, McpCancelled) and operation.cancellation is not None:
                raise operation.cancellation from error
            raise self._translated(guard, error) from error
        if result.is_error:
            raise self._failed(guard, failure(result.structured, result.text))
        reading: dict[str, Any] = result.structured
        self._fallbacks.add(reading["fallbacks"])
        return reading

    def _verify(self, operation: Operation, guard: Guard, served: ServedCard, reading: dict[str, Any]) -> None:
        operation.enter("verifying")
        self.on_change()
        snapshot = served.catalog.snapshots[operation.snapshot_ref]
        found = proof.checks(snapshot, reading)
        operation.observed = session_tools.observed(snapshot, reading, found)
        guard.confirm(reading["binding"])
        reason = proof.drift_reason(found, reading["causes"])
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
        """Publish and record in one transaction, unless the operation was cancelled. Returns the finished operation."""
        socket, stop_id = guard.before.choice.socket, reading["stop_id"]
        known = self._constants(operation, guard, served, reading)
        with self._lock:
            if operation.cancellation is not None:
                raise operation.cancellation
            finished = operation.finished("ready", self._storage.now())
            self._storage.ready(
                served, finished, socket=socket, stop_id=stop_id, actor=actor, synced=synced, constants=known
            )
            self.left_by = None
        return finished

    def _constants(self, operation: Operation, guard: Guard, served: ServedCard, reading: dict[str, Any]) -> Constants:
        """The values of the constants of the program that the learner predicted."""

        def call(tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
            return session_tools.call_tool(guard.client, tool, arguments, seconds=constants.SECONDS)

        names = self._storage.names_to_read(served, operation.snapshot_ref, reading["values"])
        return constants.read(call, names)

    # -- failures --------------------------------------------------------------------------------------------------

    @staticmethod
    def _failed(guard: Guard, error: CardAppError) -> CardAppError:
        """The error to raise for a failure of the session. If the session or the source has changed, this explains the
        failure, so it is the rejection. Otherwise it is ``error``."""
        if isinstance(error, CheckpointCancelled | TooSlow):
            return error
        return guard.rejection() or error

    def _translated(self, guard: Guard, error: McpError) -> CardAppError:
        """Translate an error of the MCP client to the error that ends the operation."""
        if isinstance(error, McpTimeout):
            return guard.container_rejection() or TooSlow(
                f"the replay did not end within {self._timeout:g} s: raise CARD_REPLAY_TIMEOUT, "
                "or reset the session with bin/card-session reset",
                code="replay_timeout",
            )
        changed = guard.rejection() if isinstance(error, McpClosed) else None
        return changed or DebuggerFailed(
            f"the session broke the protocol: {error.detail}; reset it with bin/card-session reset", code=error.code
        )


def _snapshot_key(served: ServedCard, reference: str) -> str:
    """Check that ``reference`` is the key of a snapshot, and return the key."""
    item = served.catalog.find(reference)
    if item is None or item.level != "snapshot":
        raise InvalidValue.of("/snapshot_ref", f"{reference!r} is not a snapshot; give task/block/phase/step/snapshot")
    return item.key
