"""The limits of a container, seen from inside: which were reached, and the end of a program that reached one.

A program that uses up the container's memory is ended by the kernel. One that uses up the processes is not: each
further fork fails, also in gdb and in the learner's shell, and the MCP server can start no thread. So
:class:`LimitWatch` ends it.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from pathlib import Path

from cardapp.container.process import kill_processes
from cardapp.container.profile import Limits

GROUPS = Path("/sys/fs/cgroup")
# The file and the key of each counter (cgroups(7)), in version 2 of control groups and in version 1.
MEMORY = (("memory.events", "oom_kill"), ("memory/memory.oom_control", "oom_kill"))
PROCESSES = (("pids.events", "max"), ("pids/pids.events", "max"))
PROGRAM_VARIABLE = "CARDAPP_PROGRAM"  # limited-program.sh sets it to 1
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


def _counter(groups: Path, places: tuple[tuple[str, str], ...]) -> int:
    for name, key in places:
        try:
            lines = (groups / name).read_text("ascii").splitlines()
        except OSError:
            continue
        return sum(int(line.split()[1]) for line in lines if line.split()[0] == key)
    return 0


class LimitWatch:
    """Ends the program's processes when the container has no process left; owns a thread until :meth:`stop`."""

    def __init__(self) -> None:
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="limit-watch", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout: float) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(timeout)

    def _loop(self) -> None:
        before = Reached.now().processes
        while not self._stopping.wait(PERIOD):
            reached = Reached.now().processes
            if reached > before:
                ended = kill_processes("1", KILL_TIMEOUT, PROGRAM_VARIABLE)
                _log.warning("the limit of processes was reached: %d processes of the program were ended", ended)
                before = Reached.now().processes
