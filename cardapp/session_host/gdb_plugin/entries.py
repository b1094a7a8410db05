"""The entry of a function whose breakpoint gdb has placed further on.

gdb sets the breakpoint of a function behind the instructions that set up its frame. If these end with a jump, the
breakpoint is at a place that calls may never reach: in optimized code, or in a function that begins inside a loop.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass

import gdb

from cardapp.session_host.gdb_plugin.breakpoints import quietly_made
from cardapp.session_host.gdb_plugin.frames import defined_at
from cardapp.session_host.gdb_plugin.values import setting


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
    """The entry of the function ``name``, whose breakpoint is ``breakpoint``. None if the breakpoint is there, or if it
    has several locations or none."""
    if len(breakpoint.locations) != 1:
        return None
    address = breakpoint.locations[0].address
    symbol = defined_at(address, name)
    if symbol is None:
        return None
    entry = int(symbol.value().address)
    if entry == address:
        return None
    file = symbol.symtab.fullname()
    placed = (
        f"gdb placed the breakpoint of {name} at {os.path.basename(file)}:{gdb.find_pc_line(address).line} "
        f"({name}+{address - entry}), which its calls do not reach; the stop is *{name} instead, its first "
        "instruction, where its variables may not have their values yet"
    )
    return Entry(entry, file, symbol.linkage_name, placed)


class EntryWatch(gdb.Breakpoint):  # type: ignore[misc]  # mypy does not know gdb
    """A breakpoint that notes whether it was hit, and never stops the program. It ends after the first hit, because
    further ones would cost time."""

    is_hit = False

    def stop(self) -> bool:
        """gdb calls this at each hit."""
        if not self.is_hit:
            gdb.post_event(self._disable)  # a breakpoint must not disable itself here
        self.is_hit = True
        return False

    def _disable(self) -> None:
        if self.is_valid():
            self.enabled = False
