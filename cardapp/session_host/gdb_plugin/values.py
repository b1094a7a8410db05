"""Reads the values of expressions at the stop, as gdb prints them. Expressions that change the program are refused."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import gdb

if TYPE_CHECKING:
    from cardapp.session_host.gdb_plugin.program import Program

MAX_BLOCKS = 4096
MAX_LABEL = 200

# gdb's defaults, passed explicitly because the learner may have changed them. See gdb.Value.format_string.
FORMAT: dict[str, Any] = {
    "raw": True,
    "pretty_arrays": False,
    "pretty_structs": False,
    "array_indexes": False,
    "symbols": True,
    "unions": True,
    "address": True,
    "deref_refs": False,
    "actual_objects": False,
    "static_members": True,
    "max_elements": 1000,
    "max_depth": 20,
    "repeat_threshold": 10,
}


def read(program: Program, expressions: list[str], allocator: dict[str, Any] | None) -> dict[str, Any]:
    """Read the expressions and the allocator in the newest frame.

    ``allocator`` is the recipe of the card's allocator, or None. Returns
    ``{values: {expression: {value, error}}, allocator, allocator_error, stop_id}``.
    """
    gdb.newest_frame().select()
    with _setting("may-call-functions", "off"), _setting("output-radix", "10"):
        values = {expression: _value(program, expression) for expression in expressions}
        found, fault = None, None
        if allocator is not None:
            try:
                found = _allocator(allocator)
            except (gdb.error, ValueError, OverflowError) as error:
                fault = str(error)
    return {"values": values, "allocator": found, "allocator_error": fault, "stop_id": program.state()["stop_id"]}


def _value(program: Program, expression: str) -> dict[str, str | None]:
    before = program.state()["stop_id"]
    try:
        text = _text(gdb.parse_and_eval(expression))
    except (gdb.error, RuntimeError, OverflowError) as error:
        return {"value": None, "error": str(error)}
    if program.state()["stop_id"] != before:
        return {"value": None, "error": f"{expression} changes the program, so it is not evaluated"}
    return {"value": text, "error": None}


def _text(value: gdb.Value) -> str:
    # A string is shown without its address, which differs between machines.
    is_string = _points_to_text(value) and int(value) != 0
    text = value.format_string(**(FORMAT | {"address": not is_string}))
    return str(text).strip()


def _points_to_text(value: gdb.Value) -> bool:
    kind = value.type.strip_typedefs()
    if kind.code != gdb.TYPE_CODE_PTR:
        return False
    target = kind.target().strip_typedefs()
    return target.code in (gdb.TYPE_CODE_INT, gdb.TYPE_CODE_CHAR) and target.sizeof == 1


# -- the allocator ---------------------------------------------------------------------------------------------------


def _allocator(recipe: dict[str, Any]) -> dict[str, Any]:
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


def _at(expression: str, index: int) -> str:
    """The expression for block ``index``. The text ``$i`` is replaced, because the learner may use gdb's ``$i``."""
    return re.sub(r"\$i\b", str(index), expression)


def _number(expression: str) -> int:
    value = gdb.parse_and_eval(expression)
    if value.type.strip_typedefs().code == gdb.TYPE_CODE_ARRAY:
        value = value.address
    return int(value)


def _label(value: gdb.Value) -> str | None:
    if _points_to_text(value):
        return None if int(value) == 0 else str(value.string("utf-8", "replace"))[:MAX_LABEL]
    if value.type.strip_typedefs().code == gdb.TYPE_CODE_ARRAY:
        return str(value.string("utf-8", "replace"))[:MAX_LABEL]
    return _text(value)


@contextlib.contextmanager
def _setting(name: str, value: str) -> Iterator[None]:
    before = gdb.parameter(name)
    text = {True: "on", False: "off"}.get(before, str(before)) if isinstance(before, bool) else str(before)
    gdb.execute(f"set {name} {value}", to_string=True)
    try:
        yield
    finally:
        gdb.execute(f"set {name} {text}", to_string=True)
