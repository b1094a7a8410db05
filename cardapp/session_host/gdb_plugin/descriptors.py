"""File descriptors in the gdb process: pidfds of the checkpoints, and descriptors that gdb 13 leaks.

A gdb may run for days and hold many descriptors. ``poll`` has no limit of 1024 as ``select`` has.
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


def any_ended(pidfds: Iterable[int]) -> bool:
    """Whether one of the processes with these pidfds has ended."""
    waiting = select.poll()
    for pidfd in pidfds:
        waiting.register(pidfd, select.POLLIN)
    return bool(waiting.poll(0))


def close_leaked_memory_files(listed: Collection[int]) -> None:
    """Close the ``/proc/PID/…/mem`` files of dead processes that gdb has forgotten.

    gdb opens this file for each checkpoint and does not close it when the checkpoint is detached. Files of the
    processes that gdb has ``listed`` are left open, even of dead ones: gdb closes them itself.
    """
    for descriptor in os.listdir(_OWN):
        with contextlib.suppress(OSError):
            found = _MEMORY.fullmatch(os.readlink(_OWN / descriptor))
            if found is not None and int(found[1]) not in listed and not _is_alive(found[1]):
                os.close(int(descriptor))


def _is_alive(pid: str) -> bool:
    """Whether the process exists and is not a zombie. Its parent may never reap a zombie."""
    try:
        return Path("/proc", pid, "stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
