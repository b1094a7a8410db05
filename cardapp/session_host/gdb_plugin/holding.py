"""Holds the thread that has reached a stop while all other threads go on.

A value that another thread may still change then differs from that at the stop, where gdb has stopped all threads at
once. The thread sleeps in a system call that it has not made itself; then its registers are restored. To interrupt the
others with a signal would not do, because a program can block it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gdb

from cardapp.session_host.gdb_plugin.frames import shown_place
from cardapp.session_host.gdb_plugin.rerun import CRASHES, Ended, Rerun
from cardapp.session_host.gdb_plugin.stops import Failure, is_handled

HELD_SECONDS = 0.2
_BELOW_STACK = 1024
"""How far below the stack pointer the time is written. A leaf function uses less without moving the pointer."""


@dataclass(frozen=True)
class _Machine:
    """How a processor makes a system call: the instruction, the number of ``nanosleep``, and the registers."""

    instruction: bytes
    number: int
    number_register: str
    arguments: tuple[str, str]
    clobbered: tuple[str, ...]


_MACHINES = {
    "i386:x86-64": _Machine(b"\x0f\x05", 35, "rax", ("rdi", "rsi"), ("rcx", "r11")),
    "aarch64": _Machine(b"\x01\x00\x00\xd4", 101, "x8", ("x0", "x1"), ()),
}


class Hold:
    """Holds the selected thread for :data:`HELD_SECONDS`. Use it in gdb's main thread only.

    ``done`` is called once, when the thread is again where it was, with ``{held}``: whether another thread could go on;
    or with a :class:`Failure` (``target_exited``, ``target_crashed``) if the program has ended meanwhile.
    """

    def __init__(self, done: Callable[[dict[str, Any] | Exception], None]) -> None:
        self._done = done
        self._end: gdb.Breakpoint | None = None
        self._registers: dict[str, int] = {}
        self._memory = (0, b"")
        self.interrupted = False
        self.over = False

    def start(self) -> None:
        """Let the others go on. A program with one thread, or on another processor, stays where it is."""
        machine = _MACHINES.get(gdb.newest_frame().architecture().name())
        call = None if machine is None else _system_call(machine.instruction)
        if machine is None or call is None or len(gdb.selected_inferior().threads()) < 2:
            self.finish({"held": False})
            return
        self._sleep(machine, call)
        gdb.execute("continue &", to_string=True)

    def _sleep(self, machine: _Machine, call: int) -> None:
        frame, process = gdb.newest_frame(), gdb.selected_inferior()
        names = ("pc", machine.number_register, *machine.arguments, *machine.clobbered)
        self._registers = {name: int(frame.read_register(name)) for name in names}
        time = int(frame.read_register("sp")) - _BELOW_STACK
        wanted = struct.pack("=qq", int(HELD_SECONDS), round(HELD_SECONDS % 1 * 1e9))
        self._memory = (time, bytes(process.read_memory(time, len(wanted))))
        process.write_memory(time, wanted)
        self._end = gdb.Breakpoint(f"*{call + len(machine.instruction):#x}", internal=True)
        self._end.silent = True  # do not print this stop in the debugger window
        self._end.thread = gdb.selected_thread().global_num
        first, second = machine.arguments
        _set_registers({machine.number_register: machine.number, first: time, second: 0, "pc": call})

    def advance(self, event: gdb.Event | Ended) -> None:
        """Handle a stop or the end of the program."""
        if self.over:
            return
        try:
            if isinstance(event, Ended):
                raise Failure("target_exited", "the program ended while the thread was held", exit_code=event.exit_code)
            if self._end is not None and self._end.hit_count:
                self._restore()
                self.finish({"held": True})
                return
            name = event.stop_signal if isinstance(event, gdb.SignalEvent) else None
            if name in CRASHES and not is_handled(name):
                raise Failure("target_crashed", f"the program received {name} while the thread was held", signal=name)
            Rerun.pass_on(event)
        except Exception as error:
            self.finish(error)

    def _restore(self) -> None:
        gdb.selected_inferior().write_memory(*self._memory)
        _set_registers(self._registers)
        shown_place()  # selects the frame whose values are read

    def finish(self, outcome: dict[str, Any] | Exception) -> None:
        if self.over:
            return
        self.over = True
        if self._end is not None and self._end.is_valid():
            self._end.delete()
        self._done(outcome)


def _set_registers(values: dict[str, int]) -> None:
    gdb.newest_frame().select()
    for name, value in values.items():
        gdb.execute(f"with language c -- set var ${name} = {value % (1 << 64):#x}", to_string=True)


def _system_call(instruction: bytes) -> int | None:
    """The address of a system call in the code that the kernel maps into each program."""
    for line in Path(f"/proc/{gdb.selected_inferior().pid}/maps").read_text().splitlines():
        if line.endswith("[vdso]"):
            start, end = (int(each, 16) for each in line.split()[0].split("-"))
            found = bytes(gdb.selected_inferior().read_memory(start, end - start)).find(instruction)
            return None if found < 0 else start + found
    return None
