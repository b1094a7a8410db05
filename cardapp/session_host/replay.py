"""Replays a snapshot: builds the program, brings it to the stop, reads its values, shows the stop in the editor."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from cardapp.card.model import Run
from cardapp.card.source import source_lines
from cardapp.errors import CardAppError, Conflict, EditorUnavailable, InvalidCard, TooSlow
from cardapp.mcp.tool import CallContext, ToolFailure
from cardapp.session_host.gdb_client import Cancellation, Cancelled, ChannelError, DebuggerGone, PendingReply
from cardapp.session_host.replay_failures import StopFailures, build_failure, drift_failure
from cardapp.session_host.session import POLL, EditorBusy, Session
from cardapp.session_host.workspace import BuildCancelled, BuildFailed, Workspace

STAGES = ("building", "resetting", "replaying", "verifying")
INTERRUPT_TIMEOUT = 1.0
FOLLOW_TIMEOUT = 2.0
READ_TIMEOUT = 10.0
KILL_TIMEOUT = 3.0
BUILDING_PERIOD = 1.0  # seconds between two messages that the build still runs


class _Building:
    """The cancellation that is passed to a build. Because the build checks it often, it also reports to the caller,
    about once a second, that the build still runs."""

    def __init__(self, cancellation: Cancellation, context: CallContext) -> None:
        self._cancellation, self._context = cancellation, context
        self._begun = self._told = time.monotonic()

    def is_set(self) -> bool:
        now = time.monotonic()
        if now - self._told >= BUILDING_PERIOD:
            self._told = now
            # The number must grow with each message and stay below that of the next stage.
            self._context.progress(2 - BUILDING_PERIOD / (now - self._begun + BUILDING_PERIOD), len(STAGES), STAGES[0])
        return self._cancellation.is_set()


@dataclass
class Replay:
    """One replay. After the build it may take ``timeout`` seconds, or less if the card's ``run`` has a lower limit.

    A ``fresh`` replay starts the program again and uses no checkpoint. A ``varied`` one does so, too, with another
    address layout, order of threads and content of memory that was not initialised.
    """

    session: Session
    context: CallContext
    stop: dict[str, Any]
    run: str | None
    expressions: list[str]
    formats: dict[str, str]
    allocator: dict[str, Any] | None
    timeout: float
    fresh: bool
    varied: bool
    timings: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._deadline = time.monotonic() + self.timeout
        self._pause = threading.Event()
        self._failures = StopFailures(self.session, self.stop)

    def replay(self) -> dict[str, Any]:
        """Replay the snapshot. Returns ``{file, line, function, inside, signal, method, fresh, fallbacks, values,
        allocator, allocator_error, stop_id, timings_ms}``, and for a varied one ``held``.

        :raises ToolFailure: the replay failed, was cancelled or took too long. The session stays usable.
        """
        watch = self.session.watch
        if watch is None:
            return self._within_turn()
        before = watch.reached()
        try:
            return self._within_turn()
        except ToolFailure as failure:
            reason = watch.reason(before, failure.data.get("signal"))
            if reason is None or failure.code == "cancelled":
                raise
            raise ToolFailure(failure.code, f"{failure.reason}; {reason}", **failure.data) from failure

    def _within_turn(self) -> dict[str, Any]:
        try:
            with self.session.turn(self._left(), self.context.cancelled) as self._turn:
                return self._replay()
        except (Cancelled, BuildCancelled):
            raise self._cancelled() from None
        except (EditorBusy, Conflict) as error:
            raise ToolFailure("editor_blocked", error.detail) from error
        except EditorUnavailable as error:
            raise ToolFailure("editor_dead", error.detail) from error
        except TooSlow as error:
            if self.context.cancelled.is_set():
                raise self._cancelled() from None
            raise ToolFailure("replay_timeout", f"the replay took over {self.timeout:g} s: {error.detail}") from error
        except DebuggerGone as error:
            self._fail_without_gdb(error)
        except CardAppError as error:
            raise ToolFailure(error.code, error.detail, **error.extra) from error

    def _replay(self) -> dict[str, Any]:
        workspace = self._workspace()
        run = self._run(workspace)
        self._stage(1)
        with self._timed("build"):
            self._file = self._checked_file(workspace)
            self._build(workspace)
        self._check_input(workspace, run)
        if run.timeout is not None:
            self.timeout = min(self.timeout, run.timeout)
        self._deadline = time.monotonic() + self.timeout
        self._stage(2)
        with self._timed("reset"):
            self._reset()
        self._stage(3)
        with self._timed("run"):
            place = self._reach_stop()
        self._stage(4)
        with self._timed("read"):
            read = self._read()
        placed = place.pop("placed")
        if placed is not None:
            read["causes"].append(placed)
        with self._timed("show"):
            self._show(place)
        self._check_cancelled()
        if self.varied and place["signal"] is None:  # gdb would pass the signal on
            read["held"] = self._read_after_other_threads()
        self._take_checkpoint()
        timings = {name: round(seconds * 1000, 1) for name, seconds in self.timings.items()}
        return {**self.session.relative(place), **read, "timings_ms": timings}

    def _read(self) -> dict[str, Any]:
        asked = {"expressions": self.expressions, "formats": self.formats, "allocator": self.allocator}
        read: dict[str, Any] = self.session.gdb.call("read", timeout=READ_TIMEOUT, **asked)
        return read

    def _read_after_other_threads(self) -> dict[str, Any] | None:
        """The values after the other threads have gone on, while the thread at the stop was held. None: there is no
        other thread, or gdb cannot hold one."""
        try:
            held = self.session.gdb.call("hold", timeout=READ_TIMEOUT)["held"]
        except ChannelError as error:
            if error.code not in ("target_exited", "target_crashed"):
                return None
            return {expression: {"value": None, "error": error.detail} for expression in self.expressions}
        return self._read()["values"] if held else None

    # -- before the stop ---------------------------------------------------------------------------------------------

    def _workspace(self) -> Workspace:
        try:
            return self.session.workspace()
        except (OSError, InvalidCard) as error:
            raise ToolFailure("card_unreadable", f"the card's source cannot be read: {error}") from error

    def _run(self, workspace: Workspace) -> Run:
        try:
            return workspace.target.run_named(self.run)
        except KeyError:
            known = ", ".join(name for name, _ in workspace.target.runs) or "there are none"
            raise ToolFailure("unknown_run", f"{self.run!r} is not one of target.runs ({known})") from None

    @staticmethod
    def _check_input(workspace: Workspace, run: Run) -> None:
        """Check the file of the program's standard input after the build, which may make it."""
        if run.stdin is not None and not (workspace.directory / run.stdin).is_file():
            raise ToolFailure("no_input", f"stdin names {run.stdin}, which is no file in {workspace.directory}")

    def _checked_file(self, workspace: Workspace) -> str | None:
        """The path of the stop's file in the session's copy; None if the stop names none.

        The line of the stop must still contain the text that the card names.
        """
        if "file" not in self.stop:
            return None
        path = (workspace.directory / self.stop["file"]).resolve()
        if not path.is_relative_to(workspace.directory):
            raise ToolFailure("bad_recipe", f"{self.stop['file']} is outside the target's directory")
        if "line" in self.stop:
            self._check_drift(path)
        return str(path)

    def _check_drift(self, path: Path) -> None:
        failure = drift_failure(self.stop, source_lines(path.parent, [path.name]).get(path.name))
        if failure is not None:
            raise failure

    def _build(self, workspace: Workspace) -> None:
        """Build the program if a file of it was edited."""
        if workspace.is_stale():
            try:
                workspace.build(self.session.build_timeout(workspace.target), _Building(self._turn, self.context))
            except BuildFailed as error:
                raise build_failure(error, workspace) from error

    def _reset(self) -> None:
        self.session.bring_up()
        if not self.session.editor.free():
            raise EditorBusy("Neovim waits for a key that only you can decide on; press Escape there")
        self._check_cancelled()
        self._leave_program()
        self.session.load(self.run, varied=self.varied)
        self._check_cancelled()

    def _leave_program(self) -> None:
        """End the program, unless this replay can restart a checkpoint of it."""
        gdb, editor = self.session.gdb, self.session.editor
        if not self.fresh and gdb.call("prepare", timeout=READ_TIMEOUT, screen=editor.call("output"), **self._stop):
            editor.call("clear")
        else:
            end_program(self.session)

    # -- reaching the stop -------------------------------------------------------------------------------------------

    def _reach_stop(self) -> dict[str, Any]:
        """Make gdb bring the program to the stop. Returns the place, the signal, and how the stop was reached."""
        with self.session.gdb.begin("replay", fresh=self.fresh, varied=self.varied, **self._stop) as pending:
            try:
                place: dict[str, Any] = pending.result(self._left(), self._turn)
                return place
            except Cancelled:
                self._interrupt(pending)
                raise
            except TooSlow:
                raise self._failures.late(self._interrupt(pending), self.timeout) from None
            except ChannelError as error:
                raise self._failures.of(error) from error

    @property
    def _stop(self) -> dict[str, Any]:
        """The stop as the arguments of the channel's operations."""
        place: dict[str, Any] = {
            key: self.stop[key] for key in ("line", "function", "signal", "if") if key in self.stop
        }
        place |= {} if self._file is None else {"file": self._file}
        return {"stop": place, "hits": self.stop.get("hits", 1)}

    def _interrupt(self, pending: PendingReply) -> dict[str, Any]:
        """Stop the program with SIGINT; if that fails, kill it; if that fails too, restart gdb.

        Returns what gdb reports about the program's progress: ``{reached, place}``, or nothing.
        """
        for hard in (False, True, True):
            self.session.gdb.call("interrupt", timeout=INTERRUPT_TIMEOUT, hard=hard)
            try:
                pending.result(INTERRUPT_TIMEOUT)
            except TooSlow:
                continue
            except ChannelError as error:
                known = error.extra
            else:
                known = {}  # the program has just reached the stop
            end_program(self.session)
            return known
        self.session.bring_up(force=True)
        return {}

    # -- at the stop -------------------------------------------------------------------------------------------------

    def _show(self, place: dict[str, Any]) -> None:
        """Wait until termdebug has put the PC sign and the cursor at ``place``; if it does not, put them there.

        When a checkpoint is restarted, gdb reports no stop to termdebug. If the program executes code without source,
        gdb reports a place without a file.
        """
        if place["file"] is None or not os.path.exists(place["file"]):
            return
        editor, file, line = self.session.editor, place["file"], place["line"]
        if place["method"] == "fork" or place["inside"] is not None:
            editor.call("show", file, line)
        begun = time.monotonic()
        helped = False
        while not editor.call("shows", file, line):
            waited = time.monotonic() - begun
            if waited > FOLLOW_TIMEOUT:
                raise EditorBusy(
                    f"Neovim does not show {self.session.relative(place)['file']}:{line}; reset the session"
                )
            if waited > FOLLOW_TIMEOUT / 4 and not helped:
                helped = True
                place["fallbacks"].append("late_pc_sign")
                editor.free()
                editor.call("show", file, line)
            self._pause.wait(POLL)
            self._check_cancelled()

    def _take_checkpoint(self) -> None:
        """Make gdb take the checkpoint for the next replay. Does not wait for the reply."""
        with contextlib.suppress(DebuggerGone), self.session.gdb.begin("checkpoint"):
            pass

    # -- bookkeeping -------------------------------------------------------------------------------------------------

    def _left(self) -> float:
        return max(0.0, self._deadline - time.monotonic())

    def _stage(self, number: int) -> None:
        self._check_cancelled()
        self.context.progress(number, len(STAGES), STAGES[number - 1])

    def _check_cancelled(self) -> None:
        if self._turn.is_set():
            raise Cancelled("the replay was cancelled")

    @staticmethod
    def _cancelled() -> ToolFailure:
        return ToolFailure("cancelled", "the replay was cancelled; the program is not at a snapshot")

    def _fail_without_gdb(self, error: DebuggerGone) -> NoReturn:
        """Raise the failure for a gdb that ended. gdb runs inside Neovim, so perhaps Neovim has ended."""
        if not self.session.editor.alive():
            why = "Neovim ended, and gdb with it; the next replay or reset starts it"
            raise ToolFailure("editor_dead", why) from error
        raise ToolFailure("debugger_dead", f"{error.detail}; the next replay or reset starts it again") from error

    @contextmanager
    def _timed(self, name: str) -> Iterator[None]:
        begun = time.monotonic()
        try:
            yield
        finally:
            self.timings[name] = time.monotonic() - begun


def end_program(session: Session) -> None:
    """End the program under gdb and remove the PC sign.

    gdb cannot end a program while it runs, for example after the learner continued it. Such a program is killed first.
    """
    try:
        session.gdb.call("kill", timeout=KILL_TIMEOUT)
    except (ChannelError, TooSlow):
        session.gdb.call("interrupt", timeout=INTERRUPT_TIMEOUT, hard=True)
        session.await_program_end(KILL_TIMEOUT)
        session.gdb.call("kill", timeout=KILL_TIMEOUT)
    session.editor.call("clear")
