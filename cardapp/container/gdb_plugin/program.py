"""The program under gdb: what state it is in, loading it, running it, ending it."""

from __future__ import annotations

import contextlib
import os
import secrets
import shlex
import signal
import termios
import threading
from collections.abc import Callable, Iterator
from typing import Any

import gdb

from cardapp.container.gdb_plugin.descriptors import any_ended
from cardapp.container.gdb_plugin.places import exit_signal, frame_with_source, place_of
from cardapp.container.gdb_plugin.rerun import Ended, Failure, Rerun

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
        self._rerun: Rerun | None = None
        self._loaded: tuple[Any, ...] | None = None
        self._unheard = False
        self.launch: tuple[Any, ...] = ()
        """What :meth:`load` said was to run; a run with another one is another run."""
        self.terminal = ""
        self.at_end: Callable[[], None] = lambda: None
        """Called when the program ended by itself or was killed."""
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
            if self._rerun is not None:
                self._rerun.interrupted = True
            if self._pidfd is not None:
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(self._pidfd, signal.SIGKILL if hard else signal.SIGINT)

    def _is_gone(self) -> bool:
        return self._pidfd is not None and any_ended([self._pidfd])

    def _id(self) -> str:
        return f"{self._life}-{self._changes}"

    def _become(self, state: dict[str, Any]) -> None:
        self._changes += 1
        self._state = state

    # -- events, in gdb's thread -------------------------------------------------------------------------------------

    def _continued(self, _event: gdb.ContinueEvent) -> None:
        if self._unheard:
            return
        pid = gdb.selected_inferior().pid
        with self._lock:
            if pid != self._pid:
                self._hold(pid)
            self._become({"state": "running"})

    def _stopped(self, event: gdb.StopEvent) -> None:
        if self._unheard:
            return
        if gdb.selected_inferior().pid != self._pid:
            # Where there are checkpoints, gdb turns to one of them when the program ends, and tells of a stop.
            self._ended(gdb.convenience_variable("_exitcode"))
            return
        place = place_of(frame_with_source())
        reason = event.stop_signal if isinstance(event, gdb.SignalEvent) else None
        with self._lock:
            self._become({"state": "stopped", "reason": reason} | place)
        self._advance(event)

    def _exited(self, event: gdb.ExitedEvent) -> None:
        if not self._unheard:
            self._ended(getattr(event, "exit_code", None))

    def _ended(self, code: Any) -> None:
        end = Ended(None if code is None else int(code))
        reason = f"exit code {end.exit_code}" if code is not None else f"killed by {exit_signal()}"
        with self._lock:
            self._hold(0)
            self._become({"state": "exited", "reason": reason})
        self._advance(end)
        gdb.post_event(self._end_rest)

    def _end_rest(self) -> None:
        """ForkCheckpoints of a program that ended go with it."""
        if self.state()["state"] == "exited":
            with self.unheard(), contextlib.suppress(gdb.error):
                gdb.execute("kill", to_string=True)
            self.at_end()

    def _advance(self, event: gdb.Event | Ended) -> None:
        """gdb is still busy with the stop while it tells of it; the run goes on right after."""
        run = self._rerun
        if run is not None and not run.over:
            gdb.post_event(lambda: run.advance(event))

    def _poked(self, _event: Any) -> None:
        if not self._unheard:
            with self._lock:
                self._changes += 1

    @contextlib.contextmanager
    def unheard(self) -> Iterator[None]:
        """What gdb tells meanwhile is of our own doing, and leaves the program where it stands."""
        self._unheard = True
        try:
            yield
        finally:
            self._unheard = False

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
        if not self.terminal:
            # Not yet set when gdb reads its first commands; gdb 13 has no value for it but what it shows.
            self.terminal = gdb.execute("show inferior-tty", to_string=True).split('"')[1]
        gdb.execute(f"set inferior-tty {self.terminal}", to_string=True)
        built = os.stat(program)
        loaded = (program, built.st_ino, built.st_mtime_ns)
        self.launch = (loaded, arguments, directory)
        if loaded != self._loaded or gdb.current_progspace().filename != program:
            self.kill()
            gdb.execute(f"file {shlex.quote(program)}", to_string=True)
            self._loaded = loaded

    def kill(self) -> None:
        """End the program, if there is one; what gdb was only attached to is let go."""
        _select()
        inferior = gdb.selected_inferior()
        if inferior.pid != 0:
            with self.unheard():
                gdb.execute("detach" if inferior.was_attached else "kill", to_string=True)
        with self._lock:
            self._hold(0)
            self._become({"state": "none"})
        self.at_end()
        if self._rerun is not None:
            self._rerun.finish(Failure("interrupted", "the program was ended", reached=0, place=None))

    def follow(self, run: Rerun) -> None:
        """Let ``run`` hear of every stop and of the end."""
        self._rerun = run

    def stand(self, place: dict[str, Any]) -> None:
        """The program stands at ``place`` without having run there, in another process."""
        with self._lock:
            self._hold(gdb.selected_inferior().pid)
            self._become({"state": "stopped", "reason": None} | place)

    def tidy_terminal(self, shown: str = "") -> None:
        """A fresh page for the program's output, with what is ``shown`` on it; keys left unread are dropped."""
        if not self.terminal:
            return
        with contextlib.suppress(OSError):
            terminal = os.open(self.terminal, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
            try:
                termios.tcflush(terminal, termios.TCIFLUSH)
                os.write(terminal, b"\x1b[0m\x1b[2J\x1b[3J\x1b[H" + shown.encode())
            finally:
                os.close(terminal)


def _select() -> None:
    """The learner may look at an inferior of their own; the card's program is the first one."""
    if gdb.selected_inferior().num != 1:
        gdb.execute("inferior 1", to_string=True)
