"""The entry of a function whose breakpoint gdb has placed behind a jump.

gdb sets the breakpoint of a function behind the instructions that set up its frame, at the next line. In optimized code
these instructions may end with a jump. Then calls do not come by the breakpoint, or not once each.
"""

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import dataclass

import gdb

from cardapp.session_host.gdb_plugin.breakpoints import quietly_made
from cardapp.session_host.gdb_plugin.frames import defined_at
from cardapp.session_host.gdb_plugin.values import setting

_JUMP = re.compile(r"(?:j\w+|loop\w*|b|b\.\w+|br|cbn?z|tbn?z)\s")
"""The instructions of x86 and ARM that jump, with or without a condition."""
_TARGET = re.compile(r"\b0x([0-9a-f]+)")


@dataclass(frozen=True)
class Entry:
    """The first instruction of a function. ``placed`` is a sentence that says where gdb has set the function's
    breakpoint, and that the entry is the stop instead."""

    address: int
    file: str
    name: str
    placed: str

    def breakpoint(self, kind: type[gdb.Breakpoint]) -> gdb.Breakpoint | None:
        """Make an internal breakpoint at the entry, where it stays when gdb loads the program at another address. None
        if gdb has no expression for this function."""
        # In C the mangled name of a function is an expression, whatever the language of the function is.
        with setting("language", "c"):
            for function in (f"'{self.file}'::'{self.name}'", f"'{self.name}'"):
                with contextlib.suppress(gdb.error):
                    made = quietly_made(kind, {"spec": f"*{function}", "internal": True})
                    if [location.address for location in made.locations] == [self.address]:
                        return made
                    made.delete()
        return None


def entry_behind(breakpoint: gdb.Breakpoint, name: str) -> Entry | None:
    """The entry of the function ``name``, if a jump leads from there past its ``breakpoint``. None also if the
    breakpoint has several locations or none."""
    if len(breakpoint.locations) != 1:
        return None
    address = breakpoint.locations[0].address
    symbol = defined_at(address, name)
    if symbol is None:
        return None
    entry = int(symbol.value().address)
    if entry >= address or not _jumps_past(entry, address):
        return None
    file = symbol.symtab.fullname()
    placed = (
        f"gdb placed the breakpoint of {name} at {os.path.basename(file)}:{gdb.find_pc_line(address).line} "
        f"({name}+{address - entry}), behind a jump; the stop is *{name} instead, its first instruction, where its "
        "variables may not have their values yet"
    )
    return Entry(entry, file, symbol.linkage_name, placed)


def _jumps_past(start: int, end: int) -> bool:
    """Whether an instruction between ``start`` and ``end`` may jump to another place than up to ``end``."""
    for instruction in gdb.selected_inferior().architecture().disassemble(start, end - 1):
        text = instruction["asm"]
        if _JUMP.match(text):
            target = _TARGET.search(text)
            if target is None or not start <= int(target[1], 16) <= end:
                return True
    return False
