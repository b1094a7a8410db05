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

from cardapp.errors import CardAppError, Conflict, EditorUnavailable, TooSlow
from cardapp.mcp.tool import CallContext, ToolFailure
from cardapp.session_host.gdb_client import Cancelled, ChannelError, DebuggerGone, PendingReply
from cardapp.session_host.session import POLL, EditorBusy, Session
from cardapp.session_host.workspace import BuildCancelled, BuildFailed, Workspace

STAGES = ("resetting", "replaying", "verifying")
INTERRUPT_TIMEOUT = 1.0
FOLLOW_TIMEOUT = 2.0
READ_TIMEOUT = 10.0
KILL_TIMEOUT = 3.0


@dataclass
class Replay:
    """One replay within ``timeout`` seconds. A ``fresh`` replay starts the program again and uses no checkpoint."""

    session: Session
    context: CallContext
    stop: dict[str, Any]
    expressions: list[str]
    allocator: dict[str, Any] | None
    timeout: float
    fresh: bool
    timings: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._deadline = time.monotonic() + self.timeout
        self._pause = threading.Event()

    def replay(self) -> dict[str, Any]:
        """Replay the snapshot. Returns ``{file, line, function, method, fresh, fallbacks, values, allocator,
        allocator_error, stop_id, timings_ms}``.

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
        except BuildFailed as error:
            raise ToolFailure("build_failed", error.detail) from error
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
        self._stage(1)
        with self._timed("build"):
            self._check_drift(workspace)
            if workspace.is_stale():
                workspace.build(min(self._left(), self.session.profile.build_timeout), self._turn)
        with self._timed("reset"):
            self._reset()
        self._stage(2)
        with self._timed("run"):
            place = self._reach_stop()
        self._stage(3)
        with self._timed("read"):
            read = self.session.gdb.call(
                "read", timeout=READ_TIMEOUT, expressions=self.expressions, allocator=self.allocator
            )
        with self._timed("show"):
            self._show(place)
        self._check_cancelled()
        self._take_checkpoint()
        timings = {name: round(seconds * 1000, 1) for name, seconds in self.timings.items()}
        return {**self._relative(place), **read, "timings_ms": timings}

    # -- before the stop ---------------------------------------------------------------------------------------------

    def _workspace(self) -> Workspace:
        try:
            return self.session.workspace()
        except (OSError, ValueError) as error:
            raise ToolFailure("card_unreadable", f"the card's source cannot be read: {error}") from error

    def _check_drift(self, workspace: Workspace) -> None:
        """Check that the line of the stop still contains the text that the card names."""
        if "function" in self.stop:
            return
        name, number, text = self.stop["file"], self.stop["line"], self.stop["text"]
        path = (workspace.directory / name).resolve()
        if not path.is_relative_to(workspace.directory):
            raise ToolFailure("bad_recipe", f"{name} is outside the target's directory")
        try:
            lines = path.read_text("utf-8", "replace").splitlines()
        except OSError as error:
            raise ToolFailure("source_drift", f"{name} cannot be read: {error.strerror}", found=None) from error
        found = lines[number - 1] if number <= len(lines) else None
        if found is None or text not in found:
            now = "the file is shorter" if found is None else f"it now reads {found.strip()!r}"
            raise ToolFailure(
                "source_drift",
                f"line {number} of {name} should hold {text!r}, but {now}; undo the edit, or fetch the card's sources "
                "again with bin/card-session refresh",
                found=found,
            )

    def _reset(self) -> None:
        self.session.bring_up()
        if not self.session.editor.free():
            raise EditorBusy("Neovim waits for a key that only you can decide on; press Escape there")
        self._check_cancelled()
        self._leave_program()
        self.session.load()
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
        """Have gdb bring the program to the stop. Returns ``{file, line, function, method, fresh, fallbacks}``."""
        with self.session.gdb.begin("replay", fresh=self.fresh, **self._stop) as pending:
            try:
                place: dict[str, Any] = pending.result(self._left(), self._turn)
                return place
            except Cancelled:
                self._interrupt(pending)
                raise
            except TooSlow:
                self._fail_late(self._interrupt(pending))
            except ChannelError as error:
                self._fail(error)

    @property
    def _stop(self) -> dict[str, Any]:
        """The stop as the arguments of the channel's operations."""
        place = {key: self.stop[key] for key in ("file", "line", "function") if key in self.stop}
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

    def _fail_late(self, known: dict[str, Any]) -> NoReturn:
        place, reached = known.get("place"), known.get("reached", 0)
        raise ToolFailure(
            "replay_timeout",
            f"the program did not reach the stop within {self.timeout:g} s: it was at the stop {reached} of "
            f"{self.stop.get('hits', 1)} times, and was last {self._position(place)}",
            reached=reached,
            place=place and self._relative(place),
        )

    def _fail(self, error: ChannelError) -> NoReturn:
        extra, place = error.extra, error.extra.get("place")
        if error.code == "target_exited":
            exited = f"the program exited with code {extra['exit_code']}"
            reason = f"{exited}; it was at the stop {extra['reached']} of {self.stop.get('hits', 1)} times"
            raise ToolFailure("target_exited", reason, **extra) from error
        if error.code == "target_crashed":
            raise ToolFailure(
                "target_crashed",
                f"the program crashed with {extra['signal']} before the stop: it was {self._position(place)}",
                signal=extra["signal"],
                place=place and self._relative(place),
            ) from error
        raise ToolFailure(error.code, error.detail, **extra) from error

    def _position(self, place: dict[str, Any] | None) -> str:
        if place is None or place["function"] is None:
            return "at a place unknown to gdb"
        inside = f", inside {place['inside']}" if place.get("inside") else ""
        at = f" at {self._relative(place)['file']}:{place['line']}" if place["file"] else ""
        return f"in {place['function']}{at}{inside}"

    # -- at the stop -------------------------------------------------------------------------------------------------

    def _show(self, place: dict[str, Any]) -> None:
        """Wait until termdebug has put the PC sign and the cursor at ``place``; if it does not, put them there.

        When a checkpoint is restarted, gdb reports no stop to termdebug.
        """
        if place["file"] is None:
            return
        editor, file, line = self.session.editor, place["file"], place["line"]
        if place["method"] == "fork":
            editor.call("show", file, line)
        begun = time.monotonic()
        helped = False
        while not editor.call("shows", file, line):
            waited = time.monotonic() - begun
            if waited > FOLLOW_TIMEOUT:
                raise EditorBusy(f"Neovim does not show {self._relative(place)['file']}:{line}; reset the session")
            if waited > FOLLOW_TIMEOUT / 4 and not helped:
                helped = True
                place["fallbacks"].append("late_pc_sign")
                editor.free()
                editor.call("show", file, line)
            self._pause.wait(POLL)
            self._check_cancelled()

    def _relative(self, place: dict[str, Any]) -> dict[str, Any]:
        return relative_place(place, self.session)

    def _take_checkpoint(self) -> None:
        """Have gdb take the checkpoint for the next replay, without waiting for its reply."""
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
        """Raise the failure for a gdb that ended. It runs inside Neovim, so Neovim may be the one that ended."""
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


def relative_place(place: dict[str, Any], session: Session) -> dict[str, Any]:
    """``place`` with its file relative to the target's directory, if the file is in it."""
    file, directory = place["file"], session.record.source_directory
    if file is not None and Path(file).is_relative_to(directory):
        file = os.path.relpath(file, directory)
    return place | {"file": file}
