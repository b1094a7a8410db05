"""The program under gdb: its state, and how it is loaded, interrupted and ended."""

from __future__ import annotations

import contextlib
import os
import secrets
import shlex
import signal
import termios
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import gdb

from cardapp.session_host.gdb_plugin import variation
from cardapp.session_host.gdb_plugin.checkpoint_processes import any_ended
from cardapp.session_host.gdb_plugin.frames import call_stack, frame_with_source, place_of
from cardapp.session_host.gdb_plugin.holding import Hold
from cardapp.session_host.gdb_plugin.move import Move
from cardapp.session_host.gdb_plugin.rerun import Ended, Rerun, exit_signal
from cardapp.session_host.gdb_plugin.stops import Failure
from cardapp.session_host.gdb_plugin.values import local_variables

# Set before each replay, because the learner may have changed them.
SETTINGS = (
    "confirm off",
    "pagination off",
    "non-stop off",
    "follow-fork-mode parent",
    "detach-on-fork on",
    "scheduler-locking replay",
    "startup-with-shell on",
    "language auto",
)

LIMITED = os.path.join(os.path.dirname(os.path.dirname(__file__)), "limited-program.sh")
"""Starts the program in a container."""

SECONDS = "CARDAPP_PROGRAM_SECONDS"
"""In a container, this variable holds the CPU time in seconds that the program may use before it receives SIGXCPU."""

KILL_POLL = 0.05
"""Seconds between two checks whether the program was killed from outside. gdb sends no event for this."""

NOT_STOPPED = {
    "running": "the program runs: interrupt it, or sync",
    "exited": "the program has ended: sync",
    "none": "no program runs: sync",
}
"""Why the program cannot be moved, by its state."""

NO_PLACE = {"file": None, "line": None, "function": None, "reason": None}


