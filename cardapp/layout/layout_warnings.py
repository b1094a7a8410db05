"""Collects warnings while a layout file is read: about values that have no effect, or an unexpected one."""

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
        """Return ``value`` if it is an object. Otherwise add a warning and return {}, because the schema allows any
        value here."""
        if isinstance(value, Mapping):
            return value
        self.add(place, f"has no effect: it must be an object, not {shown(value)}")
        return {}

    def name(self, place: Place, value: Any, known: Iterable[str], default: str) -> str:
        """Return ``value`` if it is a known name. Otherwise add a warning and return the default."""
        known = tuple(known)
        if isinstance(value, str) and value in known:
            return value
        self.add(place, f"{shown(value)} is unknown, and {default} is used instead; known: {', '.join(known)}")
        return default

    def number(self, place: Place, value: Any, minimum: float, maximum: float, default: float) -> float:
        """Return ``value`` if it is a number from ``minimum`` to ``maximum``. Otherwise add a warning and return the
        default."""
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if is_number and math.isfinite(value) and minimum <= value <= maximum:
            return float(value)
        self.add(
            place, f"must be a number from {minimum:g} to {maximum:g}, not {shown(value)}; {default:g} is used instead"
        )
        return default
