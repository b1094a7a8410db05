"""Copies of the stopped program, made by gdb's fork checkpoints: the program can stand there again without a rerun.

gdb's ``restart`` uses a copy up: the program goes on in it, so a new copy has to be taken. The process that it ran in
before is ended; only the one that gdb itself started stays, stopped, until the program ends: gdb 13 fails on its
deletion.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
from pathlib import Path

import gdb

from cardapp.container.gdb_plugin.descriptors import any_ended, close_memory_of_the_dead

MOST = 32
"""ForkCheckpoints of stops; each is a process that shares its memory with the program until either of them writes."""
START = "start"
"""The key of the copy at the first line of ``main``, from which runs to new stops begin."""
FIRST = 0

_LISTED = re.compile(r"^(\*| ) *(\d+) .*?(?:process|LWP) (\d+)", re.MULTILINE)
_INIT_ARRAY = re.compile(r"(0x[0-9a-f]+) - (0x[0-9a-f]+) is \.init_array$", re.MULTILINE)
_PASSIVE = {"/dev/null", "/dev/tty"}
_AWAITED = re.compile(r"^Sig(?:Blk|Cgt):\s*([0-9a-f]+)$", re.MULTILINE)
_ALARMS = sum(1 << each - 1 for each in (signal.SIGALRM, signal.SIGVTALRM, signal.SIGPROF))


class ForkCheckpoints:
    """The copies of one run of the program, by the stop they stand at. Everything here happens in gdb's thread."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._known: dict[int, int] = {}
        self._handles: dict[int, int] = {}
        self._left: list[int] = []
        self._current = FIRST

    def __contains__(self, key: str) -> bool:
        return key in self._numbers

    def untouched(self) -> bool:
        """Whether there are copies and all is as we left it: the learner may use gdb's checkpoints as well."""
        current, listed = _listed()
        if (current, listed) != (self._current, self._known) or current not in listed:
            return False
        if _is_watched() or _is_one_of_several():
            return False
        if any_ended(self._handles.values()):
            return False  # something else ended one of them, which gdb goes on listing
        with contextlib.suppress(OSError):  # it may have been killed this moment
            return len(os.listdir(f"/proc/{listed[current]}/task")) == 1
        return False

    def take_up(self, key: str) -> None:
        """Put the program where the copy stands, which is used up by this."""
        number = self._numbers.pop(key)
        gdb.execute(f"restart {number}", to_string=True)
        self._left.append(self._current)
        self._look()
        if self._current != number:
            raise gdb.error(f"checkpoint {number} was not taken up")

    def keep(self, key: str) -> None:
        """Take a copy of the program as it stands; the caller knows that this is sound."""
        _, before = _listed()
        gdb.execute("checkpoint", to_string=True)
        self._look()
        made = self._known.keys() - before.keys() - {self._current}
        if len(made) != 1:
            raise gdb.error("no copy was made")
        self._numbers[key] = made.pop()

    def drop_left(self) -> None:
        """End what the program ran in before, and the oldest copies where there are more than :data:`MOST`."""
        stops = [key for key in self._numbers if key != START]
        dropped = self._left + [self._numbers.pop(key) for key in stops[: max(len(stops) - MOST, 0)]]
        self._left.clear()
        for number in dropped:
            if number != FIRST:
                self._drop(number)
        self._look()
        close_memory_of_the_dead({*self._known.values(), *(each.pid for each in gdb.inferiors())})

    def drop_all(self) -> None:
        """End every process but the one that the program runs in."""
        for number in self._known.keys() - {self._current}:
            self._drop(number)
        self.forget()

    def _look(self) -> None:
        """Note what gdb lists now, with a handle on each process itself: a copy that died may have given its number
        away, and no signal may reach another process."""
        self._current, self._known = _listed()
        for number in self._known.keys() - self._handles.keys():
            self._handles[number] = os.pidfd_open(self._known[number])
        for number in self._handles.keys() - self._known.keys():
            os.close(self._handles.pop(number))

    def _drop(self, number: int) -> None:
        """gdb's own deletion of a checkpoint leaves the end of its process for gdb to take for the program's end. Let
        go with a stop waiting for it, it does nothing more until it is killed."""
        handle = self._handles[number]
        signal.pidfd_send_signal(handle, signal.SIGSTOP)
        gdb.execute(f"detach checkpoint {number}", to_string=True)
        signal.pidfd_send_signal(handle, signal.SIGKILL)

    def forget(self) -> None:
        """The program was ended, and gdb ended all of its copies with it."""
        for handle in self._handles.values():
            os.close(handle)
        for each in (self._numbers, self._known, self._handles, self._left):
            each.clear()
        self._current = FIRST

    # -- what can be copied ------------------------------------------------------------------------------------------

    def sound(self, terminal: str) -> bool:
        """Whether a copy of the program would be like it: one thread, no timer, no memory, file, pipe or child that it
        shares with anyone, but for its ``terminal``.

        fork(2) hands no timer on. An alarm(2) or a setitimer(2) is seen by the handler or the mask for its signal: one
        that is to end the program by itself is not, and the copy goes on without it.
        """
        process = Path("/proc", str(gdb.selected_inferior().pid))
        with contextlib.suppress(OSError):
            return (
                not _is_watched()
                and not _is_one_of_several()
                and len(os.listdir(process / "task")) == 1
                and all(os.readlink(file) in _PASSIVE | {terminal} for file in (process / "fd").iterdir())
                and not any(_is_shared(line) for line in (process / "maps").read_text().splitlines())
                and not _awaits_alarm(process)
                and self._children(process) <= set(_listed()[1].values())
            )
        return False

    @staticmethod
    def _children(process: Path) -> set[int]:
        return {int(pid) for pid in (process / "task" / process.name / "children").read_text().split()}


def starts_at_main() -> bool:
    """Whether nothing of the program's own runs before ``main``: the compiler's own entry is the only constructor."""
    found = _INIT_ARRAY.search(gdb.execute("info files", to_string=True))
    return found is not None and int(found[2], 16) - int(found[1], 16) == gdb.lookup_type("void").pointer().sizeof


def _listed() -> tuple[int, dict[int, int]]:
    """The number of the checkpoint that the program runs in, and the process of each."""
    found = _LISTED.findall(gdb.execute("info checkpoints", to_string=True))
    current = next((int(number) for mark, number, _ in found if mark == "*"), FIRST)
    return current, {int(number): int(pid) for _, number, pid in found}


def _is_watched() -> bool:
    """A hardware watchpoint is held by the process that it was set in."""
    plain = (gdb.BP_BREAKPOINT, gdb.BP_HARDWARE_BREAKPOINT)
    return any(each.type not in plain for each in gdb.breakpoints() if each.enabled)


def _is_one_of_several() -> bool:
    """Where the learner added an inferior, gdb 13 may take that for the copied one and leave breakpoints in the copy,
    whose instructions then are others."""
    return len(gdb.inferiors()) > 1


def _awaits_alarm(process: Path) -> bool:
    masks = _AWAITED.findall((process / "status").read_text())
    return bool((process / "timers").read_text()) or any(int(mask, 16) & _ALARMS for mask in masks)


def _is_shared(line: str) -> bool:
    permissions = line.split(maxsplit=2)[1]
    return permissions[3] == "s" and permissions[1] == "w"
