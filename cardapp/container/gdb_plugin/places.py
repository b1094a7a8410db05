"""Where the program stands, in words for people and for the card."""

from __future__ import annotations

import signal
from typing import Any

import gdb


def frame_with_source() -> gdb.Frame | None:
    """The innermost frame that has a line of source; the C library's own have none here."""
    frame = gdb.newest_frame()
    newest = frame
    while frame is not None:
        if frame.find_sal().symtab is not None:
            return frame
        frame = frame.older()
    return newest


def place_of(frame: gdb.Frame | None) -> dict[str, Any]:
    if frame is None:
        return {"file": None, "line": None, "function": None}
    spot = frame.find_sal()
    name = frame.name()
    if spot.symtab is None:
        return {"file": None, "line": None, "function": name}
    return {"file": spot.symtab.fullname(), "line": spot.line, "function": name}


def here() -> dict[str, Any] | None:
    """Where the program stands, or nothing where gdb cannot tell; ``inside`` names the library function it is in."""
    try:
        found = place_of(frame_with_source())
        inside = gdb.newest_frame().name()
    except gdb.error:
        return None
    return found | {"inside": inside if inside != found["function"] else None}


def exit_signal() -> str:
    number = gdb.convenience_variable("_exitsignal")
    if number is None:
        return "a signal"
    try:
        return signal.Signals(int(number)).name
    except ValueError:
        return f"signal {int(number)}"
