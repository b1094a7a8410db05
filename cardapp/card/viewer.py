"""The viewer state: zoom, scroll position and visible panels; how changes are merged, and which are allowed."""

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
    """The result of a patch: the new state, and the dotted names of the changed values."""

    state: State
    changed: tuple[str, ...]

    @property
    def noteworthy(self) -> tuple[str, ...]:
        """The changes that are recorded as an event: flags and the page, but neither scrolling nor zooming."""
        return tuple(name for name in self.changed if name.startswith("viewer.") or name == "scroll.page_index")


def merge(current: State, patch: State, page_count: int) -> Merged:
    """Deep-merge ``patch``, which meets its schema, into ``current``, and check values and editor transitions.

    The transitions: turning sync off also turns control off; turning control on requires that sync is on, or is turned
    on by the same patch.
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
    """The stored state; the page is clamped if the card has fewer pages now."""
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
