"""The viewer state (zoom, scroll position, visible panels): checks changes to it and merges them."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import Any

from cardapp.errors import EditorSyncOff, FieldError, InvalidValue

MIN_SCALE, MAX_SCALE = 0.1, 8.0

State = dict[str, Any]

FRESH: State = {
    "scale": 1,
    "scroll": {"x": 0, "y": 0, "page_index": 0, "sheet_scroll_top": 0},
    "viewer": {
        "page": {"fit": True, "expanded": False},
        "editor": {"visible": True, "sync": True, "control": False, "expanded": False, "fit": True},
        "allocator": {"visible": False},
    },
}


@dataclass(frozen=True)
class Merged:
    """The result of a patch: the new state and the dotted names of the values that changed."""

    state: State
    changed: tuple[str, ...]

    @property
    def noteworthy(self) -> tuple[str, ...]:
        """The changes that are recorded as an event: flags and the page, but not scrolling or zooming."""
        return tuple(name for name in self.changed if name.startswith("viewer.") or name == "scroll.page_index")


def merge(current: State, patch: State, page_count: int) -> Merged:
    """Deep-merge ``patch``, which meets its schema, into ``current``, and check the result.

    If the editor's sync is turned off, its control is turned off too. Control can be turned on only if sync is on, or
    if the same patch turns sync on.

    :raises InvalidValue, EditorSyncOff: a value is out of range, or control is turned on without sync.
    """
    state = _merged(current, patch)
    _check_values(state, page_count)
    editor, was_on = state["viewer"]["editor"], current["viewer"]["editor"]["sync"]
    if not editor["sync"]:
        if editor["control"] and not was_on:
            message = "requires viewer.editor.sync: set sync to true in the same request"
            raise EditorSyncOff(
                f"viewer.editor.control {message}", errors=(FieldError("/viewer/editor/control", message),)
            )
        editor["control"] = False
    return Merged(state, tuple(_changes(current, state, "")))


def repair(state: State, page_count: int) -> State:
    """Complete the stored state with defaults. If the card now has fewer pages, the last page is used."""
    repaired = _merged(FRESH, state)
    repaired["scroll"]["page_index"] = min(repaired["scroll"]["page_index"], page_count - 1)
    return repaired


def _merged(current: State, patch: State) -> State:
    result = copy.deepcopy(current)
    for name, value in patch.items():
        inner = result.get(name)
        if isinstance(inner, dict) and isinstance(value, dict):
            result[name] = _merged(inner, value)
        else:
            result[name] = value + 0.0 if isinstance(value, float) else value  # -0.0 + 0.0 is 0.0
    return result


def _check_values(state: State, page_count: int) -> None:
    faults = []
    scale = state["scale"]
    if not (math.isfinite(scale) and MIN_SCALE <= scale <= MAX_SCALE):
        faults.append(FieldError("/scale", f"must be from {MIN_SCALE} to {MAX_SCALE:g}"))
    for name in ("x", "y", "sheet_scroll_top"):
        value = state["scroll"][name]
        if not (math.isfinite(value) and value >= 0):
            faults.append(FieldError(f"/scroll/{name}", "must be finite and not negative"))
    page = state["scroll"]["page_index"]
    if not 0 <= page < page_count:
        faults.append(FieldError("/scroll/page_index", f"must be an existing page, from 0 to {page_count - 1}"))
    if faults:
        raise InvalidValue(f"{faults[0].pointer} {faults[0].message}", errors=tuple(faults))


def _changes(before: State, after: State, prefix: str) -> list[str]:
    found: list[str] = []
    for name, value in after.items():
        if isinstance(value, dict):
            found += _changes(before[name], value, f"{prefix}{name}.")
        elif before[name] != value:
            found.append(prefix + name)
    return found
