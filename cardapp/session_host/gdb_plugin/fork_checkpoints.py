"""gdb's fork checkpoints: they return the program to an earlier stop without running it again.

gdb's command ``checkpoint`` makes the program fork(2); the child stays stopped. ``restart`` switches to that child. The
checkpoint is then used up, so a new one must be taken before the program continues. The process that gdb switched away
from is deleted, unless gdb started it. gdb 13 fails to delete the process that it started, so this process stays
stopped until the program ends.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
from collections.abc import Set
from pathlib import Path

import gdb

from cardapp.session_host.gdb_plugin.checkpoint_processes import (
    any_ended,
    close_leaked_memory_files,
    finish_fork,
    kill_unknown_forks,
)
from cardapp.session_host.gdb_plugin.values import setting

MAX_CHECKPOINTS = 32
"""Maximum number of checkpoints of stops. The checkpoint of ``main`` is not counted. Each checkpoint is a process with
copy-on-write memory."""
MAIN = "main"
"""The key of the checkpoint at the first line of ``main``, where a rerun to another stop starts."""
ORIGINAL = 0
"""gdb's number of the process that it started itself."""

_LISTED = re.compile(r"^(\*| ) *(\d+) .*?(?:process|LWP) (\d+)", re.MULTILINE)
_INIT_ARRAY = re.compile(r"(0x[0-9a-f]+) - (0x[0-9a-f]+) is \.init_array$", re.MULTILINE)
_HARMLESS_FILES = {"/dev/null", "/dev/tty"}
_SIGNAL_MASKS = re.compile(r"^Sig(?:Blk|Cgt):\s*([0-9a-f]+)$", re.MULTILINE)
_ALARMS = sum(1 << each - 1 for each in (signal.SIGALRM, signal.SIGVTALRM, signal.SIGPROF))


