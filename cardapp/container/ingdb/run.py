"""One run of the program, from its start to the replay's stop.

A run must end at its own breakpoint whatever else the learner set up: their breakpoints are disabled meanwhile and
restored after, signals that do not end a program are passed on. The run's own breakpoint is an internal one: the
editor's debugger window never hears of it, and ignored hits cost no message.

The program runs in the background of gdb, which so stays able to answer; every stop and exit leads to
:meth:`Run.advance`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import gdb

from cardapp.container.ingdb.places import exit_signal, here, place_of

CRASHES = {"SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGABRT", "SIGSYS", "SIGTRAP"}


class Failure(Exception):
    """A refusal with its stable ``code``; ``data`` goes beside it into the answer."""

    def __init__(self, code: str, reason: str, **data: Any) -> None:
        super().__init__(reason)
        self.code = code
        self.data = data


class Run:
    """Runs to the ``hits``-th time that ``stop`` (``{file, line}`` or ``{function}``) is reached.

    ``done`` is called once, with the place ``{file, line, function}`` or a :class:`Failure`: ``stop_not_reached`` (no
    code there), ``target_exited``, ``target_crashed``, ``interrupted``. Everything here happens in gdb's thread.
    """

    def __init__(self, stop: dict[str, Any], hits: int, done: Callable[[dict[str, Any] | Exception], None]) -> None:
        self._stop = stop
        self._hits = hits
        self._done = done
        self._breakpoint: gdb.Breakpoint | None = None
        self._resting: list[gdb.Breakpoint] = []
        self.interrupted = False
        self.over = False

    def begin(self) -> None:
        """Set the breakpoint and let the program go."""
        try:
            self._breakpoint = self._placed()
            self._breakpoint.ignore_count = self._hits - 1
            self._rest_others()
            gdb.execute("run &", to_string=True)
        except Exception as error:
            self.finish(error)

    def advance(self, event: gdb.Event) -> None:
        """After a stop or an exit: the end of the run, or on."""
        if self.over:
            return
        try:
            if self._arrived(event):
                self.finish(place_of(gdb.newest_frame()))
            else:
                gdb.execute("continue &", to_string=True)
        except Exception as error:
            self.finish(error)

    def finish(self, outcome: dict[str, Any] | Exception) -> None:
        """Leave nothing of the run behind but the program's state, and say how it ended."""
        if self.over:
            return
        self.over = True
        for breakpoint in self._resting:
            # One that cannot be put back lost its scope with the old run, as gdb itself would say.
            with contextlib.suppress(gdb.error, RuntimeError):
                breakpoint.enabled = True
        if self._breakpoint is not None and self._breakpoint.is_valid():
            self._breakpoint.delete()
        # The stop was printed below a prompt that nobody sees any more.
        gdb.write(gdb.parameter("prompt"))
        gdb.flush()
        self._done(outcome)

    # -- the breakpoint ----------------------------------------------------------------------------------------------

    def _placed(self) -> gdb.Breakpoint:
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

    def _rest_others(self) -> None:
        for breakpoint in gdb.breakpoints():
            if breakpoint.enabled and breakpoint.number > 0:  # gdb lists our own internal ones too
                breakpoint.enabled = False
                self._resting.append(breakpoint)

    # -- what a stop means -------------------------------------------------------------------------------------------

    def _arrived(self, event: gdb.Event) -> bool:
        if isinstance(event, gdb.ExitedEvent):
            raise self._ended(event)
        if self._reached() >= self._hits:
            return True
        if self.interrupted:
            raise Failure("interrupted", "the program was interrupted", reached=self._reached(), place=here())
        if isinstance(event, gdb.SignalEvent) and event.stop_signal in CRASHES:
            name = event.stop_signal
            raise Failure("target_crashed", f"the program got {name}", signal=name, place=here())
        return False

    def _ended(self, event: gdb.ExitedEvent) -> Failure:
        reached = self._reached()
        if self.interrupted:
            return Failure("interrupted", "the program was interrupted", reached=reached, place=None)
        if hasattr(event, "exit_code"):
            return Failure("target_exited", "the program ended", exit_code=event.exit_code, reached=reached)
        return Failure("target_crashed", "the program was killed", signal=exit_signal(), place=None)

    def _reached(self) -> int:
        valid = self._breakpoint is not None and self._breakpoint.is_valid()
        return int(self._breakpoint.hit_count) if self._breakpoint is not None and valid else 0
