"""Inside a container: detects which limits were reached, and ends a program that reaches the limit of processes.

The kernel ends a program that uses up the container's memory. It does not end a program that reaches the limit of
processes. Then each further fork in the container fails, also in gdb and in the learner's shell, and the MCP server
cannot start a thread. So :class:`LimitWatch` ends that program.
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

from cardapp.procfs import TRACING_STOP, state, tracer
from cardapp.session_host.profile import Limits

GROUPS = Path("/sys/fs/cgroup")
# The file and the key of each counter (cgroups(7)), in version 2 of control groups and in version 1.
MEMORY = (("memory.events", "oom_kill"), ("memory/memory.oom_control", "oom_kill"))
PROCESSES = (("pids.events", "max"), ("pids/pids.events", "max"))
LIMITED_VARIABLE = "CARDAPP_LIMITED"  # set in a container whose memory and processes are limited
PERIOD = 0.25
KILL_TIMEOUT = 5.0
SETTLE_SECONDS = 0.02

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Reached:
    """How often the kernel ended a process for lack of memory, and how often it refused to start a process."""

    memory: int
    processes: int

    @classmethod
    def now(cls, groups: Path = GROUPS) -> Reached:
        """Read the counters of this container. If it has no limits, both are zero, and the files are not read, because
        they may contain the counters of the whole machine."""
        if LIMITED_VARIABLE not in os.environ:
            return cls(0, 0)
        return cls(_counter(groups, MEMORY), _counter(groups, PROCESSES))


def _counter(groups: Path, places: tuple[tuple[str, str], ...]) -> int:
    for name, key in places:
        try:
            lines = (groups / name).read_text("ascii").splitlines()
        except OSError:
            continue
        return sum(int(line.split()[1]) for line in lines if line.split()[0] == key)
    return 0


class LimitWatch:
    """Ends the program's processes when the container can start no further process.

    A thread checks this from ``start`` to ``stop``. When a limit has ended the program, that thread calls ``report``
    with the text of :meth:`reason`.
    """

    def __init__(
        self,
        limits: Limits,
        report: Callable[[str], None],
        groups: Path = GROUPS,
        *,
        period: float = PERIOD,
        can_start: Callable[[], bool] | None = None,
        kill: Callable[[], int] | None = None,
    ) -> None:
        """Every ``period`` seconds ``can_start`` tells whether the container can start a further process. If it cannot,
        ``kill`` ends the program and returns how many processes it killed."""
        self._limits = limits
        self._report = report
        self._groups = groups
        self._period = period
        self._can_start = can_start or _can_start_thread
        self._kill = kill or kill_program
        self._kills = 0
        self._before = Reached(0, 0)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="limit-watch", daemon=True)

    def start(self) -> None:
        self._before = self.reached()
        self._thread.start()

    def stop(self, timeout: float) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(timeout)

    def reached(self) -> Reached:
        """Count the reached limits. The kernel counts refused processes only if a control group sets the limit. So the
        result also counts how often this watch killed the program."""
        counted = Reached.now(self._groups)
        return Reached(counted.memory, counted.processes + self._kills)

    def reason(self, before: Reached, signal_name: str | None = None) -> str | None:
        """The end of a message that says which limit was reached since ``before``; None if no limit was reached.

        ``signal_name`` is the signal that ended the program, if one did.
        """
        now, limits = self.reached(), self._limits
        if now.memory > before.memory:
            return f"it used up the {limits.memory} MiB of memory that the profile allows (memory)"
        if now.processes > before.processes:
            return f"it used up the {limits.processes} processes that the profile allows (processes)"
        if signal_name == "SIGXCPU":
            return f"it used up the {limits.program_seconds} s of CPU time that the profile allows (program_seconds)"
        return None

    def _loop(self) -> None:
        while not self._stopping.wait(self._period):
            exhausted = not self._can_start()
            if exhausted:
                self._kills += 1
                _log.warning("no process could be started: killed %d processes of the program", self._kill())
            before, self._before = self._before, self.reached()
            if exhausted or self._before.memory > before.memory:
                self._report(self.reason(before) or "")


def _can_start_thread() -> bool:
    try:
        threading.Thread(target=int, daemon=True).start()
    except RuntimeError:
        return False
    return True


def program_processes() -> set[int]:
    """In a container: the pids of the card's program and of all its descendants.

    These processes have a lower hard limit of CPU time (``limited-program.sh``) than this process. A process inherits
    that limit and cannot raise it, whereas it can change its environment, its parent and its group.
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
    """Kill the processes that ``find`` finds, even if they keep starting others. Returns how many were killed.

    The processes are stopped first, so that none can start another. The program itself is not stopped, because gdb
    traces it and would report the stop. The processes of gdb's checkpoints are not killed, because gdb would then miss
    the program's end. They start no process, because gdb keeps them stopped. Takes at most ``timeout`` seconds.
    """
    deadline = time.monotonic() + timeout
    pause = threading.Event()
    stopped: set[int] = set()
    traced: dict[int, str | None] | None = None
    # gdb briefly traces each process that the program starts, and a traced process is not stopped here. So the traced
    # processes must be the same in two successive searches.
    while time.monotonic() < deadline:
        found = find()
        before, traced = traced, {pid: state(pid) for pid in found if tracer(pid) != 0}
        new = found - traced.keys() - stopped
        if not new and traced == before:
            break
        _signal(new, signal.SIGSTOP)
        stopped |= new
        pause.wait(SETTLE_SECONDS if not new else 0.0)
    running = {pid for pid in find() if state(pid) != TRACING_STOP}
    _signal(running, signal.SIGKILL)
    return len(running)


def _signal(pids: set[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
