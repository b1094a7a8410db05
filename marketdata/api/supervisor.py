"""Serves the API with several processes on one port.

The supervisor binds the address, and each process inherits the listening socket. So a connection that no process has
accepted yet is not lost when one of them ends. The supervisor has one thread and no connection to the database. It
learns from SIGCHLD that a process has ended, and from the shared memory that one serves.
"""

from __future__ import annotations

import logging
import os
import pickle
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from time import monotonic

from marketdata.api.process import STOP_SIGNALS, prepare_process, print_address
from marketdata.api.shared_memory import SharedMemory, shared_file
from marketdata.errors import MarketError, StateError
from marketdata.http.listener import listening
from marketdata.settings import Settings

_SIGNALS = STOP_SIGNALS | {signal.SIGCHLD}
_START_POLL_SECONDS = 0.02
_POLL_SECONDS = 1.0
_FIRST_DELAY, _LONGEST_DELAY = 0.5, 10.0
"""A process that ended before it served is started again after a pause. These are the first and the longest pause, in
seconds; each pause is twice the previous one."""
_END_SECONDS = 10.0
"""A process that has not ended this long after its signal is killed. It needs little more than half of this, even when
the database does not answer."""

_log = logging.getLogger("marketdata.api")


def run(settings: Settings) -> None:
    """Serve until SIGTERM, SIGINT or SIGHUP. Prints the address when all processes answer. Raises the error of the
    first process if it does not start."""
    prepare_process(settings)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    with listening(settings.api_host, settings.api_port, "api") as bound:
        supervisor = Supervisor(settings, bound)
        try:
            if supervisor.start():
                print_address(settings, bound.getsockname()[1])
                while supervisor.turn(_POLL_SECONDS):
                    pass
        finally:
            supervisor.stop()


class Supervisor:
    """Starts the processes, restarts each one that ends, and ends them all."""

    def __init__(self, settings: Settings, bound: socket.socket) -> None:
        self._bound = bound
        memory = shared_file(settings.api_processes)
        self._memory = SharedMemory(settings.api_processes, own=None, descriptor=memory)
        self._processes = [
            Process(settings, self._memory, number, memory, bound.fileno()) for number in range(settings.api_processes)
        ]

    def start(self) -> bool:
        """Start the processes, the first one alone, so that a fault of the settings is reported once. Returns False if
        a signal asked to end meanwhile."""
        first, *others = self._processes
        first.start()
        while not first.serves:
            if first.has_ended():
                raise first.error()
            if _is_told_to_end(_START_POLL_SECONDS):
                return False
        for process in others:
            process.start()
        while not all(process.serves or process.failures for process in others):
            if not self.turn(_START_POLL_SECONDS):
                return False
        return True

    def turn(self, seconds: float) -> bool:
        """Wait up to ``seconds`` for a signal, then restart the processes that have ended. Returns False if the signal
        asks to end."""
        if _is_told_to_end(seconds):
            return False
        for process in self._processes:
            self._memory.restarts += process.attend()
        self._memory.running = sum(process.serves for process in self._processes)
        return True

    def stop(self) -> None:
        """Let all processes finish their requests, and wait for them. Like the processes, the supervisor closes the
        port first, so that new clients are refused and need not wait."""
        self._bound.close()
        for process in self._processes:
            process.terminate()
        deadline = monotonic() + _END_SECONDS
        for process in self._processes:
            process.wait(deadline)


class Process:
    """One place among the processes: the process that runs there now, or its successor."""

    def __init__(self, settings: Settings, memory: SharedMemory, number: int, descriptor: int, listening: int) -> None:
        self._settings = settings
        self._number = number
        self._inherited = (descriptor, listening)
        self._region = memory.regions[number]
        self._running: subprocess.Popen[bytes] | None = None
        self._start_at = 0.0
        self.failures = 0
        """How often in succession the process ended before it served."""

    @property
    def serves(self) -> bool:
        return self._running is not None and self._region.has_report

    def start(self) -> None:
        self._region.forget_report()
        arguments = map(str, (self._number, *self._inherited, os.getpid()))
        self._running = subprocess.Popen(
            [sys.executable, "-P", "-m", "marketdata.api.worker", *arguments],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=self._inherited,
            start_new_session=True,  # Ctrl-C in a terminal reaches the supervisor alone
        )  # fmt: skip
        assert self._running.stdin is not None
        with suppress(BrokenPipeError):  # it has ended already
            self._running.stdin.write(pickle.dumps(self._settings))
            self._running.stdin.close()

    def has_ended(self) -> bool:
        return self._running is not None and self._running.poll() is not None

    def error(self) -> MarketError:
        """Why the process ended."""
        assert self._running is not None
        assert self._running.stdout is not None
        with self._running.stdout as output:
            told = output.read()
        if told:
            error: MarketError = pickle.loads(told)
            return error
        code = self._running.returncode
        how = f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
        return StateError(f"process {self._running.pid} of the API ended {how}")

    def attend(self) -> bool:
        """If the process has ended, start it again when it is time. Returns whether it was started."""
        if self.has_ended():
            self._note_end()
        if self._running is not None or monotonic() < self._start_at:
            return False
        self.start()
        return True

    def _note_end(self) -> None:
        self.failures = 0 if self.serves else self.failures + 1
        delay = min(_FIRST_DELAY * 2 ** (self.failures - 1), _LONGEST_DELAY) if self.failures else 0.0
        _log.warning("%s; it is started again %s", self.error().detail, f"in {delay:g} s" if delay else "now")
        self._running = None
        self._region.forget_report()
        self._start_at = monotonic() + delay

    def terminate(self) -> None:
        if self._running is not None:
            self._running.terminate()

    def wait(self, deadline: float) -> None:
        """Wait for the end until ``deadline``, in monotonic seconds, then kill the process."""
        if self._running is None:
            return
        try:
            self._running.wait(max(deadline - monotonic(), 0.0))
        except subprocess.TimeoutExpired:
            _log.error("process %d of the API did not end within %g s and is killed", self._running.pid, _END_SECONDS)
            self._running.kill()
            self._running.wait()


def _is_told_to_end(seconds: float) -> bool:
    """Wait up to ``seconds`` for a signal. Returns whether it asks to end."""
    received = signal.sigtimedwait(_SIGNALS, seconds)
    return received is not None and received.si_signo in STOP_SIGNALS
