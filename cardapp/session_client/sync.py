"""SYNC: reads its state, which is stored in the database, and monitors the session to switch SYNC off.

SYNC is on while the program is at the published snapshot. The monitor is a thread. It switches SYNC off when the
session is restarted or another one is chosen, when the source changes, and when the target is reset or runs on. The
session reports at once that the target has moved or that the session ends. The rest is checked periodically.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from cardapp.card import navigation
from cardapp.card.catalog import Catalog, depth
from cardapp.card.navigation import Position
from cardapp.card_loader import CardLoader
from cardapp.errors import CardAppError, LevelNotSyncable, SessionUnavailable, TooSlow
from cardapp.session_client.checkpoint import Checkpoints
from cardapp.session_client.link import SessionLink
from cardapp.session_client.operation import OperationRecord, load_last, unless_stored
from cardapp.session_client.session_tools import DebuggerState
from cardapp.state import card_state, checkpoint_results, events, explanations, learners
from cardapp.state.checkpoint_results import Publication
from cardapp.state.database import Connection, Database

PERIOD_SECONDS = 0.5
RAN_ON, EXITED = "target_ran_on", "program_exited"

_log = logging.getLogger(__name__)


class Control:
    """Reads the state of SYNC, and switches SYNC off with a reason and an event."""

    def __init__(
        self,
        *,
        card_loader: CardLoader,
        database: Database,
        active: Callable[[], OperationRecord | None],
        session: Callable[[], dict[str, Any]],
        clock: Callable[[], str],
    ) -> None:
        self._card_loader = card_loader
        self._database = database
        self._active = active
        self._session = session
        self._clock = clock
        self.target_lock = threading.Lock()
        """A request that resets or moves the target holds this lock until it has switched SYNC off. Otherwise the
        monitor could switch SYNC off first, and the event would not name the actor of the request."""

    def state(self) -> dict[str, Any]:
        """The body of ``GET /api/control/state``. ``revision`` increases with each change of the publication."""
        served = self._card_loader.current()
        uuid = served.identity.uuid
        active = self._active()
        with self._database.read() as conn:
            published = checkpoint_results.load_publication(conn, uuid)
            saved = card_state.load_position(conn, uuid)
            generation = checkpoint_results.load_generation(conn)
            last = load_last(conn, uuid)
            viewer_revision = card_state.load_viewer(conn, uuid)[1]
            learner = learners.current(conn)
            explanation_revision = explanations.revision(conn, uuid)
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
            "explanation_revision": explanation_revision,
            "card_revision": self._card_loader.revision()["revision"],
            "learner": learner,
            "revision": published.revision if published else 0,
            "session": self._session(),
        }

    def published_operation(self) -> str | None:
        """The id of the operation whose result is published; None if nothing is published."""
        with self._database.read() as conn:
            published = checkpoint_results.load_publication(conn, self._card_loader.current().identity.uuid)
        return published.operation_id if published else None

    def switch_off(
        self,
        tx: Connection,
        operation_id: str | None,
        reason: str,
        *,
        actor: str = "backend",
        replacing: str | None = None,
    ) -> bool:
        """Switch SYNC off in the write transaction ``tx``, and append the event.

        Returns False if SYNC is off already for another reason than ``replacing``, or if an operation other than
        ``operation_id`` has published meanwhile.
        """
        identity = self._card_loader.current().identity
        published = checkpoint_results.load_publication(tx, identity.uuid)
        if published is None or published.operation_id != operation_id:
            return False
        at = self._clock()
        if not checkpoint_results.switch_off(tx, identity.uuid, reason, at, replacing=replacing):
            return False
        data = {"reason": reason, "generation": published.generation}
        events.append(tx, kind=events.SYNC_OFF, actor=actor, key=published.key, card=identity, data=data, at=at)
        return True


def stands_at(catalog: Catalog, position: Position, published: Publication) -> bool:
    """Whether SYNC is on and the published snapshot belongs to the position.

    If the focus is on a step or a snapshot, only the selected snapshot belongs to the position. If no snapshot is
    selected, every snapshot of the step belongs to it. If the focus is on a higher level, only the snapshot that a sync
    would activate belongs to the position.
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


def _brief(operation: OperationRecord | None) -> dict[str, Any] | None:
    if operation is None:
        return None
    return {
        "operation_id": operation["operation_id"],
        "generation": operation["generation"],
        "snapshot_ref": operation["snapshot_ref"],
        "state": operation["state"],
        "stage": operation["stage"],
        "code": operation["code"],
        "reason": operation["reason"],
    }


