"""Where the program is stopped: file, line and function, as a replay reports them."""

from __future__ import annotations

import signal
from typing import Any

import gdb


def frame_with_source() -> gdb.Frame | None:
    """The innermost frame with a source line, which skips library frames; the newest frame if none has one."""
    frame = gdb.newest_frame()
    newest = frame
    while frame is not None:
        if frame.find_sal().symtab is not None:
            return frame
        frame = frame.older()
    return newest


def place_of(frame: gdb.Frame | None) -> dict[str, Any]:
    """``{file, line, function}`` of a frame; None for what gdb does not know."""
    if frame is None:
        return {"file": None, "line": None, "function": None}
    position = frame.find_sal()
    name = frame.name()
    if position.symtab is None:
        return {"file": None, "line": None, "function": name}
    return {"file": position.symtab.fullname(), "line": position.line, "function": name}


def current_place() -> dict[str, Any] | None:
    """``{file, line, function, inside}`` of the stopped program, None if gdb cannot tell.

    ``inside`` is the library function that the program is in, if it is in one.
    """
    try:
        found = place_of(frame_with_source())
        newest = gdb.newest_frame().name()
    except gdb.error:
        return None
    return found | {"inside": newest if newest != found["function"] else None}


def exit_signal() -> str:
    """The name of the signal that ended the program."""
    number = gdb.convenience_variable("_exitsignal")
    if number is None:
        return "a signal"
    try:
        return signal.Signals(int(number)).name
    except ValueError:
        return f"signal {int(number)}"
