"""Completes fork(3) in the processes of gdb's checkpoints, and ends processes and closes files that gdb has forgotten.
Does not use gdb's API."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import select
import signal
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

_OWN = Path("/proc/self/fd")
_MEMORY = re.compile(r"/proc/(\d+)/task/\d+/mem")
_TRACER = re.compile(r"^TracerPid:\s*(\d+)$", re.MULTILINE)
_PTRACE_GETSIGMASK = 0x420A
_PTRACE_SETSIGMASK = 0x420B
_MASK_BYTES = 8
_PAGE = 4096
_WORD = 4

_ptrace = ctypes.CDLL(None, use_errno=True).ptrace
_ptrace.restype = ctypes.c_long
_ptrace.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]


# -- the end of fork(3) ----------------------------------------------------------------------------------------------
# gdb's `checkpoint` stops the child inside the C library's `fork` and gives it the parent's registers. So the child
# never runs the library's code after the system call. In glibc 2.36 (Debian 12) a program cannot notice that. But glibc
# 2.41 (Debian 13) blocks all signals and takes the lock of `abort` before the system call. In the child every signal
# would stay blocked, and `sigaction` of SIGABRT would wait forever. The parent has returned from `fork`, so the child's
# state is made equal to the parent's. This works for all versions.


def finish_fork(parent: int, child: int) -> None:
    """Copy the signal mask and the libraries' data from the process ``parent`` to ``child``.

    gdb must trace both processes, and both must be stopped. Call it only in gdb's main thread, because for the kernel
    that thread is the tracer.

    :raises OSError: the kernel refuses an access.
    """
    mask = ctypes.create_string_buffer(_MASK_BYTES)
    _trace(_PTRACE_GETSIGMASK, parent, mask)
    _trace(_PTRACE_SETSIGMASK, child, mask)
    for start, end in library_data(parent):
        _copy_differences(parent, child, start, end)


def _copy_differences(parent: int, child: int, start: int, end: int) -> None:
    with open(f"/proc/{parent}/mem", "rb", 0) as source, open(f"/proc/{child}/mem", "r+b", 0) as copy:
        for page in range(start, end, _PAGE):
            wanted, found = (os.pread(file.fileno(), _PAGE, page) for file in (source, copy))
            for offset in () if wanted == found else range(0, len(wanted), _WORD):
                word = wanted[offset : offset + _WORD]
                # A word that holds the process's id must stay different. All other words become equal.
                if word != found[offset : offset + _WORD] and int.from_bytes(word, "little") != parent:
                    os.pwrite(copy.fileno(), word, page + offset)


def library_data(pid: int) -> Iterator[tuple[int, int]]:
    """Yield start and end of the writable data of each library that a process uses. If it uses none, yield those of the
    program."""
    program = os.readlink(f"/proc/{pid}/exe")
    lines = [line.split(maxsplit=5) for line in Path(f"/proc/{pid}/maps").read_text().splitlines()]
    files = {line[5] for line in lines if len(line) == 6 and line[5].startswith("/")}
    wanted = files - {program} or files
    last_end = -1
    for addresses, permissions, *_, name in (line if len(line) == 6 else [*line, ""] for line in lines):
        start, end = (int(address, 16) for address in addresses.split("-"))
        # Data that is initially zero is mapped without a name, directly after the named part.
        if permissions.startswith("rw") and (name in wanted or (name == "" and start == last_end)):
            yield start, end
            last_end = end


def _trace(request: int, pid: int, mask: ctypes.Array[ctypes.c_char]) -> None:
    if _ptrace(request, pid, _MASK_BYTES, mask) == -1:
        raise OSError(ctypes.get_errno(), f"the signal mask of process {pid} cannot be accessed")


# -- processes that gdb does not know --------------------------------------------------------------------------------


def kill_unknown_forks(known: Collection[int]) -> None:
    """Kill the processes that gdb traces, except the ``known`` ones.

    If the program is killed during fork(2), gdb is not told of the child, which the kernel has stopped already. Nothing
    else would end the child.
    """
    for status in Path("/proc").glob("[0-9]*/status"):
        with contextlib.suppress(OSError):  # the process has ended meanwhile
            pid, tracer = int(status.parent.name), _TRACER.search(status.read_text())
            if pid not in known and tracer is not None and int(tracer[1]) == os.getpid():
                os.kill(pid, signal.SIGKILL)  # only gdb can reap the process, so its pid is not reused yet


# -- descriptors -----------------------------------------------------------------------------------------------------
# gdb may run for days and hold many descriptors. So `poll` is used: `select` works only for descriptors below 1024.


def any_ended(pidfds: Iterable[int]) -> bool:
    """Whether one of the processes with these pidfds has ended."""
    waiting = select.poll()
    for pidfd in pidfds:
        waiting.register(pidfd, select.POLLIN)
    return bool(waiting.poll(0))


def close_leaked_memory_files(listed: Collection[int]) -> None:
    """Close the ``/proc/PID/…/mem`` files of dead processes that gdb has forgotten.

    gdb opens this file for each checkpoint and does not close it when the checkpoint is detached. The files of the
    processes that gdb has ``listed`` stay open, even if a process is dead, because gdb closes these files itself.
    """
    for descriptor in os.listdir(_OWN):
        with contextlib.suppress(OSError):
            found = _MEMORY.fullmatch(os.readlink(_OWN / descriptor))
            if found is not None and int(found[1]) not in listed and not _is_alive(found[1]):
                os.close(int(descriptor))


def _is_alive(pid: str) -> bool:
    """Whether the process exists and is not a zombie. A zombie counts as dead, because it may never be reaped."""
    try:
        return Path("/proc", pid, "stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
