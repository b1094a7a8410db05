"""Finds causes why a program did not reach a stop, or reached it in another way than its card says: sentences for
messages."""

from __future__ import annotations

import os
from typing import Any

import gdb

from cardapp.session_host.gdb_plugin.frames import frame_with_source, function_at

WITHOUT_G = "the program was built without -g, so gdb knows neither its lines nor its variables"


def causes_at_stop() -> list[str]:
    """Possible causes of unexpected places and values of the stopped program."""
    found = []
    inlined = _inlined_at(gdb.newest_frame())
    if inlined is not None:
        found.append(f"{inlined} is inlined here, so it has no frame and its variables may be gone; build with -O0")
    frame = frame_with_source()
    if frame is not None and frame.find_sal().symtab is None and not has_debug_information():
        found.append(WITHOUT_G)
    if len(gdb.selected_inferior().threads()) > 1:
        found.append("the program has threads at this stop, so their order may differ from run to run")
    return found


def cause_of_missing_code(stop: dict[str, Any]) -> str | None:
    """Why the program has no code at ``{file, line}`` or ``{function, file?}``; None if gdb does not know it."""
    if not has_debug_information():
        return WITHOUT_G
    if "file" not in stop:
        return None
    name = os.path.basename(stop["file"])
    if not _is_known(stop["file"]):
        return (
            f"gdb knows no line of {name}: it was built without -g, it belongs to a library that was not loaded, or it "
            "is no part of the program"
        )
    if "function" in stop and _is_inlined_in(stop["function"], stop["file"]):
        return f"{stop['function']} is inlined wherever it is called; build with -O0"
    return None


def has_debug_information() -> bool:
    """Whether the program was built with -g. Its libraries do not count."""
    return ": .debug_info " in gdb.execute("maint info sections .debug_info", to_string=True)


def _inlined_at(frame: gdb.Frame) -> str | None:
    """The function whose inlined code begins at the stop, although gdb shows the frame of its caller."""
    symbol = function_at(frame.pc())
    shown = frame.function()
    if symbol is None or shown is None or symbol.name == shown.name:
        return None
    return str(symbol.print_name)


def _is_known(file: str) -> bool:
    try:
        return bool(gdb.decode_line(f"'{file}':1"))
    except gdb.error:
        return False


def _is_inlined_in(function: str, file: str) -> bool:
    """Whether the program executes ``function`` of ``file``, if gdb does not find it as a function there."""
    try:
        _, places = gdb.decode_line(function)
    except gdb.error:
        return False
    found = [function_at(place.pc, function) for place in places or ()]
    return any(symbol is not None and symbol.symtab.fullname() == file for symbol in found)
