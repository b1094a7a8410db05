"""Runs the program from its start, or from ``main``, to the stop of a replay, and reports where it has stopped.

The run ends only at the stop's breakpoint. The learner's breakpoints are disabled during the run, and signals that do
not crash the program are passed on to it. The stop's breakpoint is internal to gdb, so the editor's debugger window
does not show it and gdb prints no message for ignored hits.

gdb runs the program in the background (``run &``), so it can handle other requests meanwhile. Each stop and the end of
the program are passed to :meth:`Rerun.advance`.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gdb

CRASHES = {"SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGABRT", "SIGSYS", "SIGTRAP"}


class Failure(Exception):
    """A request failed. ``code`` is stable; ``data`` holds further members of the reply."""

    def __init__(self, code: str, reason: str, **data: Any) -> None:
        super().__init__(reason)
        self.code = code
        self.data = data


@dataclass(frozen=True)
class Ended:
    """The program ended, in gdb's first process or in a checkpoint. ``exit_code`` is None if a signal ended it."""

    exit_code: int | None


class Rerun:
    """Runs the program until it reaches ``stop`` (``{file, line}`` or ``{function}``) for the ``hits``-th time.

    ``done`` is called once, with the place ``{file, line, function}`` or an exception. The codes of a :class:`Failure`
    are ``stop_not_reached`` (no code at the stop), ``target_exited``, ``target_crashed`` and ``interrupted``.
    Use it in gdb's main thread only.
    """

    def __init__(self, stop: dict[str, Any], hits: int, done: Callable[[dict[str, Any] | Exception], None]) -> None:
        self._stop = stop
        self._hits = hits
        self._done = done
        self._hits_before = 0
        self._breakpoint: gdb.Breakpoint | None = None
        self._main: gdb.Breakpoint | None = None
        self._at_main: Callable[[], None] | None = None
        self._disabled: list[gdb.Breakpoint] = []
        self.interrupted = False
        self.over = False

    def start(self, at_main: Callable[[], None] | None) -> None:
        """Set the breakpoint and start the program. ``at_main`` is called when the program enters ``main``."""
        try:
            self._breakpoint = self._set_breakpoint()
            self._breakpoint.ignore_count = self._hits - 1
            self._disable_others()
            if at_main is not None:
                self._at_main, self._main = at_main, gdb.Breakpoint(function="main", internal=True)
                self._main.silent = True  # do not print this stop in the debugger window
            gdb.execute("run &", to_string=True)
        except Exception as error:
            self.finish(error)

    def start_at_main(self) -> None:
        """Set the breakpoint and continue a program that has just entered ``main``.

        If this fails, the method raises the error and does not call ``done``.
        """
        try:
            self._start_at_main()
        except Exception:
            self._clean_up()
            raise

    def _start_at_main(self) -> None:
        self._breakpoint = self._set_breakpoint()
        addresses = [location.address for location in self._breakpoint.locations]
        if any(gdb.solib_name(address) is not None for address in addresses):
            raise gdb.error("the stop is in a library, which may have reached it before main")
        self._disable_others()
        self._hits_before = int(gdb.newest_frame().pc() in addresses)
        if self._hits_before == self._hits:
            self.finish(place_of(gdb.newest_frame()))
            return
        self._breakpoint.ignore_count = self._hits - self._hits_before - 1
        gdb.execute("continue &", to_string=True)

    def advance(self, event: gdb.Event | Ended) -> None:
        """Handle a stop or the end of the program: finish the run or continue it."""
        if self.over:
            return
        try:
            if self._main is not None and self._main.hit_count:
                self._enter_main()
            if self._is_at_stop(event):
                self.finish(place_of(gdb.newest_frame()))
            else:
                gdb.execute("continue &", to_string=True)
        except Exception as error:
            self.finish(error)

    def finish(self, outcome: dict[str, Any] | Exception) -> None:
        """Remove the breakpoints of the run, enable the learner's, and call ``done`` with ``outcome``."""
        if self.over:
            return
        self._clean_up()
        # gdb printed the stop after its prompt, so print the prompt again below.
        gdb.write(gdb.parameter("prompt"))
        gdb.flush()
        self._done(outcome)

    def _clean_up(self) -> None:
        self.over = True
        for breakpoint in self._disabled:
            # gdb refuses to enable a watchpoint whose scope has ended, and prints a message.
            with contextlib.suppress(gdb.error, RuntimeError):
                breakpoint.enabled = True
        for breakpoint in (self._breakpoint, self._main):
            if breakpoint is not None and breakpoint.is_valid():
                breakpoint.delete()

    # -- breakpoints -------------------------------------------------------------------------------------------------

    def _set_breakpoint(self) -> gdb.Breakpoint:
        if "function" in self._stop:
            where = f"function {self._stop['function']}"
            found = gdb.Breakpoint(function=self._stop["function"], internal=True)
        else:
            where = f"{self._stop['file']}:{self._stop['line']}"
            found = gdb.Breakpoint(source=self._stop["file"], line=self._stop["line"], internal=True)
        if found.pending:
            found.delete()
            raise Failure("stop_not_reached", f"the program has no code at {where}", reached=0)
        return found

    def _disable_others(self) -> None:
        for breakpoint in gdb.breakpoints():
            if breakpoint.enabled and breakpoint.number > 0:  # internal ones have negative numbers
                breakpoint.enabled = False
                self._disabled.append(breakpoint)

    def _enter_main(self) -> None:
        assert self._main is not None
        assert self._at_main is not None
        self._main.delete()
        self._main = None
        self._at_main()

    # -- classifying stops -------------------------------------------------------------------------------------------

    def _is_at_stop(self, event: gdb.Event | Ended) -> bool:
        """Whether the program has reached the stop. Raises :class:`Failure` if it cannot reach it any more."""
        if isinstance(event, Ended):
            raise self._failure(event)
        if self._reached() >= self._hits:
            return True
        if self.interrupted:
            place = current_place()
            raise Failure("interrupted", "the program was interrupted", reached=self._reached(), place=place)
        if isinstance(event, gdb.SignalEvent) and event.stop_signal in CRASHES:
            name = event.stop_signal
            raise Failure("target_crashed", f"the program received {name}", signal=name, place=current_place())
        return False

    def _failure(self, end: Ended) -> Failure:
        reached = self._reached()
        if self.interrupted:
            return Failure("interrupted", "the program was interrupted", reached=reached, place=None)
        if end.exit_code is not None:
            return Failure("target_exited", "the program exited", exit_code=end.exit_code, reached=reached)
        return Failure("target_crashed", "a signal ended the program", signal=exit_signal(), place=None)

    def _reached(self) -> int:
        """How many times the program has reached the stop."""
        valid = self._breakpoint is not None and self._breakpoint.is_valid()
        return self._hits_before + (int(self._breakpoint.hit_count) if self._breakpoint is not None and valid else 0)


