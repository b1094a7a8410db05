"""The program under gdb: what state it is in, loading it, running it, ending it."""

from __future__ import annotations

import contextlib
import os
import secrets
import select
import shlex
import signal
import termios
import threading
from collections.abc import Callable
from typing import Any

import gdb

from cardapp.container.ingdb.places import exit_signal, frame_with_source, place_of
from cardapp.container.ingdb.run import Failure, Run

# The learner may have changed any of these; a replay means the same every time.
SETTINGS = (
    "confirm off",
    "pagination off",
    "non-stop off",
    "disable-randomization on",
    "follow-fork-mode parent",
    "detach-on-fork on",
    "scheduler-locking replay",
    "startup-with-shell on",
    "language auto",
)

NOWHERE = {"file": None, "line": None, "function": None, "reason": None}


class Program:
    """gdb's first inferior. Methods run in gdb's thread, except :meth:`state` and :meth:`interrupt`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._life = secrets.token_hex(4)
        self._changes = 0
        self._pidfd: int | None = None
        self._pid = 0
        self._state: dict[str, Any] = {"state": "none"}
        self._run: Run | None = None
        self._loaded: tuple[Any, ...] | None = None
        self._tty: str | None = None
        gdb.events.cont.connect(self._continued)
        gdb.events.stop.connect(self._stopped)
        gdb.events.exited.connect(self._exited)
        gdb.events.memory_changed.connect(self._poked)
        gdb.events.register_changed.connect(self._poked)

    # -- what is known without asking gdb's thread -------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """``{state, stop_id, file, line, function, reason}``; state is none, running, stopped or exited.

        ``stop_id`` changes whenever the program runs on, is poked at, ends or starts anew, and with every gdb.
        """
        with self._lock:
            # A program that gdb was told to kill, or that something else killed, raises no event.
            if self._state["state"] in ("running", "stopped") and self._is_gone():
                self._become({"state": "none", "reason": "the program was killed"})
            return {**NOWHERE, **self._state, "stop_id": self._id()}

    def interrupt(self, hard: bool = False) -> None:
        """Stop the running program; ``hard`` ends it (it may block the signal)."""
        with self._lock:
            if self._run is not None:
                self._run.interrupted = True
            if self._pidfd is not None:
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(self._pidfd, signal.SIGKILL if hard else signal.SIGINT)

    def _is_gone(self) -> bool:
        return self._pidfd is not None and bool(select.select([self._pidfd], [], [], 0)[0])

    def _id(self) -> str:
        return f"{self._life}-{self._changes}"

    def _become(self, state: dict[str, Any]) -> None:
        self._changes += 1
        self._state = state

    # -- events, in gdb's thread -------------------------------------------------------------------------------------

    def _continued(self, _event: gdb.ContinueEvent) -> None:
        pid = gdb.selected_inferior().pid
        with self._lock:
            if pid != self._pid:
                self._hold(pid)
            self._become({"state": "running"})

    def _stopped(self, event: gdb.StopEvent) -> None:
        place = place_of(frame_with_source())
        reason = event.stop_signal if isinstance(event, gdb.SignalEvent) else None
        with self._lock:
            self._become({"state": "stopped", "reason": reason} | place)
        self._advance(event)

    def _exited(self, event: gdb.ExitedEvent) -> None:
        code = getattr(event, "exit_code", None)
        reason = f"exit code {code}" if code is not None else f"killed by {exit_signal()}"
        with self._lock:
            self._hold(0)
            self._become({"state": "exited", "reason": reason})
        self._advance(event)

    def _advance(self, event: gdb.Event) -> None:
        """gdb is still busy with the stop while it tells of it; the run goes on right after."""
        run = self._run
        if run is not None and not run.over:
            gdb.post_event(lambda: run.advance(event))

    def _poked(self, _event: Any) -> None:
        with self._lock:
            self._changes += 1

    def _hold(self, pid: int) -> None:
        """Keep a handle on the process itself, so that no signal can ever reach another one with its number."""
        if self._pidfd is not None:
            os.close(self._pidfd)
        self._pid, self._pidfd = pid, None
        if pid:
            with contextlib.suppress(OSError):
                self._pidfd = os.pidfd_open(pid)

    # -- requests, in gdb's thread -----------------------------------------------------------------------------------

    def load(self, program: str, arguments: list[str], directory: str) -> None:
        """Make ``program`` the one that runs, with its arguments, in ``directory``; read it again if it was built."""
        _select()
        for setting in SETTINGS:
            with contextlib.suppress(gdb.error):  # some can be set only while a program is there, and then matter
                gdb.execute(f"set {setting}", to_string=True)
        gdb.execute(f"set args {shlex.join(arguments)}", to_string=True)
        gdb.execute(f"set cwd {directory}", to_string=True)
        if self._tty is None:
            # Not yet set when gdb reads its first commands; gdb 13 has no value for it but what it shows.
            self._tty = gdb.execute("show inferior-tty", to_string=True).split('"')[1]
        gdb.execute(f"set inferior-tty {self._tty}", to_string=True)
        built = os.stat(program)
        loaded = (program, built.st_ino, built.st_mtime_ns)
        if loaded != self._loaded or gdb.current_progspace().filename != program:
            gdb.execute(f"file {shlex.quote(program)}", to_string=True)
            self._loaded = loaded

    def kill(self) -> None:
        """End the program, if there is one; what gdb was only attached to is let go."""
        _select()
        inferior = gdb.selected_inferior()
        if inferior.pid != 0:
            gdb.execute("detach" if inferior.was_attached else "kill", to_string=True)
        with self._lock:
            self._hold(0)
            self._become({"state": "none"})
        if self._run is not None:
            self._run.finish(Failure("interrupted", "the program was ended", reached=0, place=None))

    def run(self, done: Callable[[dict[str, Any] | Exception], None], stop: dict[str, Any], hits: int) -> None:
        """Start a :class:`Run`; ``done`` gets its outcome."""
        self._run = Run(stop, hits, done)
        self._tidy_terminal()
        self._run.begin()

    def _tidy_terminal(self) -> None:
        """A fresh page for the program's output; keys that an earlier run left unread are dropped."""
        if not self._tty:
            return
        with contextlib.suppress(OSError):
            terminal = os.open(self._tty, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
            try:
                termios.tcflush(terminal, termios.TCIFLUSH)
                os.write(terminal, b"\x1b[0m\x1b[2J\x1b[3J\x1b[H")
            finally:
                os.close(terminal)


def _select() -> None:
    """The learner may look at an inferior of their own; the card's program is the first one."""
    if gdb.selected_inferior().num != 1:
        gdb.execute("inferior 1", to_string=True)
