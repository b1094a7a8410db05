"""Where the program is stopped: frames, and the place that is shown for a stop."""

from __future__ import annotations

import contextlib
import os
from typing import Any

import gdb

MAX_FRAMES = 64


def frame_with_source() -> gdb.Frame | None:
    """The innermost frame whose source file exists. So frames of libraries are skipped. If no frame has a source file,
    the newest frame."""
    frame = gdb.newest_frame()
    newest = frame
    while frame is not None:
        symtab = frame.find_sal().symtab
        if symtab is not None and os.path.exists(symtab.fullname()):
            return frame
        frame = frame.older()
    return newest


def place_of(frame: gdb.Frame | None) -> dict[str, Any]:
    """``{file, line, function}`` of a frame; a value that gdb does not know is None."""
    if frame is None:
        return {"file": None, "line": None, "function": None}
    position = frame.find_sal()
    name = frame.name()
    if position.symtab is None:
        return {"file": None, "line": None, "function": name}
    return {"file": position.symtab.fullname(), "line": position.line, "function": name}


def shown_place() -> dict[str, Any]:
    """``{file, line, function, inside}`` of the stopped program.

    The place is that of :func:`frame_with_source`. If the newest frame is another frame, ``inside`` is the name of its
    function, or of its library if gdb does not know the function; otherwise ``inside`` is None. Raises ``gdb.error`` if
    gdb does not know the frames.
    """
    frame, newest = frame_with_source(), gdb.newest_frame()
    inside = None if newest == frame else newest.name() or os.path.basename(gdb.solib_name(newest.pc()) or "??")
    return place_of(frame) | {"inside": inside}


def current_place() -> dict[str, Any] | None:
    """The :func:`shown_place`; None if gdb does not know it."""
    try:
        return shown_place()
    except gdb.error:
        return None


def call_stack() -> list[dict[str, Any]]:
    """``{level, function, file, line}`` of the frames, from the newest one outwards; at most :data:`MAX_FRAMES`."""
    found: list[dict[str, Any]] = []
    with contextlib.suppress(gdb.error):  # a program that has destroyed its stack
        frame = gdb.newest_frame()
        while frame is not None and len(found) < MAX_FRAMES:
            found.append({"level": len(found)} | place_of(frame))
            frame = frame.older()
    return found


# -- functions ---------------------------------------------------------------------------------------------------------


def function_at(address: int, name: str = "") -> gdb.Symbol | None:
    """The symbol of the innermost function at ``address``. If functions are inlined there, the one whose name ends with
    ``name``."""
    block = gdb.block_for_pc(address)
    while block is not None and not block.is_static and not block.is_global:
        symbol = block.function
        if symbol is not None and (not _is_inlined(block) or _bare(symbol.name).endswith(_bare(name))):
            return symbol
        block = block.superblock
    return None


def defined_at(address: int, name: str) -> gdb.Symbol | None:
    """The symbol of the function ``name`` whose own code, not an inlined copy, contains ``address``; None if this is
    another function's code."""
    block = gdb.block_for_pc(address)
    while block is not None and (block.function is None or _is_inlined(block)):
        block = block.superblock
    return block.function if block is not None and _bare(block.function.name).endswith(_bare(name)) else None


def _is_inlined(block: gdb.Block) -> bool:
    """Whether ``block``, the block of a function, is inlined in another function."""
    outer = block.superblock
    while outer is not None and not outer.is_static and not outer.is_global:
        if outer.function is not None:
            return True
        outer = outer.superblock
    return False


def _bare(function: str) -> str:
    return function.split("(", 1)[0]