# -- the monitor ---------------------------------------------------------------------------------------------------


class SyncMonitor:
    """Switches SYNC off when the program has left the published snapshot.

    Call ``start`` once. ``stop`` may be called repeatedly.
    """

    def __init__(
        self,
        *,
        card_loader: CardLoader,
        link: SessionLink,
        checkpoints: Checkpoints,
        control: Control,
        database: Database,
        period: float = PERIOD_SECONDS,
    ) -> None:
        self._card_loader = card_loader
        self._link = link
        self._checkpoints = checkpoints
        self._control = control
        self._database = database
        self._period = period
        self._logged = ""
        self._stopping = threading.Event()
        self._woken = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="sync-monitor", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        """Make the monitor check now, because an activation has begun or ended."""
        self._woken.set()

    def stop(self, timeout: float = 5.0) -> None:
        self._stopping.set()
        self.wake()
        if self._thread.is_alive():
            self._thread.join(timeout)

    def check(self) -> str | None:
        """Check once. Returns the reason if SYNC was switched off now, or the new reason why it is off; else None."""
        published = self._published()
        if published is None:
            return None
        reason = self._difference(published) if published.sync == "on" else self._later_end(published)
        if reason is None or self._checkpoints.active() is not None:
            return None  # a running replay moves the program; the monitor checks again when the replay has ended
        with self._control.target_lock, self._database.write() as tx:
            done = self._control.switch_off(tx, published.operation_id, reason, replacing=published.reason)
        return reason if done else None

    def _published(self) -> Publication | None:
        with self._database.read() as conn:
            return checkpoint_results.load_publication(conn, self._card_loader.current().identity.uuid)

    def _difference(self, published: Publication) -> str | None:
        if self._has_other_source(published):
            return "source_changed"
        reason = self._session_difference(published)
        # While a replay runs, the session does not answer. If the source was edited meanwhile, the edit is the reason.
        return "source_changed" if reason and self._has_other_source(published) else reason

    def _has_other_source(self, published: Publication) -> bool:
        return self._card_loader.source_digest() != published.source_sha256

    def _session_difference(self, published: Publication) -> str | None:
        try:
            if self._link.choice().socket != published.socket:
                return "session_changed"
            state = self._link.debugger_state()
        except TooSlow:
            # A session that is only busy is checked again later.
            return "session_paused" if self._link.is_paused() else None
        except SessionUnavailable:
            return "session_lost"
        except CardAppError as error:
            return error.code
        if state["instance"] != published.instance:
            return "session_restarted"
        if state["stop_id"] != published.stop_id:
            return self._checkpoints.left_by or _moved(state)
        return None

    def _later_end(self, published: Publication) -> str | None:
        """``program_exited`` if SYNC is off because the program ran on, and the program has ended since."""
        if published.reason != RAN_ON or self._link.choice().socket != published.socket:
            return None
        state = self._link.debugger_state()
        return EXITED if state["instance"] == published.instance and _moved(state) == EXITED else None

    def _await_move(self) -> None:
        """Wait until the program may have left the published snapshot, for one period at most."""
        published = self._published()
        if published is None or published.sync != "on" or self._checkpoints.active() is not None:
            return
        with suppress(CardAppError):  # the next check finds the reason
            self._link.await_move(published.stop_id, self._period, self._stopping)

    def _loop(self) -> None:
        while True:
            # Cleared before the check, so that an activation that ends during it is checked next.
            self._woken.clear()
            if self._stopping.is_set():
                return
            begun = time.monotonic()
            try:
                self._await_move()
                self.check()
                self._logged = ""
            except CardAppError as error:
                if error.detail != self._logged:  # the same error may occur twice a second
                    _log.warning("SYNC cannot be checked: %s", error.detail)
                self._logged = error.detail
            except Exception:
                # The thread must continue, because otherwise SYNC would stay on forever.
                _log.exception("internal error in the monitor of SYNC")
            self._woken.wait(max(0.0, self._period - (time.monotonic() - begun)))


def _moved(state: DebuggerState) -> str:
    """The reason why the program is no longer at the published stop."""
    if not state["alive"]:
        return "debugger_lost"
    if state["state"] == "none":
        return EXITED if state["reason"] is not None else "target_reset"  # only a killed program has a reason
    return EXITED if state["state"] == "exited" else RAN_ON
