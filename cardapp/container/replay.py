"""A checkpoint replay: from nothing to the program standing at the stop, its values read, the editor showing it."""

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

from cardapp.container.build import BuildCancelled, BuildFailed, Workspace
from cardapp.container.debugger import Cancelled, ChannelError, DebuggerGone, Pending
from cardapp.container.session import POLL, EditorBusy, Session
from cardapp.errors import Conflict, DebuggerFailed, EditorUnavailable, TooSlow
from cardapp.mcp.tools import CallContext, ToolFailure

STAGES = ("resetting", "replaying", "verifying")
INTERRUPT_TIMEOUT = 1.0
FOLLOW_TIMEOUT = 2.0
READ_TIMEOUT = 10.0
KILL_TIMEOUT = 3.0


@dataclass
class Replay:
    """One replay within ``timeout`` seconds.

    Every way it can fail is a :class:`ToolFailure`; the session stays usable.
    """

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

    def perform(self) -> dict[str, Any]:
        """``{file, line, function, method, values, allocator, allocator_error, stop_id, timings_ms}``."""
        try:
            with self.session.turn(self._left(), self.context.cancelled) as self._turn:
                return self._perform()
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
            raise ToolFailure("replay_timeout", f"no replay within {self.timeout:g} s: {error.detail}") from error
        except DebuggerGone as error:
            self._blame_the_dead(error)
        except DebuggerFailed as error:
            raise ToolFailure(error.code, error.detail, **error.extra) from error

    def _perform(self) -> dict[str, Any]:
        place = self._place()
        self._stage(1)
        with self._timed("build"):
            self._check_drift(place)
            if place.is_stale():
                place.build(min(self._left(), self.session.profile.build_timeout), self._turn)
        with self._timed("reset"):
            self._reset()
        self._stage(2)
        with self._timed("run"):
            stood = self._run(place)
        self._stage(3)
        with self._timed("read"):
            read = self.session.gdb.call(
                "read", timeout=READ_TIMEOUT, expressions=self.expressions, allocator=self.allocator
            )
        with self._timed("show"):
            self._show(stood)
        self._check_cancelled()
        self._settle()
        timings = {name: round(seconds * 1000, 1) for name, seconds in self.timings.items()}
        return {**self._relative(stood), **read, "timings_ms": timings}

    # -- before the run ----------------------------------------------------------------------------------------------

    def _place(self) -> Workspace:
        try:
            return self.session.workspace()
        except (OSError, ValueError) as error:
            raise ToolFailure("card_unreadable", f"the card's source cannot be read: {error}") from error

    def _check_drift(self, place: Workspace) -> None:
        """The stop's line must still hold the text that the card saw there."""
        if "function" in self.stop:
            return
        name, number, text = self.stop["file"], self.stop["line"], self.stop["text"]
        path = (place.directory / name).resolve()
        if not path.is_relative_to(place.directory):
            raise ToolFailure("bad_recipe", f"{name} leads out of the target's directory")
        try:
            lines = path.read_text("utf-8", "replace").splitlines()
        except OSError as error:
            raise ToolFailure("source_drift", f"{name} cannot be read: {error.strerror}", found=None) from error
        found = lines[number - 1] if number <= len(lines) else None
        if found is None or text not in found:
            now = "the file ends before it" if found is None else f"it reads {found.strip()!r} now"
            raise ToolFailure(
                "source_drift",
                f"line {number} of {name} should hold {text!r}, {now}; undo the edit, or fetch the card's sources anew "
                "with bin/card-session refresh",
                found=found,
            )

    def _reset(self) -> None:
        self.session.bring_up()
        if not self.session.editor.free():
            raise EditorBusy("Neovim waits for a key that cannot be answered for you; press Escape there")
        self._check_cancelled()
        self._leave()
        self.session.load()
        self._check_cancelled()

    def _leave(self) -> None:
        """End the program, unless the next visit may go on from a copy of it."""
        gdb, editor = self.session.gdb, self.session.editor
        if not self.fresh and gdb.call("leave", timeout=READ_TIMEOUT, shown=editor.call("output"), **self._where):
            editor.call("clear")
        else:
            end_program(self.session)

    # -- the run -----------------------------------------------------------------------------------------------------

    def _run(self, place: Workspace) -> dict[str, Any]:
        hits = self._where["hits"]
        with self.session.gdb.begin("run", fresh=self.fresh, **self._where) as run:
            try:
                stood: dict[str, Any] = run.result(self._left(), self._turn)
                return stood
            except Cancelled:
                self._interrupt(run)
                raise
            except TooSlow:
                self._timed_out(self._interrupt(run))
            except ChannelError as error:
                self._failed(error, hits)

    @property
    def _where(self) -> dict[str, Any]:
        place = {key: self.stop[key] for key in ("file", "line", "function") if key in self.stop}
        return {"stop": place, "hits": self.stop.get("hits", 1)}

    def _interrupt(self, run: Pending) -> dict[str, Any]:
        """End the run: asked, then forced, at last with gdb itself. Answers what is known of where it was."""
        for hard in (False, True, True):
            self.session.gdb.call("interrupt", timeout=INTERRUPT_TIMEOUT, hard=hard)
            try:
                run.result(INTERRUPT_TIMEOUT)
            except TooSlow:
                continue
            except ChannelError as error:
                known = error.extra
            else:
                known = {}  # it reached the stop at the last moment
            end_program(self.session)
            return known
        self.session.bring_up(force=True)
        return {}

    def _timed_out(self, known: dict[str, Any]) -> NoReturn:
        place, reached = known.get("place"), known.get("reached", 0)
        raise ToolFailure(
            "replay_timeout",
            f"the program did not come to the stop within {self.timeout:g} s: it was there {reached} of "
            f"{self.stop.get('hits', 1)} times and {self._standing(place)}",
            reached=reached,
            place=place and self._relative(place),
        )

    def _failed(self, error: ChannelError, hits: int) -> NoReturn:
        extra, place = error.extra, error.extra.get("place")
        if error.code == "target_exited":
            ended = f"the program ended with exit code {extra['exit_code']}"
            reason = f"{ended}; it was at the stop {extra['reached']} of {hits} times"
            raise ToolFailure("target_exited", reason, **extra) from error
        if error.code == "target_crashed":
            raise ToolFailure(
                "target_crashed",
                f"the program crashed before the stop with {extra['signal']}: it {self._standing(place)}",
                signal=extra["signal"],
                place=place and self._relative(place),
            ) from error
        raise ToolFailure(error.code, error.detail, **extra) from error

    def _standing(self, place: dict[str, Any] | None) -> str:
        if place is None or place["function"] is None:
            return "stood nowhere that gdb can name"
        inside = f", inside {place['inside']}" if place.get("inside") else ""
        at = f" at {self._relative(place)['file']}:{place['line']}" if place["file"] else ""
        return f"stood in {place['function']}{at}{inside}"

    # -- after the run -----------------------------------------------------------------------------------------------

    def _show(self, stood: dict[str, Any]) -> None:
        """Wait for termdebug to put the PC sign and the cursor there; do it ourselves where it does not. It never hears
        of a program that stands there by a copy."""
        if stood["file"] is None:
            return
        editor, file, line = self.session.editor, stood["file"], stood["line"]
        if stood["method"] == "fork":
            editor.call("show", file, line)
        begun = time.monotonic()
        helped = False
        while not editor.call("shows", file, line):
            waited = time.monotonic() - begun
            if waited > FOLLOW_TIMEOUT:
                raise EditorBusy(f"Neovim does not show {self._relative(stood)['file']}:{line}; reset the session")
            if waited > FOLLOW_TIMEOUT / 4 and not helped:
                helped = True
                editor.free()
                editor.call("show", file, line)
            self._pause.wait(POLL)
            self._check_cancelled()

    def _relative(self, place: dict[str, Any]) -> dict[str, Any]:
        return relative_place(place, self.session)

    def _settle(self) -> None:
        """Have gdb take the copy for the next visit. Nobody waits for it: what is asked next comes after it."""
        with contextlib.suppress(DebuggerGone), self.session.gdb.begin("settle"):
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

    def _blame_the_dead(self, error: DebuggerGone) -> NoReturn:
        """gdb lives in Neovim: when both are gone it was Neovim that ended."""
        if not self.session.editor.alive():
            why = "Neovim ended, and gdb with it; the next replay or reset starts it"
            raise ToolFailure("editor_dead", why) from error
        raise ToolFailure("debugger_dead", f"{error.detail}; the next replay or reset starts it anew") from error

    @contextmanager
    def _timed(self, name: str) -> Iterator[None]:
        begun = time.monotonic()
        try:
            yield
        finally:
            self.timings[name] = time.monotonic() - begun


def end_program(session: Session) -> None:
    """No program under gdb, no PC sign. One that runs on, as the learner said continue, is ended by force first."""
    try:
        session.gdb.call("kill", timeout=KILL_TIMEOUT)
    except (ChannelError, TooSlow):
        session.gdb.call("interrupt", timeout=INTERRUPT_TIMEOUT, hard=True)
        session.await_program_end(KILL_TIMEOUT)
        session.gdb.call("kill", timeout=KILL_TIMEOUT)
    session.editor.call("clear")


def relative_place(place: dict[str, Any], session: Session) -> dict[str, Any]:
    """``place`` with its file relative to the target's directory, where it lies in there."""
    file, directory = place["file"], session.record.source_directory
    if file is not None and Path(file).is_relative_to(directory):
        file = os.path.relpath(file, directory)
    return place | {"file": file}
