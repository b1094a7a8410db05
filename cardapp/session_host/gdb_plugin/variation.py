"""Another run of the same program: whatever the program does not determine itself is different in it.

A varied run has another address layout, another order of threads, and other content of memory that was not initialised.
A value that differs from that of an ordinary run depends on more than the program.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

import gdb

_CPUS = os.sched_getaffinity(0)
_TUNABLES = "GLIBC_TUNABLES"
# The thread cache hands out memory that malloc does not fill.
_FILLED_HEAP = "glibc.malloc.perturb=165:glibc.malloc.tcache_count=0"
_STACK_BYTES = 64 * 1024
"""How much of the stack is filled. The kernel maps twice as much below the first stack pointer of a program."""
_THREAD_POINTERS = ("fs_base", "tpidr")
"""The register that points to the data of a thread (x86-64, AArch64). pthread_create puts them above its stack."""
_MOST_FILLINGS = 2000
"""A function that is called more often would make the run too slow."""
_PATTERN = b"\x5a"


def choose_cpus(varied: bool) -> None:
    """Let the next program run on one processor, so that its threads take turns; if not ``varied``, on all.

    A program inherits the processors of gdb's main thread, which starts it.
    """
    with contextlib.suppress(OSError):  # a container may allow no choice
        os.sched_setaffinity(0, {min(_CPUS)} if varied else _CPUS)


def layout(varied: bool) -> str:
    """The gdb setting of the address layout."""
    return f"disable-randomization {'off' if varied else 'on'}"


def environment(given: dict[str, str]) -> dict[str, str]:
    """The environment of a varied run: glibc fills memory that it allocates or frees, and binds all functions at the
    start, which leaves other values on the stack."""
    tunables = ":".join(filter(None, [given.get(_TUNABLES), _FILLED_HEAP]))
    return {**given, _TUNABLES: tunables, "LD_BIND_NOW": "1"}


class StackFilling:
    """Fills the unused stack of a thread when the program enters ``main``, and the function of ``stop``."""

    def __init__(self, stop: dict[str, Any]) -> None:
        self._stop = stop
        self._entries: list[_Entry] = []
        with contextlib.suppress(gdb.error):  # a program without symbols has no main
            self._entries.append(_Entry("*main"))

    def at_main(self) -> None:
        """Add the function of the stop. Before ``main`` the addresses of the program are not known."""
        stop = self._stop
        if "signal" in stop:
            return
        place = stop["function"] if "function" in stop else f"'{stop['file']}':{stop['line']}"
        with contextlib.suppress(gdb.error, ValueError):
            for found in gdb.decode_line(place)[1] or ():
                self._entries.append(_Entry(f"*{_entry_of(found.pc):#x}"))

    def end(self) -> None:
        for entry in self._entries:
            if entry.is_valid():
                entry.delete()


def _entry_of(pc: int) -> int:
    """The entry of the function that has the code at ``pc``.

    :raises ValueError: it was built without debug information.
    """
    block, entry = gdb.block_for_pc(pc), None
    while block is not None and not block.is_static:
        entry = block.start if block.function is not None else entry  # the outermost one is not inlined
        block = block.superblock
    if entry is None:
        raise ValueError(f"no function is known at {pc:#x}")
    return int(entry)


class _Entry(gdb.Breakpoint):  # type: ignore[misc]  # mypy does not know gdb
    """A breakpoint at the entry of a function, which fills the stack and never stops the program."""

    def __init__(self, place: str) -> None:
        super().__init__(place, internal=True)
        self._left = _MOST_FILLINGS

    def stop(self) -> bool:
        """gdb calls this at each hit."""
        with contextlib.suppress(gdb.error, OSError):
            _fill_stack()
        self._left -= 1
        if self._left == 0:
            gdb.post_event(self._disable)  # a breakpoint must not disable itself here
        return False

    def _disable(self) -> None:
        if self.is_valid():
            self.enabled = False


def _fill_stack() -> None:
    """Fill what is below the stack pointer. On entry of a function this is unused."""
    end = int(gdb.newest_frame().read_register("sp"))
    size = min(_STACK_BYTES, end - (_start_of_stack(end) or end))
    if size > 0:
        gdb.selected_inferior().write_memory(end - size, _PATTERN * size)


def _start_of_stack(address: int) -> int | None:
    """The lowest address of the thread's own stack. None if ``address`` is elsewhere: the stack of a coroutine may be a
    small one."""
    maps = Path(f"/proc/{gdb.selected_inferior().pid}/maps").read_text()
    for line in maps.splitlines():
        bounds, *_, name = line.split(maxsplit=5)
        start, end = (int(each, 16) for each in bounds.split("-"))
        if start <= address < end:
            return start if name == "[stack]" or address < _thread_pointer() < end else None
    return None


def _thread_pointer() -> int:
    """The address of the thread's data; 0 if it is not known."""
    for register in _THREAD_POINTERS:
        with contextlib.suppress(ValueError):
            return int(gdb.newest_frame().read_register(register))
    return 0
