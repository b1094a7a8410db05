"""The limits of a container, seen from inside: which were reached, and the end of a program that reached one.

A program that uses up the container's memory is ended by the kernel. One that uses up the processes is not: each
further fork fails, also in gdb and in the learner's shell, and the MCP server can start no thread. So
:class:`LimitWatch` ends it.
"""

from __future__ import annotations

import contextlib
import logging
import os
import resource
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cardapp.container.profile import Limits
from cardapp.procfs import TRACING_STOP, state, tracer

GROUPS = Path("/sys/fs/cgroup")
# The file and the key of each counter (cgroups(7)), in version 2 of control groups and in version 1.
MEMORY = (("memory.events", "oom_kill"), ("memory/memory.oom_control", "oom_kill"))
PROCESSES = (("pids.events", "max"), ("pids/pids.events", "max"))
PERIOD = 0.25
KILL_TIMEOUT = 5.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Reached:
    """How often the kernel ended a process for lack of memory, and refused one for their number."""

    memory: int
    processes: int

    @classmethod
    def now(cls, groups: Path = GROUPS) -> Reached:
        """The counters of this container; zeros where the kernel has none."""
        return cls(_counter(groups, MEMORY), _counter(groups, PROCESSES))

    def since(self, before: Reached, limits: Limits) -> str | None:
        """Which limit was reached since ``before``, as the end of a message; None if none was."""
        if self.memory > before.memory:
            return f"it used up the {limits.memory} MiB of memory that the profile allows (memory)"
        if self.processes > before.processes:
            return f"it used up the {limits.processes} processes that the profile allows (processes)"
        return None


def out_of_time(limits: Limits) -> str:
    """What :meth:`Reached.since` would say of a program that the kernel ended with SIGXCPU."""
    return f"it used up the {limits.program_seconds} s of CPU time that the profile allows (program_seconds)"


def _counter(groups: Path, places: tuple[tuple[str, str], ...]) -> int:
    for name, key in places:
        try:
            lines = (groups / name).read_text("ascii").splitlines()
        except OSError:
            continue
        return sum(int(line.split()[1]) for line in lines if line.split()[0] == key)
    return 0


class LimitWatch:
    """Ends the program's processes when the container has no process left; owns a thread until :meth:`stop`.

    ``report`` is called in that thread with each limit that was reached, as :meth:`Reached.since` words it.
    """

    def __init__(self, limits: Limits, report: Callable[[str], None], groups: Path = GROUPS) -> None:
        self._limits = limits
        self._report = report
        self._groups = groups
        self._before = Reached(0, 0)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="limit-watch", daemon=True)

    def start(self) -> None:
        self._before = Reached.now(self._groups)
        self._thread.start()

    def stop(self, timeout: float) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(timeout)

    def _loop(self) -> None:
        while not self._stopping.wait(PERIOD):
            reached = Reached.now(self._groups)
            reason = reached.since(self._before, self._limits)
            if reason is None:
                continue
            ended = kill_program() if reached.processes > self._before.processes else 0
            _log.warning("the program is at its limit: %s (%d processes were killed)", reason, ended)
            self._before = Reached.now(self._groups)
            self._report(reason)


def program_processes() -> set[int]:
    """In a container: the pids of the card's program and of what it started, in whatever way.

    They are the processes with a hard limit of CPU time (``limited-program.sh``) below that of this process: a process
    inherits it and cannot raise it again, but it can change its environment, its parent and its group.
    """
    own = _cpu_limit(os.getpid())
    pids = (int(entry.name) for entry in os.scandir("/proc") if entry.name.isdigit())
    return {pid for pid in pids if (limit := _cpu_limit(pid)) is not None and limit != own}


def _cpu_limit(pid: int) -> int | None:
    try:
        return resource.prlimit(pid, resource.RLIMIT_CPU)[1]
    except OSError:
        return None  # it has ended


def kill_program(find: Callable[[], set[int]] = program_processes, timeout: float = KILL_TIMEOUT) -> int:
    """Kill the processes that ``find`` finds, also where they start others without end; returns how many were killed.

    The others are stopped first, so that none can start another. The one that gdb traces is not: gdb would report that.
    gdb's checkpoints stay. They do not run, and gdb misses the program's end if they are gone too. Takes at most
    ``timeout`` seconds.
    """
    deadline = time.monotonic() + timeout
    stopped: set[int] = set()
    while (found := {pid for pid in find() - stopped if tracer(pid) == 0}) and time.monotonic() < deadline:
        _signal(found, signal.SIGSTOP)
        stopped |= found
    running = {pid for pid in find() if state(pid) != TRACING_STOP}
    _signal(running, signal.SIGKILL)
    return len(running)


def _signal(pids: set[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
