"""Makes breakpoints that print no message in the debugger window."""

from __future__ import annotations

from typing import Any

import gdb

_PARAMETERS: list[Any] = []


def quietly_made(kind: type[gdb.Breakpoint], place: dict[str, Any]) -> gdb.Breakpoint:
    """Make a breakpoint. gdb prints a message if the breakpoint waits for a library. Only the output of a command can
    be caught, so a command makes the breakpoint."""
    _PARAMETERS[:] = [kind, place]
    gdb.execute(f"python import {__name__} as breakpoints; breakpoints.make_breakpoint()", to_string=True)
    made: gdb.Breakpoint = _PARAMETERS[0]
    return made


def make_breakpoint() -> None:
    kind, place = _PARAMETERS
    _PARAMETERS[:] = [kind(**place)]
