"""File descriptors within gdb: handles on processes, and what gdb 13 forgets to close.

A learner may visit stops for days in one gdb, so descriptors may be many: ``select`` would end at 1024.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
from collections.abc import Iterable
from pathlib import Path

_OWN = Path("/proc/self/fd")
_MEMORY = re.compile(r"(/proc/\d+)/task/\d+/mem")


def any_ended(handles: Iterable[int]) -> bool:
    """Whether one of the processes with these pidfds has ended."""
    waiting = select.poll()
    for handle in handles:
        waiting.register(handle, select.POLLIN)
    return bool(waiting.poll(0))


def close_memory_of_the_dead() -> None:
    """gdb opens the memory of each copy that it makes, and closes it for the program alone. It never looks at that of a
    process that is no more: a new one with the same number gets an entry of its own, or ends gdb."""
    for descriptor in os.listdir(_OWN):
        with contextlib.suppress(OSError):
            found = _MEMORY.fullmatch(os.readlink(_OWN / descriptor))
            if found is not None and not _is_alive(Path(found[1])):
                os.close(int(descriptor))


def _is_alive(process: Path) -> bool:
    """One that ended stays a zombie until its parent asks for it, which may be never."""
    try:
        return (process / "stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
