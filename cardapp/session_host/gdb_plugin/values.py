"""Reads the values of expressions at the stop, as gdb prints them. Expressions that change the program are refused."""

from __future__ import annotations

import contextlib
import re
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import gdb

from cardapp.session_host.gdb_plugin import rendering, rust_values
from cardapp.session_host.gdb_plugin.causes import causes_at_stop
from cardapp.session_host.gdb_plugin.evaluation import evaluate, explained
from cardapp.session_host.gdb_plugin.frames import frame_with_source

MAX_BLOCKS = 4096
MAX_LABEL = 200
MAX_LOCALS = 200
MAX_LOCAL_TEXT = 2000
MAX_LOCALS_SECONDS = 1.5
"""After this time the rest of the locals are named only. Memory that is not initialised may hold any containers."""
_OF_COMPILER = re.compile(r"__(?:for_)?(?:range|begin|end)\d*$")
"""The variables that a compiler makes for ``for (item : items)``."""


def read(
    stop_id: Callable[[], str], expressions: list[str], formats: dict[str, str], allocator: dict[str, Any] | None
) -> dict[str, Any]:
    """Read the expressions and the allocator in the innermost frame with source.

    ``stop_id`` returns the program's present stop id. ``formats`` holds a letter of gdb's print formats for some of the
    expressions. ``allocator`` is the card's recipe of an arena or of linked nodes, or None. Returns
    ``{values: {expression: {value, error}}, allocator, allocator_error, causes, stop_id}``; see ``causes.py``.
    """
    frame = frame_with_source()
    if frame is not None:
        frame.select()
    with read_only(), setting("output-radix", "10"):
        values = {each: _value(stop_id, each, formats.get(each)) for each in expressions}
        found, fault = None, None
        if allocator is not None:
            try:
                found = _nodes(allocator) if "each" in allocator else _arena(allocator)
            except (gdb.error, ValueError, OverflowError) as error:
                fault = str(error)
    memory = {"allocator": found, "allocator_error": fault}
    return {"values": values, **memory, "causes": causes_at_stop(), "stop_id": stop_id()}


def _value(stop_id: Callable[[], str], expression: str, letter: str | None) -> dict[str, str | None]:
    before = stop_id()
    try:
        value = evaluate(expression)
        text = rendering.text(value, letter)
    except (gdb.error, RuntimeError, OverflowError) as error:
        return {"value": None, "error": explained(str(error))}
    if stop_id() != before:
        return {"value": None, "error": f"{expression} changes the program, so its value is not used"}
    return {"value": text, "error": None}


# -- the locals ------------------------------------------------------------------------------------------------------


def local_variables() -> list[dict[str, str]]:
    """``{name, type, value}`` of the arguments and locals of the innermost frame with source, as they are declared.

    A variable that is hidden by another variable of the same name is left out. For a value that cannot be read, gdb's
    message is shown.
    """
    frame = frame_with_source()
    symbols: dict[str, gdb.Symbol] = {}
    block = None if frame is None else _block_of(frame)
    while block is not None and not block.is_static and not block.is_global:
        for symbol in block:
            if (symbol.is_variable or symbol.is_argument) and not _OF_COMPILER.match(symbol.name):
                symbols.setdefault(symbol.name, symbol)
        block = None if block.function is not None else block.superblock
    declared = sorted(symbols.values(), key=lambda symbol: (not symbol.is_argument, symbol.line))
    end = time.monotonic() + MAX_LOCALS_SECONDS
    with read_only(), setting("output-radix", "10"):
        return [
            {"name": symbol.name, "type": str(symbol.type), "value": _local(symbol, frame, end)}
            for symbol in declared[:MAX_LOCALS]
        ]


def _block_of(frame: gdb.Frame) -> gdb.Block | None:
    try:
        return frame.block()
    except RuntimeError:  # the function was built without -g
        return None


def _local(symbol: gdb.Symbol, frame: gdb.Frame | None, end: float) -> str:
    if time.monotonic() > end:
        return "<not read: the locals before it took too long>"
    try:
        rust_values.check_readable(symbol.type)
        text = rendering.text(symbol.value(frame))
    except (gdb.error, RuntimeError, OverflowError) as error:
        text = f"<{error}>"
    return text if len(text) <= MAX_LOCAL_TEXT else f"{text[:MAX_LOCAL_TEXT]}…"


