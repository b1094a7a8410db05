"""The channel to the gdb that the learner sees: a server inside gdb that speaks JSON lines on a Unix socket.

gdb loads this module and calls :func:`open`. A request is ``{"do": name, "with": {…}}``. The reply is
``{"ok": value}`` or ``{"error": code, "reason": sentence, …}``. Each connection has a thread. gdb's Python API may
only be used in gdb's main thread, so most operations are queued for it with ``gdb.post_event``. The operations
``state`` and ``interrupt`` do not use that API, so they also work while the program runs.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import gdb

from cardapp.session_host.gdb_plugin.constants import constants
from cardapp.session_host.gdb_plugin.program import Program
from cardapp.session_host.gdb_plugin.replay import Replays
from cardapp.session_host.gdb_plugin.stops import Failure
from cardapp.session_host.gdb_plugin.typed_commands import TypedCommands
from cardapp.session_host.gdb_plugin.values import read

# gdb handles these signals, in its main thread only.
GDB_SIGNALS = {signal.SIGINT, signal.SIGCHLD, signal.SIGALRM, signal.SIGWINCH, signal.SIGTERM}

RETRY_SECONDS = 0.05
"""Seconds between two attempts to start a thread."""


class Channel:
    """Serves ``path`` until gdb ends."""

    def __init__(self, path: str, program: Program, replays: Replays) -> None:
        self._busy = False
        self._waiting: deque[Callable[[], None]] = deque()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)  # a killed gdb has left the file; it is not in use, because a session has only one gdb
        mask = os.umask(0o177)
        try:
            self._listener.bind(path)
        finally:
            os.umask(mask)
        self._listener.listen()
        self._in_any_thread: dict[str, Callable[..., Any]] = {"state": program.state, "interrupt": program.interrupt}
        self._awaited: dict[str, Callable[..., None]] = {
            "replay": replays.replay,
            "move": program.move,
            "hold": program.hold,
            "commands": lambda done, **what: TypedCommands(program, done, **what).start(),
        }
        """Operations that run the program. They call their first argument with the outcome when it has stopped."""
        self._in_main_thread: dict[str, Callable[..., Any]] = {
            "ping": os.getpid,
            "load": program.load,
            "prepare": replays.prepare,
            "checkpoint": replays.checkpoint,
            "kill": program.kill,
            "call_stack": program.call_stack,
            "locals": program.locals,
            "constants": constants,
            "read": lambda **what: read(lambda: program.state()["stop_id"], **what),
        }

    def start(self) -> None:
        if not _started("card-channel", self._accept):
            raise RuntimeError("gdb can start no thread: too many processes run")

    def _accept(self) -> None:
        pause = threading.Event()
        while True:
            connection, _ = self._listener.accept()
            while not _started("card-request", self._serve, connection):
                pause.wait(RETRY_SECONDS)

    def _serve(self, connection: socket.socket) -> None:
        # A client may disconnect before it gets its reply.
        with connection, contextlib.suppress(OSError, ValueError):
            for line in connection.makefile("rb"):
                connection.sendall(json.dumps(self._reply(json.loads(line))).encode() + b"\n")

    def _reply(self, request: dict[str, Any]) -> dict[str, Any]:
        name, arguments = request["do"], request.get("with", {})
        if name in self._in_any_thread:
            return _outcome(self._in_any_thread[name], arguments)
        replies: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        if name in self._awaited:
            return self._await(self._awaited[name], arguments, replies)
        if name not in self._in_main_thread:
            return {"error": "unknown_request", "reason": f"the channel has no operation {name!r}"}
        operation = self._in_main_thread[name]
        gdb.post_event(lambda: self._one_at_a_time(lambda: replies.put(_outcome(operation, arguments))))
        return replies.get()

    def _await(
        self, operation: Callable[..., None], arguments: dict[str, Any], replies: queue.SimpleQueue[dict[str, Any]]
    ) -> dict[str, Any]:
        """Start the program and wait for its stop. gdb's main thread is free in between."""

        def done(outcome: dict[str, Any] | Exception) -> None:
            replies.put(_error(outcome) if isinstance(outcome, Exception) else {"ok": outcome})

        def start() -> None:
            try:
                operation(done, **arguments)
            except Exception as error:  # otherwise the client would wait until its timeout
                done(error)

        gdb.post_event(lambda: self._one_at_a_time(start))
        return replies.get()

    def _one_at_a_time(self, work: Callable[[], None]) -> None:
        """Run ``work`` now, or after the work that is running.

        While gdb calls a function in the program, as ``checkpoint`` does with fork(2), it also handles posted events.
        """
        if self._busy:
            self._waiting.append(work)
            return
        self._busy = True
        # If gdb fails while it waits for a process, for example a killed one, SIGCHLD stays blocked. Then gdb would
        # miss every later stop.
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
        try:
            work()
        finally:
            self._busy = False
            if self._waiting:
                gdb.post_event(lambda: self._one_at_a_time(self._waiting.popleft()))


def _outcome(command: Callable[..., Any], arguments: dict[str, Any]) -> dict[str, Any]:
    try:
        return {"ok": command(**arguments)}
    except Exception as error:  # the client must get a reply in any case
        return _error(error)


def _error(error: Exception) -> dict[str, Any]:
    if isinstance(error, Failure):
        return {"error": error.code, "reason": str(error)} | error.data
    return {"error": "debugger_failed", "reason": str(error) if isinstance(error, gdb.error) else repr(error)}


@contextlib.contextmanager
def _gdb_signals_blocked() -> Iterator[None]:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, GDB_SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _started(name: str, target: Callable[..., None], *arguments: Any) -> bool:
    """Start a thread that blocks gdb's signals, because a thread inherits the signal mask of its creator.

    Returns False if no further thread can be started, for example while the program starts processes without end.
    """
    with _gdb_signals_blocked(), contextlib.suppress(RuntimeError):
        threading.Thread(target=target, args=arguments, name=name, daemon=True).start()
        return True
    return False


def open(path: str) -> None:
    """Serve the channel at ``path`` (mode 0600) until gdb ends."""
    program = Program()
    Channel(path, program, Replays(program)).start()