# -- where the program is stopped ------------------------------------------------------------------------------------


def frame_with_source() -> gdb.Frame | None:
    """The innermost frame with a source line, so library frames are skipped; the newest frame if none has a line."""
    frame = gdb.newest_frame()
    newest = frame
    while frame is not None:
        if frame.find_sal().symtab is not None:
            return frame
        frame = frame.older()
    return newest


def place_of(frame: gdb.Frame | None) -> dict[str, Any]:
    """``{file, line, function}`` of a frame; a value that gdb does not know is None."""
    if frame is None:
        return {"file": None, "line": None, "function": None}
    position = frame.find_sal()
    name = frame.name()
    if position.symtab is None:
        return {"file": None, "line": None, "function": name}
    return {"file": position.symtab.fullname(), "line": position.line, "function": name}


def current_place() -> dict[str, Any] | None:
    """``{file, line, function, inside}`` of the stopped program; None if gdb does not know the place.

    ``inside`` is the library function that the program executes; None if it executes its own code.
    """
    try:
        found = place_of(frame_with_source())
        newest = gdb.newest_frame().name()
    except gdb.error:
        return None
    return found | {"inside": newest if newest != found["function"] else None}


def exit_signal() -> str:
    """The name of the signal that ended the program."""
    number = gdb.convenience_variable("_exitsignal")
    if number is None:
        return "a signal"
    try:
        return signal.Signals(int(number)).name
    except ValueError:
        return f"signal {int(number)}"