# -- the allocator ---------------------------------------------------------------------------------------------------


def _arena(recipe: dict[str, Any]) -> dict[str, Any]:
    high_water = recipe.get("high_water")
    return {
        "base": _number(recipe["base"]),
        "size": _number(recipe["size"]),
        "used": _number(recipe["used"]),
        "high_water": None if high_water is None else _number(high_water),
        "blocks": _blocks(recipe["blocks"]) if recipe.get("blocks") else [],
    }


def _blocks(recipe: dict[str, str]) -> list[dict[str, Any]]:
    count = _number(recipe["count"])
    if not 0 <= count <= MAX_BLOCKS:
        raise ValueError(f"{recipe['count']} is {count}; 0 to {MAX_BLOCKS} blocks can be read")
    label = recipe.get("label")
    return [
        {
            "offset": _number(_at(recipe["offset"], index)),
            "size": _number(_at(recipe["size"], index)),
            "label": None if label is None else _label(gdb.parse_and_eval(_at(label, index))),
        }
        for index in range(count)
    ]


def _nodes(recipe: dict[str, Any]) -> dict[str, Any]:
    """Read each of the linked nodes once: a list in its order, a tree level by level.

    They are not in an arena, so the ``offset`` of a block is the node's address.
    """
    each, label = recipe["each"], recipe["blocks"].get("label")
    blocks: list[dict[str, Any]] = []
    with _convenience_variable_restored("node"):
        waiting, seen = deque([gdb.parse_and_eval(each["first"])]), set()
        while waiting and len(blocks) < each["max"]:
            node = waiting.popleft()
            if int(node) == 0 or int(node) in seen:  # in a ring, or a list linked both ways, a node is reached again
                continue
            seen.add(int(node))
            gdb.set_convenience_variable("node", node)
            blocks.append(
                {
                    "offset": _number(recipe["blocks"]["address"]),
                    "size": _number(recipe["blocks"]["size"]),
                    "label": None if label is None else _label(gdb.parse_and_eval(label)),
                }
            )
            waiting.extend(gdb.parse_and_eval(following) for following in each["following"])
    return {"base": None, "size": None, "used": None, "high_water": None, "blocks": blocks}


@contextlib.contextmanager
def _convenience_variable_restored(name: str) -> Iterator[None]:
    before = gdb.convenience_variable(name)
    try:
        yield
    finally:
        gdb.set_convenience_variable(name, before)


def _at(expression: str, index: int) -> str:
    """The expression for block ``index``. The text ``$i`` is replaced, because the learner may use gdb's ``$i``."""
    return re.sub(r"\$i\b", str(index), expression)


def _number(expression: str) -> int:
    value = gdb.parse_and_eval(expression)
    if value.type.strip_typedefs().code == gdb.TYPE_CODE_ARRAY:
        value = value.address
    return int(value)


def _label(value: gdb.Value) -> str | None:
    code = value.type.strip_typedefs().code
    if code == gdb.TYPE_CODE_PTR and int(value) == 0:
        return None
    if code == gdb.TYPE_CODE_ARRAY or rendering.points_to_text(value):
        return str(value.string("utf-8", "replace"))[:MAX_LABEL]
    return rendering.text(value)


@contextlib.contextmanager
def read_only() -> Iterator[None]:
    """Make gdb refuse expressions that call a function of the program or write its memory.

    gdb cannot refuse to write registers while a program runs.
    """
    with setting("may-call-functions", "off"), setting("may-write-memory", "off"):
        yield


@contextlib.contextmanager
def setting(name: str, value: str) -> Iterator[None]:
    """Set gdb's setting ``name`` for a while."""
    before = gdb.parameter(name)
    words = {True: "on", False: "off", None: "unlimited"}
    text = words[before] if isinstance(before, bool | None) else str(before)
    gdb.execute(f"set {name} {value}", to_string=True)
    try:
        yield
    finally:
        gdb.execute(f"set {name} {text}", to_string=True)
