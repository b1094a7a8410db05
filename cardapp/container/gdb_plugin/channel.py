"""The way into the gdb that the learner sees: JSON lines on a UNIX socket, answered inside gdb.

gdb itself loads this and calls :func:`open`, so it uses the standard library alone. A request is
``{"do": name, "with": {…}}``; its answer ``{"ok": value}`` or ``{"error": code, "reason": sentence, …}``. Each
connection is served by a thread of its own. What touches gdb runs in gdb's own thread, by ``gdb.post_event``; the
state and the interrupt are answered by the connection's thread, so they work while the program runs.
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

from cardapp.container.gdb_plugin.program import Program
from cardapp.container.gdb_plugin.replays import Replays
from cardapp.container.gdb_plugin.rerun import Failure
from cardapp.container.gdb_plugin.values import read

# gdb wants these in its own thread only.
GDB_SIGNALS = {signal.SIGINT, signal.SIGCHLD, signal.SIGALRM, signal.SIGWINCH, signal.SIGTERM}


class Channel:
    """Serves ``path`` until gdb ends."""

    def __init__(self, path: str, program: Program, replays: Replays) -> None:
        self._replays = replays
        self._busy = False
        self._waiting: deque[Callable[[], None]] = deque()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)  # of a gdb that was killed: there is one gdb to a session
        mask = os.umask(0o177)
        try:
            self._listener.bind(path)
        finally:
            os.umask(mask)
        self._listener.listen()
        self._at_once: dict[str, Callable[..., Any]] = {"state": program.state, "interrupt": program.interrupt}
        self._in_gdb: dict[str, Callable[..., Any]] = {
            "ping": os.getpid,
            "load": program.load,
            "leave": replays.leave,
            "settle": replays.settle,
            "kill": program.kill,
            "read": lambda **what: read(program, **what),
        }

    def start(self) -> None:
        _thread("card-channel", self._accept)

    def _accept(self) -> None:
        while True:
            connection, _ = self._listener.accept()
            _thread("card-request", self._serve, connection)

    def _serve(self, connection: socket.socket) -> None:
        # A peer that gave up waiting is no matter of gdb's.
        with connection, contextlib.suppress(OSError, ValueError):
            for line in connection.makefile("rb"):
                connection.sendall(json.dumps(self._answer(json.loads(line))).encode() + b"\n")

    def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        name, arguments = request["do"], request.get("with", {})
        if name in self._at_once:
            return _outcome(self._at_once[name], arguments)
        answers: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        if name == "run":
            return self._run_to_its_end(arguments, answers)
        if name not in self._in_gdb:
            return {"error": "unknown_request", "reason": f"{name!r} is no request of this channel"}
        gdb.post_event(lambda: self._in_turn(lambda: answers.put(_outcome(self._in_gdb[name], arguments))))
        return answers.get()

    def _run_to_its_end(self, arguments: dict[str, Any], answers: queue.SimpleQueue[dict[str, Any]]) -> dict[str, Any]:
        def done(outcome: dict[str, Any] | Exception) -> None:
            answers.put(_refusal(outcome) if isinstance(outcome, Exception) else {"ok": outcome})

        gdb.post_event(lambda: self._in_turn(lambda: self._replays.run(done, **arguments)))
        return answers.get()

    def _in_turn(self, work: Callable[[], None]) -> None:
        """gdb calls posted events while it waits for a function of the program, as a checkpoint makes it do."""
        if self._busy:
            self._waiting.append(work)
            return
        self._busy = True
        # An error within a wait of gdb's own, as for a copy that was killed, leaves it blocked: it heard of no stop.
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
        try:
            work()
        finally:
            self._busy = False
            if self._waiting:
                gdb.post_event(lambda: self._in_turn(self._waiting.popleft()))


def _outcome(command: Callable[..., Any], arguments: dict[str, Any]) -> dict[str, Any]:
    try:
        return {"ok": command(**arguments)}
    except Exception as error:  # whatever it is, the peer waits for an answer
        return _refusal(error)


def _refusal(error: Exception) -> dict[str, Any]:
    if isinstance(error, Failure):
        return {"error": error.code, "reason": str(error)} | error.data
    return {"error": "debugger_failed", "reason": str(error) if isinstance(error, gdb.error) else repr(error)}


@contextlib.contextmanager
def _signals_kept_from_threads() -> Iterator[None]:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, GDB_SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _thread(name: str, target: Callable[..., None], *arguments: Any) -> None:
    with _signals_kept_from_threads():
        threading.Thread(target=target, args=arguments, name=name, daemon=True).start()


def open(path: str) -> None:
    """Serve the channel at ``path`` (mode 0600) for the rest of this gdb's life."""
    program = Program()
    Channel(path, program, Replays(program)).start()