class ForkCheckpoints:
    """The checkpoints of one run of the program, by the key of their stop. Use it in gdb's main thread only."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._pids: dict[int, int] = {}
        self._pidfds: dict[int, int] = {}
        self._obsolete: list[int] = []
        self._current = ORIGINAL

    def __contains__(self, key: str) -> bool:
        return key in self._numbers

    def unchanged(self) -> bool:
        """Whether there are checkpoints and only this class has changed them.

        The learner may use gdb's checkpoint commands too, or kill one of the processes.
        """
        current, listed = _list_checkpoints()
        if (current, listed) != (self._current, self._pids) or current not in listed:
            return False
        if _has_watchpoint() or _has_other_inferiors():
            return False
        if any_ended(self._pidfds.values()):
            return False  # gdb still lists a process that was killed from outside
        with contextlib.suppress(OSError):  # the process may just have been killed
            return len(os.listdir(f"/proc/{listed[current]}/task")) == 1
        return False

    def restart(self, key: str) -> None:
        """Switch to the checkpoint ``key`` and remove it from the checkpoints."""
        number = self._numbers.pop(key)
        gdb.execute(f"restart {number}", to_string=True)
        self._obsolete.append(self._current)
        self._refresh()
        if self._current != number:
            raise gdb.error(f"gdb did not restart checkpoint {number}")

    def take(self, key: str) -> None:
        """Take a checkpoint of the program at its current stop. Call :meth:`can_fork` first."""
        _, before = _list_checkpoints()
        try:
            number = self._fork(before.keys())
        except (gdb.error, OSError):
            kill_unknown_forks({*before.values(), *(each.pid for each in gdb.inferiors())})
            raise
        self._numbers[key] = number

    def _fork(self, before: Set[int]) -> int:
        """Make the program fork; return gdb's number of the checkpoint. ``before`` are the numbers of the others."""
        with setting("language", "c"):  # gdb calls fork() with a C expression, whatever the program's language
            gdb.execute("checkpoint", to_string=True)
        self._refresh()
        made = self._pids.keys() - before - {self._current}
        if len(made) != 1:
            raise gdb.error("gdb took no checkpoint")
        number = made.pop()
        finish_fork(self._pids[self._current], self._pids[number])
        return number

    def delete_obsolete(self) -> None:
        """Delete the processes that restarts replaced, and the oldest checkpoints above :data:`MAX_CHECKPOINTS`."""
        stops = [key for key in self._numbers if key != MAIN]
        surplus = stops[: max(len(stops) - MAX_CHECKPOINTS, 0)]
        numbers = self._obsolete + [self._numbers.pop(key) for key in surplus]
        self._obsolete.clear()
        for number in numbers:
            if number != ORIGINAL:
                self._delete(number)
        self._refresh()
        close_leaked_memory_files({*self._pids.values(), *(each.pid for each in gdb.inferiors())})

    def delete_all(self) -> None:
        """Delete all checkpoints, but not the current process of the program."""
        for number in self._pids.keys() - {self._current}:
            self._delete(number)
        self.clear()

    def clear(self) -> None:
        """Forget all checkpoints. gdb has ended their processes together with the program."""
        for pidfd in self._pidfds.values():
            os.close(pidfd)
        for each in (self._numbers, self._pids, self._pidfds, self._obsolete):
            each.clear()
        self._current = ORIGINAL

    def _refresh(self) -> None:
        """Read gdb's list and keep a pidfd of each process, so that no signal can hit a process that reuses its pid."""
        self._current, self._pids = _list_checkpoints()
        for number in self._pids.keys() - self._pidfds.keys():
            self._pidfds[number] = os.pidfd_open(self._pids[number])
        for number in self._pidfds.keys() - self._pids.keys():
            os.close(self._pidfds.pop(number))

    def _delete(self, number: int) -> None:
        """Delete one checkpoint without ``delete checkpoint``.

        After that command gdb mistakes the exit of the deleted process for the exit of the program. So the process is
        stopped, detached, then killed.
        """
        pidfd = self._pidfds[number]
        signal.pidfd_send_signal(pidfd, signal.SIGSTOP)
        gdb.execute(f"detach checkpoint {number}", to_string=True)
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)

    # -- which programs can be forked --------------------------------------------------------------------------------

    def can_fork(self, terminal: str) -> bool:
        """Whether a fork of the program would behave like the program itself.

        The answer is no if the program has a second thread, a timer, a child, an open file or pipe other than its
        ``terminal``, or memory that it shares with another process. fork(2) does not copy timers. A timer set with
        alarm(2) or setitimer(2) is detected only if its signal is handled or blocked. An undetected timer would end the
        program, but the fork continues.
        """
        process = Path("/proc", str(gdb.selected_inferior().pid))
        with contextlib.suppress(OSError):
            return (
                not _has_watchpoint()
                and not _has_other_inferiors()
                and len(os.listdir(process / "task")) == 1
                and all(os.readlink(file) in _HARMLESS_FILES | {terminal} for file in (process / "fd").iterdir())
                and not any(_is_shared(line) for line in (process / "maps").read_text().splitlines())
                and not _has_timer(process)
                and self._children(process) <= set(_list_checkpoints()[1].values())
            )
        return False

    @staticmethod
    def _children(process: Path) -> set[int]:
        return {int(pid) for pid in (process / "task" / process.name / "children").read_text().split()}


def starts_at_main() -> bool:
    """Whether no code of the program runs before ``main``. Then ``.init_array`` holds only the compiler's entry."""
    found = _INIT_ARRAY.search(gdb.execute("info files", to_string=True))
    with setting("language", "c"):
        entry = gdb.lookup_type("void").pointer().sizeof
    return found is not None and int(found[2], 16) - int(found[1], 16) == entry


def _list_checkpoints() -> tuple[int, dict[int, int]]:
    """The number of the checkpoint that the program runs in, and the pid of each checkpoint by number."""
    found = _LISTED.findall(gdb.execute("info checkpoints", to_string=True))
    current = next((int(number) for mark, number, _ in found if mark == "*"), ORIGINAL)
    return current, {int(number): int(pid) for _, number, pid in found}


def _has_watchpoint() -> bool:
    """Whether a watchpoint is enabled. A fork does not inherit hardware watchpoints."""
    plain = (gdb.BP_BREAKPOINT, gdb.BP_HARDWARE_BREAKPOINT)
    return any(each.type not in plain for each in gdb.breakpoints() if each.enabled)


def _has_other_inferiors() -> bool:
    """Whether the learner added an inferior.

    gdb 13 may then take it for the inferior that forks, and leave breakpoint instructions in the memory of the fork.
    """
    return len(gdb.inferiors()) > 1


def _has_timer(process: Path) -> bool:
    masks = _SIGNAL_MASKS.findall((process / "status").read_text())
    return bool((process / "timers").read_text()) or any(int(mask, 16) & _ALARMS for mask in masks)


def _is_shared(line: str) -> bool:
    """Whether a line of ``/proc/PID/maps`` is writable shared memory."""
    permissions = line.split(maxsplit=2)[1]
    return permissions[3] == "s" and permissions[1] == "w"
