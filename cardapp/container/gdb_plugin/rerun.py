"""One run of the program, from its start to the replay's stop.

A run must end at its own breakpoint whatever else the learner set up: their breakpoints are disabled meanwhile and
restored after, signals that do not end a program are passed on. The run's own breakpoint is an internal one: the
editor's debugger window never hears of it, and ignored hits cost no message.

The program runs in the background of gdb, which so stays able to answer; every stop and exit leads to
:meth:`Rerun.advance`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gdb

from cardapp.container.gdb_plugin.places import exit_signal, here, place_of

CRASHES = {"SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGABRT", "SIGSYS", "SIGTRAP"}


class Failure(Exception):
    """A refusal with its stable ``code``; ``data`` goes beside it into the answer."""

    def __init__(self, code: str, reason: str, **data: Any) -> None:
        super().__init__(reason)
        self.code = code
        self.data = data


@dataclass(frozen=True)
class Ended:
    """The program's end, in gdb's first process or in a copy of it; no code where a signal ended it."""

    exit_code: int | None


class Rerun:
    """Runs to the ``hits``-th time that ``stop`` (``{file, line}`` or ``{function}``) is reached.

    ``done`` is called once, with the place ``{file, line, function}`` or a :class:`Failure`: ``stop_not_reached`` (no
    code there), ``target_exited``, ``target_crashed``, ``interrupted``. Everything here happens in gdb's thread.
    """

    def __init__(self, stop: dict[str, Any], hits: int, done: Callable[[dict[str, Any] | Exception], None]) -> None:
        self._stop = stop
        self._hits = hits
        self._done = done
        self._passed = 0
        self._breakpoint: gdb.Breakpoint | None = None
        self._main: gdb.Breakpoint | None = None
        self._at_main: Callable[[], None] | None = None
        self._resting: list[gdb.Breakpoint] = []
        self.interrupted = False
        self.over = False

    def begin(self, at_main: Callable[[], None] | None) -> None:
        """Set the breakpoint and start the program; ``at_main`` is called where it enters ``main``."""
        try:
            self._breakpoint = self._placed()
            self._breakpoint.ignore_count = self._hits - 1
            self._rest_others()
            if at_main is not None:
                self._at_main, self._main = at_main, gdb.Breakpoint(function="main", internal=True)
                self._main.silent = True  # the editor's debugger window need not follow there
            gdb.execute("run &", to_string=True)
        except Exception as error:
            self.finish(error)

    def resume(self) -> None:
        """The same in a program that has just entered ``main``. Where it cannot, it raises what kept it from it, and is
        over without an outcome."""
        try:
            self._resume()
        except Exception:
            self._clean_up()
            raise

    def _resume(self) -> None:
        self._breakpoint = self._placed()
        places = [location.address for location in self._breakpoint.locations]
        if any(gdb.solib_name(place) is not None for place in places):
            raise gdb.error("libraries may have been at the stop before main was")
        self._rest_others()
        self._passed = int(gdb.newest_frame().pc() in places)
        if self._passed == self._hits:
            self.finish(place_of(gdb.newest_frame()))
            return
        self._breakpoint.ignore_count = self._hits - self._passed - 1
        gdb.execute("continue &", to_string=True)

    def advance(self, event: gdb.Event | Ended) -> None:
        """After a stop or the end: the end of the run, or on."""
        if self.over:
            return
        try:
            if self._main is not None and self._main.hit_count:
                self._enter_main()
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
        self._clean_up()
        # The stop was printed below a prompt that nobody sees any more.
        gdb.write(gdb.parameter("prompt"))
        gdb.flush()
        self._done(outcome)

    def _clean_up(self) -> None:
        self.over = True
        for breakpoint in self._resting:
            # One that cannot be put back lost its scope with the old run, as gdb itself would say.
            with contextlib.suppress(gdb.error, RuntimeError):
                breakpoint.enabled = True
        for own in (self._breakpoint, self._main):
            if own is not None and own.is_valid():
                own.delete()

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

    def _enter_main(self) -> None:
        assert self._main is not None
        assert self._at_main is not None
        self._main.delete()
        self._main = None
        self._at_main()

    # -- what a stop means -------------------------------------------------------------------------------------------

    def _arrived(self, event: gdb.Event | Ended) -> bool:
        if isinstance(event, Ended):
            raise self._ended(event)
        if self._reached() >= self._hits:
            return True
        if self.interrupted:
            raise Failure("interrupted", "the program was interrupted", reached=self._reached(), place=here())
        if isinstance(event, gdb.SignalEvent) and event.stop_signal in CRASHES:
            name = event.stop_signal
            raise Failure("target_crashed", f"the program got {name}", signal=name, place=here())
        return False

    def _ended(self, event: Ended) -> Failure:
        reached = self._reached()
        if self.interrupted:
            return Failure("interrupted", "the program was interrupted", reached=reached, place=None)
        if event.exit_code is not None:
            return Failure("target_exited", "the program ended", exit_code=event.exit_code, reached=reached)
        return Failure("target_crashed", "the program was killed", signal=exit_signal(), place=None)

    def _reached(self) -> int:
        valid = self._breakpoint is not None and self._breakpoint.is_valid()
        return self._passed + (int(self._breakpoint.hit_count) if self._breakpoint is not None and valid else 0)
