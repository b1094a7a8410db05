"""What each emitter makes of a layout's columns: as the file has them, or folded to as many as the emitter has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from cardapp.layout import layout_options
from cardapp.layout.geometry import Paper, grid
from cardapp.layout.layout_options import ALL, GUTTER
from cardapp.layout.layout_warnings import LayoutWarnings
from cardapp.layout.template import Arrangement, Column, Variant
from cardapp.schema import shown

_COLUMNS = ("left", GUTTER, "right")
_SIDES = ("left_role", "right_role")
_GRID, _READING = ("guide", "evidence"), ("notes", "reading")
"""The roles where a file gives none."""
_Names = tuple[str, ...]


class Arranger:
    """Arranges one layout file: ``columns`` are those of its emitters, by the emitter's name, gutters among them."""

    def __init__(self, document: Mapping[str, Any], warnings: LayoutWarnings) -> None:
        self._document = document
        self._warnings = warnings
        given = document["tokens"].get("grid", {})
        own = self._own = _own(given.get("columns", _COLUMNS), warnings)
        self.columns: dict[Variant, _Names] = {
            variant: own if _suits(variant, own) else _folded(variant)
            for variant in dict.fromkeys(document["emitters"].values())
        }
        if own not in self.columns.values():
            message = f"have no effect: the emitters' own are used ({', '.join(self.names)})"
            warnings.add(("tokens", "grid", "columns"), message)
        self._roles = {
            side: warnings.name(("tokens", "grid", side), given[side], layout_options.ROLES, default)
            for side, default in zip(_SIDES, _GRID, strict=True)
            if side in given
        }

    @property
    def names(self) -> _Names:
        """Every column of any of the emitters."""
        return tuple(dict.fromkeys(name for names in self.columns.values() for name in names if name != GUTTER))

    def arrangements(self, paper: Paper) -> dict[Variant, Arrangement]:
        """The arrangement of each emitter; :class:`InvalidLayout` where its columns do not fit the paper."""
        mapped = self._block_map()
        found: dict[Variant, Arrangement] = {}
        for variant, names in self.columns.items():
            made = grid(paper, names, layout_options.FOLDS[variant], self._roles_of(variant))
            found[variant] = Arrangement(made, _placed(made.columns, mapped))
        for side in self._roles:
            if not any(self._counts(side, variant, each, mapped) for variant, each in found.items()):
                message = "has no effect: block_map, the columns' names or the emitters place all parts"
                self._warnings.add(("tokens", "grid", side), message)
        return found

    def _roles_of(self, variant: Variant) -> dict[str, str]:
        """The file's roles; where it gives none, and for the notes and the reading of ``classic``'s own columns, those
        of the emitter."""
        held = [name for name in self.columns[variant] if name != GUTTER]
        is_reading = variant == "classic" and held == list(layout_options.FOLDS[variant])
        roles = dict(zip(_SIDES, _READING if is_reading else _GRID, strict=True))
        if not is_reading or self._takes_own(variant):
            roles |= self._roles
        return {held[-1]: roles["right_role"]} | {held[0]: roles["left_role"]}

    def _takes_own(self, variant: Variant) -> bool:
        return self.columns[variant] == self._own

    def _counts(self, side: str, variant: Variant, arrangement: Arrangement, mapped: Mapping[str, str]) -> bool:
        """Whether a part would stand elsewhere if the file gave another role to its column at that side."""
        if variant == "classic" and not self._takes_own(variant):
            return False
        *columns, at = arrangement.grid.columns if side == "right_role" else arrangement.grid.columns[::-1]
        others = ([*columns, replace(at, role=role)] for role in layout_options.ROLES)
        return any(
            _placed(sorted(other, key=lambda column: column.x), mapped) != arrangement.columns for other in others
        )

    def _block_map(self) -> dict[str, str]:
        """What the file says of known components and columns."""
        given = self._document.get("block_map", {})
        movable = [name for name in layout_options.COMPONENTS if name not in layout_options.UNPLACED]
        self._warnings.unknown_names(("block_map",), given, movable)
        known = (ALL, *self.names)
        found = {}
        for name in movable:
            if name in given and isinstance(given[name], str) and given[name] in known:
                found[name] = given[name]
            elif name in given:
                message = f"{shown(given[name])} is no column and has no effect; known: {', '.join(known)}"
                self._warnings.add(("block_map", name), message)
        return found


def _own(given: list[str] | _Names, warnings: LayoutWarnings) -> _Names:
    """The file's columns and gutters from left to right; no column stands twice."""
    names: list[str] = []
    for place, name in enumerate(given):
        if name == GUTTER or (name not in names and name != ALL):
            names.append(name)
        else:
            message = f"{name!r} has no effect: a column stands once, and {ALL!r} is the name of all together"
            warnings.add(("tokens", "grid", "columns", str(place)), message)
    return tuple(names)


def _suits(variant: Variant, names: _Names) -> bool:
    held = sum(name != GUTTER for name in names)
    return held >= 3 if variant == "5b" else held == 2


def _folded(variant: Variant) -> _Names:
    """The emitter's own columns, a gutter between each two."""
    columns = [name for column in layout_options.FOLDS[variant] for name in (GUTTER, column)]
    return tuple(columns[1:])


def _placed(columns: Sequence[Column], mapped: Mapping[str, str]) -> dict[str, str]:
    """The column of every component by the columns' roles and names, all of them for the rest; and over it that of
    ``block_map`` where it is one of the columns."""
    found = dict.fromkeys(layout_options.COMPONENTS, ALL)
    for column in reversed(columns):
        if column.role:
            found |= dict.fromkeys(layout_options.ROLES[column.role][1], column.name)
    for column in columns:
        found |= dict.fromkeys(layout_options.FIVE_PARTS.get(column.name, ()), column.name)
    names = {ALL, *(column.name for column in columns)}
    return found | {part: column for part, column in mapped.items() if column in names}
