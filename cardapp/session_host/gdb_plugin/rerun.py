"""Runs the program from its start, or from ``main``, to the stop of a replay, and reports where it has stopped.

The run ends only at the stop. The learner's breakpoints are disabled during the run, and signals that do not crash the
program are passed on to it, so its own handlers run.

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

from cardapp.session_host.gdb_plugin.breakpoints import quietly_made
from cardapp.session_host.gdb_plugin.frames import current_place, shown_place
from cardapp.session_host.gdb_plugin.stops import Failure, is_handled, is_interrupt_of_gdb, stop_of

CRASHES = {"SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGABRT", "SIGSYS", "SIGTRAP"}
NOT_PASSED = {"SIGINT", "SIGTRAP"}
"""The signals that gdb does not pass to the program by default. Its command ``signal`` passes them."""
MOST_IGNORED = 2**31 - 1


@dataclass(frozen=True)
class Ended:
    """The program ended, in gdb's first process or in a checkpoint. ``exit_code`` is None if a signal ended it."""

    exit_code: int | None


class Rerun:
    """Runs the program until it reaches ``stop`` (see :func:`stops.stop_of`) for the ``hits``-th time.

    ``done`` is called once, with the place ``{file, line, function, inside, signal, placed}`` or an exception. The
    codes of a :class:`Failure` are ``stop_not_reached`` (no code at the stop), ``ambiguous_function``,
    ``bad_condition``, ``target_exited``, ``target_crashed`` and ``interrupted``. ``placed`` (see ``PlaceStop``) is None
    if the stop is where gdb places it. Use it in gdb's main thread only.
    """

    def __init__(self, stop: dict[str, Any], hits: int, done: Callable[[dict[str, Any] | Exception], None]) -> None:
        self._stop = stop_of(stop, hits)
        self._done = done
        self._main: gdb.Breakpoint | None = None
        self._fork: gdb.Breakpoint | None = None
        self._at_main: Callable[[], None] | None = None
        self._disabled: list[gdb.Breakpoint] = []
        self.interrupted = False
        self.over = False

    def start(self, at_main: Callable[[], None] | None) -> None:
        """Set the breakpoint and start the program. ``at_main`` is called when the program enters ``main``."""
        try:
            self._stop.set()
            self._disable_others()
            self._at_main = at_main
            if at_main is not None or self._stop.waits_for_main():
                self._main = gdb.Breakpoint(function="main", internal=True)
                self._main.silent = True  # do not print this stop in the debugger window
            else:
                self._fork = _counter_of_forks()
            gdb.execute("run &", to_string=True)
        except Exception as error:
            self.finish(error)

    def start_at_main(self) -> None:
        """Set the breakpoint and continue a program that has just entered ``main``.

        If this fails, the method raises the error and does not call ``done``.
        """
        try:
            is_reached = self._stop.set_at_main()
            self._disable_others()
            if is_reached:
                self.finish(self._place())
            else:
                gdb.execute("continue &", to_string=True)
        except Exception:
            self._clean_up()
            raise

    def advance(self, event: gdb.Event | Ended) -> None:
        """Handle a stop or the end of the program: finish the run or continue it."""
        if self.over:
            return
        try:
            if self._main is not None and self._main.hit_count:
                self._enter_main()
            if self._is_at_stop(event):
                self.finish(self._place())
            else:
                self.pass_on(event)
        except Exception as error:
            self.finish(error)

    def finish(self, outcome: dict[str, Any] | Exception) -> None:
        """Remove the breakpoints of the run, enable the learner's breakpoints again, and call ``done`` with
        ``outcome``."""
        if self.over:
            return
        self._clean_up()
        if self._stop.placed is not None:
            gdb.write(f"{self._stop.placed}\n")
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
        self._stop.clear()
        for breakpoint in (self._main, self._fork):
            if breakpoint is not None and breakpoint.is_valid():
                breakpoint.delete()

    def _disable_others(self) -> None:
        for breakpoint in gdb.breakpoints():
            if breakpoint.enabled and breakpoint.number > 0:  # internal ones have negative numbers
                breakpoint.enabled = False
                self._disabled.append(breakpoint)

    def _enter_main(self) -> None:
        assert self._main is not None
        self._main.delete()
        self._main = None
        self._stop.enter_main()
        if self._at_main is not None:
            self._at_main()
        self._fork = _counter_of_forks()  # not before, because a checkpoint is a fork, too

    def _has_forked(self) -> bool:
        return self._fork is not None and self._fork.is_valid() and bool(self._fork.hit_count)

    def _place(self) -> dict[str, Any]:
        return shown_place() | {"signal": self._stop.signal, "placed": self._stop.placed}

    @staticmethod
    def pass_on(event: gdb.Event) -> None:
        """Continue the program after a stop that is not the wanted one. It gets its signals."""
        name = event.stop_signal if isinstance(event, gdb.SignalEvent) else None
        passes = name in NOT_PASSED and not is_interrupt_of_gdb(event)
        gdb.execute(f"signal {name} &" if passes else "continue &", to_string=True)

    # -- classifying stops -------------------------------------------------------------------------------------------

    def _is_at_stop(self, event: gdb.Event | Ended) -> bool:
        """Whether the program has reached the stop. Raises :class:`Failure` if it cannot reach the stop."""
        if isinstance(event, Ended):
            raise self._failure(event)
        if self._stop.is_reached(event):
            return True
        if self.interrupted:
            place = current_place()
            raise Failure("interrupted", "the program was interrupted", reached=self._stop.reached(), place=place)
        if self._has_crashed(event):
            name, place = event.stop_signal, current_place()
            reached = self._stop.reached()
            raise Failure("target_crashed", f"the program received {name}", signal=name, reached=reached, place=place)
        return False

    def _has_crashed(self, event: gdb.Event) -> bool:
        """Whether the event is a crash. A signal that the program handles is no crash."""
        if not isinstance(event, gdb.SignalEvent) or event.stop_signal not in CRASHES:
            return False
        return event.stop_signal != self._stop.signal and not is_handled(event.stop_signal)

    def _failure(self, end: Ended) -> Failure:
        reached = self._stop.reached()
        if self.interrupted:
            return Failure("interrupted", "the program was interrupted", reached=reached, place=None)
        if end.exit_code is None:
            return Failure("target_crashed", "a signal ended the program", signal=exit_signal(), reached=reached)
        how = {
            "exit_code": end.exit_code,
            "reached": reached,
            "forked": self._has_forked(),
            "placed": self._stop.placed,
        }
        if not self._stop.has_code():
            return Failure("stop_not_reached", self._stop.missing_code(), **how)
        return Failure("target_exited", "the program exited", **how)


def _counter_of_forks() -> gdb.Breakpoint:
    """A breakpoint that never stops the program. gdb follows the parent of a fork, and does not report the child."""
    # fork() of the C library calls this function.
    counter = quietly_made(gdb.Breakpoint, {"function": "_Fork", "qualified": True, "internal": True})
    counter.ignore_count = MOST_IGNORED
    return counter


# -- how it ended ---------------------------------------------------------------------------------------------------


def exit_signal() -> str:
    """The name of the signal that ended the program."""
    number = gdb.convenience_variable("_exitsignal")
    if number is None:
        return "a signal"
    try:
        return signal.Signals(int(number)).name
    except ValueError:
        return f"signal {int(number)}"