class Program:
    """The program in gdb's first inferior.

    All methods run in gdb's main thread, except :meth:`state` and :meth:`interrupt`, which any thread may call.
    """

    def __init__(self) -> None:
        self._lock = threading.Condition(threading.Lock())
        """Notified when the program's state changes."""
        self._gdb_id = secrets.token_hex(4)
        self._changes = 0
        self._pidfd: int | None = None
        self._pid = 0
        self._state: dict[str, Any] = {"state": "none"}
        self._run: Rerun | Hold | Move | None = None
        self._loaded: tuple[Any, ...] | None = None
        self._ignoring_events = False
        self.launch: tuple[Any, ...] = ()
        """How the program is started: the last arguments of :meth:`load`. A checkpoint belongs to one launch."""
        self.terminal = ""
        self.on_end: Callable[[], None] = lambda: None
        """This function is called after the program exited or was killed."""
        gdb.events.cont.connect(self._on_continue)
        gdb.events.stop.connect(self._on_stop)
        gdb.events.exited.connect(self._on_exit)
        gdb.events.memory_changed.connect(self._on_modification)
        gdb.events.register_changed.connect(self._on_modification)
        gdb.events.gdb_exiting.connect(self._on_end_of_gdb)

    # -- in any thread -----------------------------------------------------------------------------------------------

    def state(self, unless: str | None = None, seconds: float = 0.0) -> dict[str, Any]:
        """Return ``{state, stop_id, file, line, function, reason}``; state is none, running, stopped or exited.

        ``stop_id`` changes whenever the program continues, is modified, ends or starts. No other gdb has the same
        ``stop_id``. While ``stop_id`` equals ``unless``, this method waits for a change, at most ``seconds``.
        """
        deadline = time.monotonic() + seconds
        with self._lock:
            while True:
                found = self._current_state()
                left = deadline - time.monotonic()
                if found["stop_id"] != unless or left <= 0:
                    return found
                self._lock.wait(min(left, KILL_POLL))

    def interrupt(self, hard: bool = False) -> None:
        """Stop the running program with SIGINT. With ``hard`` kill it, because a program can block SIGINT."""
        with self._lock:
            if self._run is not None:
                self._run.interrupted = True
            if self._pidfd is not None:
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(self._pidfd, signal.SIGKILL if hard else signal.SIGINT)

    def _current_state(self) -> dict[str, Any]:
        state = self._state["state"]
        if state in ("running", "stopped") and self._is_gone():
            self._set_state({"state": "none", "reason": "the program was killed"})
            if state == "stopped":  # gdb notices the end of a running program by itself
                gdb.post_event(self._end_killed)
        return {**NO_PLACE, **self._state, "stop_id": f"{self._gdb_id}-{self._changes}"}

    def _is_gone(self) -> bool:
        return self._pidfd is not None and any_ended([self._pidfd])

    def _set_state(self, state: dict[str, Any]) -> None:
        self._state = state
        self._count_change()

    def _count_change(self) -> None:
        self._changes += 1
        self._lock.notify_all()

    # -- events ------------------------------------------------------------------------------------------------------

    def _on_continue(self, _event: gdb.ContinueEvent) -> None:
        if self._ignoring_events:
            return
        pid = gdb.selected_inferior().pid
        with self._lock:
            if pid != self._pid:
                self._set_process(pid)
            self._set_state({"state": "running"})

    def _on_stop(self, event: gdb.StopEvent) -> None:
        if self._ignoring_events:
            return
        if gdb.selected_inferior().pid != self._pid:
            # When a program with checkpoints ends, gdb switches to a checkpoint and sends a stop event.
            self._end(gdb.convenience_variable("_exitcode"))
            return
        place = place_of(frame_with_source())
        reason = event.stop_signal if isinstance(event, gdb.SignalEvent) else None
        with self._lock:
            self._set_state({"state": "stopped", "reason": reason} | place)
        if reason == "SIGXCPU" and SECONDS in os.environ:
            gdb.write(f"The profile allows {os.environ[SECONDS]} s of CPU time (program_seconds).\n")
        self._advance(event)

    def _on_exit(self, event: gdb.ExitedEvent) -> None:
        if not self._ignoring_events:
            self._end(getattr(event, "exit_code", None))

    def _on_modification(self, _event: Any) -> None:
        """The learner changed memory or a register."""
        if not self._ignoring_events:
            with self._lock:
                self._count_change()

    def _on_end_of_gdb(self, _event: Any) -> None:
        """Report no further events. gdb now kills the program, but clients shall learn that gdb has ended."""
        self._ignoring_events = True
        with self._lock:
            self._set_process(0)

    def _end(self, code: Any) -> None:
        end = Ended(None if code is None else int(code))
        reason = f"exit code {end.exit_code}" if code is not None else f"killed by {exit_signal()}"
        with self._lock:
            self._set_process(0)
            self._set_state({"state": "exited", "reason": reason})
        self._advance(end)
        gdb.post_event(self._end_checkpoints)

    def _end_killed(self) -> None:
        """Make gdb notice that its program was killed. Otherwise the editor would show the program as stopped."""
        with self._lock:
            is_killed = self._state["state"] == "none"
        if is_killed:
            with self.ignoring_events(), contextlib.suppress(gdb.error):
                gdb.execute("kill", to_string=True)
            self.on_end()

    def _end_checkpoints(self) -> None:
        """End the checkpoints of a program that has ended."""
        if self.state()["state"] == "exited":
            with self.ignoring_events(), contextlib.suppress(gdb.error):
                gdb.execute("kill", to_string=True)
            self.on_end()

    def _advance(self, event: gdb.Event | Ended) -> None:
        """Pass the event to the run when this handler has returned, because a handler must not continue the
        program."""
        run = self._run
        if run is not None and not run.over:
            gdb.post_event(lambda: run.advance(event))

    @contextlib.contextmanager
    def ignoring_events(self) -> Iterator[None]:
        """Ignore gdb's events while checkpoints are changed, because these events do not concern the program."""
        self._ignoring_events = True
        try:
            yield
        finally:
            self._ignoring_events = False

    def _set_process(self, pid: int) -> None:
        """Open a pidfd of the process, so that no signal can hit another process that reuses the pid. If ``pid`` is 0,
        there is no process."""
        if self._pidfd is not None:
            os.close(self._pidfd)
        self._pid, self._pidfd = pid, None
        if pid:
            with contextlib.suppress(OSError):
                self._pidfd = os.pidfd_open(pid)
                if SECONDS in os.environ:
                    # A program that starts processes without end must not slow down the rest of the session.
                    os.setpriority(os.PRIO_PROCESS, pid, 19)

    # -- requests ----------------------------------------------------------------------------------------------------

    def load(
        self,
        program: str,
        arguments: list[str],
        directory: str,
        stdin: str | None,
        environment: dict[str, str],
        varied: bool,
    ) -> None:
        """Set how the next run starts the program. If the program was rebuilt, read its file again.

        ``stdin`` is the file for the program's standard input; None stands for the terminal. The program gets
        ``environment`` and the terminal's TERM, and no other variable. ``varied`` is described in ``variation.py``.
        """
        _select_inferior()
        for setting in (*SETTINGS, variation.layout(varied)):
            with contextlib.suppress(gdb.error):  # some can only be set while a program runs
                gdb.execute(f"set {setting}", to_string=True)
        environment = {"TERM": os.environ.get("TERM", "dumb")} | environment
        if varied:
            environment = variation.environment(environment)
        variation.choose_cpus(varied)
        _set_environment(environment)
        redirection = f" < {shlex.quote(stdin)}" if stdin is not None else ""
        gdb.execute(f"set args {shlex.join(arguments)}{redirection}", to_string=True)
        gdb.execute(f"set cwd {directory}", to_string=True)
        if not self.terminal:
            # Not read at gdb's start, because termdebug sets it later. gdb 13 has no parameter for it.
            self.terminal = gdb.execute("show inferior-tty", to_string=True).split('"')[1]
        gdb.execute(f"set inferior-tty {self.terminal}", to_string=True)
        built = os.stat(program)
        loaded = (program, built.st_ino, built.st_mtime_ns)
        self.launch = (loaded, arguments, directory, stdin, environment)
        if loaded != self._loaded or gdb.current_progspace().filename != program:
            self.kill()
            gdb.execute(f"file {shlex.quote(program)}", to_string=True)
            self._loaded = loaded

    def kill(self) -> None:
        """End the program, if there is one. A process that gdb was attached to is detached."""
        _select_inferior()
        inferior = gdb.selected_inferior()
        if inferior.pid != 0:
            with self.ignoring_events():
                gdb.execute("detach" if inferior.was_attached else "kill", to_string=True)
        with self._lock:
            self._set_process(0)
            self._set_state({"state": "none"})
        self.on_end()
        if self._run is not None:
            self._run.finish(Failure("interrupted", "the program was ended", reached=0, place=None))

    def move(self, done: Callable[[dict[str, Any] | Exception], None], command: str) -> None:
        """Execute step, next, finish or continue. Calls ``done`` with the :meth:`state` at the next stop, or with a
        :class:`Failure`: ``program_not_stopped`` or ``command_refused``."""
        state = self.state()["state"]
        if state != "stopped":
            raise Failure("program_not_stopped", NOT_STOPPED[state])
        move = Move(command, self.state, done)
        self.follow(move)
        move.start()

    def hold(self, done: Callable[[dict[str, Any] | Exception], None]) -> None:
        """Let all other threads go on while the stopped one waits. See :class:`Hold`."""
        held = Hold(done)
        self.follow(held)
        held.start()

    def call_stack(self) -> dict[str, Any]:
        """The state and ``frames``, which are empty while the program is not stopped."""
        found = self.state()
        return found | {"frames": call_stack() if found["state"] == "stopped" else []}

    def locals(self) -> dict[str, Any]:
        """The state and ``locals``, which are empty while the program is not stopped."""
        found = self.state()
        return found | {"locals": local_variables() if found["state"] == "stopped" else []}

    # -- for replays -------------------------------------------------------------------------------------------------

    def follow(self, run: Rerun | Hold | Move) -> None:
        """Pass each stop and the end of the program to ``run``."""
        self._run = run

    def restarted(self) -> None:
        """Record that a checkpoint was restarted: the program is stopped where it is now, in another process."""
        place = place_of(frame_with_source())
        with self._lock:
            self._set_process(gdb.selected_inferior().pid)
            self._set_state({"state": "stopped", "reason": None} | place)

    def reset_terminal(self, screen: str = "") -> None:
        """Clear the program's terminal, show ``screen`` there, and drop input that the program has not read."""
        if not self.terminal:
            return
        with contextlib.suppress(OSError):
            terminal = os.open(self.terminal, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
            try:
                termios.tcflush(terminal, termios.TCIFLUSH)
                os.write(terminal, b"\x1b[0m\x1b[2J\x1b[3J\x1b[H" + screen.encode())
            finally:
                os.close(terminal)


def _set_environment(environment: dict[str, str]) -> None:
    """Make gdb start the program with exactly these variables.

    gdb starts the program by a shell. gdb adds LINES and COLUMNS to the environment, and the shell adds PWD, so the
    environment is set after the shell, by the exec-wrapper.
    """
    assignments = [f"{name}={value}" for name, value in environment.items()]
    if SECONDS in os.environ:
        # A wrapper may call exec once only, so the script cannot use env(1).
        gdb.execute("unset environment", to_string=True)
        wrapper = [LIMITED, os.environ[SECONDS], *assignments]
    else:
        wrapper = ["env", "-i", *assignments]
    gdb.execute(f"set exec-wrapper {shlex.join(wrapper)}", to_string=True)


def _select_inferior() -> None:
    """Select the card's program, gdb's first inferior, because the learner may have selected another inferior."""
    if gdb.selected_inferior().num != 1:
        gdb.execute("inferior 1", to_string=True)
