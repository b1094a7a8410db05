"""Collects warnings while a layout file is read: values without effect, or with an effect that is not expected."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from cardapp.errors import FieldError
from cardapp.schema import pointer, shown

Place = tuple[str, ...]


class LayoutWarnings:
    """The warnings of one layout file, in the order of detection."""

    def __init__(self) -> None:
        self._found: list[FieldError] = []

    @property
    def all(self) -> tuple[FieldError, ...]:
        return tuple(self._found)

    def add(self, place: Place, message: str) -> None:
        self._found.append(FieldError(pointer(place), message))

    def unknown_names(self, place: Place, names: Iterable[str], known: Iterable[str]) -> None:
        """Add a warning for each unknown name."""
        known = tuple(dict.fromkeys(known))
        for name in names:
            if name not in known:
                self.add((*place, name), f"is unknown and has no effect; known: {', '.join(known)}")

    def mapping(self, place: Place, value: Any) -> Mapping[str, Any]:
        """The object at a place where the schema allows any value; a warning and {} for anything else."""
        if isinstance(value, Mapping):
            return value
        self.add(place, f"has no effect: it must be an object, not {shown(value)}")
        return {}

    def name(self, place: Place, value: Any, known: Iterable[str], default: str) -> str:
        """``value`` if it is a known name, else a warning and the default."""
        known = tuple(known)
        if isinstance(value, str) and value in known:
            return value
        self.add(place, f"{shown(value)} is unknown, and {default} is used instead; known: {', '.join(known)}")
        return default

    def number(self, place: Place, value: Any, least: float, most: float, default: float) -> float:
        """``value`` if it is a number from ``least`` to ``most``, else a warning and the default."""
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if is_number and math.isfinite(value) and least <= value <= most:
            return float(value)
        self.add(place, f"must be a number from {least:g} to {most:g}, not {shown(value)}; {default:g} is used instead")
        return default
