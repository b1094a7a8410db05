"""File descriptors within gdb: handles on processes, and what gdb 13 forgets to close.

A learner may visit stops for days in one gdb, so descriptors may be many: ``select`` would end at 1024.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
from collections.abc import Collection, Iterable
from pathlib import Path

_OWN = Path("/proc/self/fd")
_MEMORY = re.compile(r"/proc/(\d+)/task/\d+/mem")


def any_ended(handles: Iterable[int]) -> bool:
    """Whether one of the processes with these pidfds has ended."""
    waiting = select.poll()
    for handle in handles:
        waiting.register(handle, select.POLLIN)
    return bool(waiting.poll(0))


def close_memory_of_the_dead(listed: Collection[int]) -> None:
    """gdb opens the memory of each copy that it makes, and forgets to close it when the copy is let go. What it still
    has ``listed`` it closes itself, though the process be dead; a process that it let go has no part in it any more."""
    for descriptor in os.listdir(_OWN):
        with contextlib.suppress(OSError):
            found = _MEMORY.fullmatch(os.readlink(_OWN / descriptor))
            if found is not None and int(found[1]) not in listed and not _is_alive(found[1]):
                os.close(int(descriptor))


def _is_alive(pid: str) -> bool:
    """One that ended stays a zombie until its parent asks for it, which may be never."""
    try:
        return Path("/proc", pid, "stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
