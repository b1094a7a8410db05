"""The columns of each emitter, and the column of each component.

An emitter uses the layout file's columns if their number suits it, else columns of its own (``EMITTER_COLUMNS``).
"""

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
"""The default roles of the first and last column: of a grid, and of ``classic``'s own columns."""
_Names = tuple[str, ...]


class Arranger:
    """Arranges one layout file. ``columns`` are the columns and gutters of each emitter, by the emitter's name."""

    def __init__(self, document: Mapping[str, Any], warnings: LayoutWarnings) -> None:
        self._document = document
        self._warnings = warnings
        given = document["tokens"].get("grid", {})
        own = self._file_columns = _file_columns(given.get("columns", _COLUMNS), warnings)
        self.columns: dict[Variant, _Names] = {
            variant: own if _suits(variant, own) else _emitter_columns(variant)
            for variant in dict.fromkeys(document["emitters"].values())
        }
        if own not in self.columns.values():
            message = f"have no effect: the emitters use columns of their own ({', '.join(self.names)})"
            warnings.add(("tokens", "grid", "columns"), message)
        self._roles = {
            side: warnings.name(("tokens", "grid", side), given[side], layout_options.ROLES, default)
            for side, default in zip(_SIDES, _GRID, strict=True)
            if side in given
        }

    @property
    def names(self) -> _Names:
        """The columns of all emitters."""
        return tuple(dict.fromkeys(name for names in self.columns.values() for name in names if name != GUTTER))

    def arrangements(self, paper: Paper) -> dict[Variant, Arrangement]:
        """The arrangement of each emitter; :class:`InvalidLayout` if its columns do not fit the paper."""
        mapped = self._block_map()
        found: dict[Variant, Arrangement] = {}
        for variant, names in self.columns.items():
            made = grid(paper, names, layout_options.EMITTER_COLUMNS[variant], self._roles_of(variant))
            found[variant] = Arrangement(made, _assigned(made.columns, mapped))
        for side in self._roles:
            if not any(self._has_effect(side, variant, each, mapped) for variant, each in found.items()):
                message = (
                    "has no effect: block_map, the columns' names or the emitters determine the column of every part"
                )
                self._warnings.add(("tokens", "grid", side), message)
        return found

    def _roles_of(self, variant: Variant) -> dict[str, str]:
        """The roles of the first and last column: the file's, else the defaults. The own columns of ``classic`` always
        have its roles, unless the file gives the same columns."""
        names = [name for name in self.columns[variant] if name != GUTTER]
        is_reading = variant == "classic" and names == list(layout_options.EMITTER_COLUMNS[variant])
        roles = dict(zip(_SIDES, _READING if is_reading else _GRID, strict=True))
        if not is_reading or self._uses_file_columns(variant):
            roles |= self._roles
        return {names[-1]: roles["right_role"]} | {names[0]: roles["left_role"]}

    def _uses_file_columns(self, variant: Variant) -> bool:
        return self.columns[variant] == self._file_columns

    def _has_effect(self, side: str, variant: Variant, arrangement: Arrangement, mapped: Mapping[str, str]) -> bool:
        """Whether another role for the column at that side would move any component."""
        if variant == "classic" and not self._uses_file_columns(variant):
            return False
        *columns, at = arrangement.grid.columns if side == "right_role" else arrangement.grid.columns[::-1]
        others = ([*columns, replace(at, role=role)] for role in layout_options.ROLES)
        return any(
            _assigned(sorted(other, key=lambda column: column.x), mapped) != arrangement.columns for other in others
        )

    def _block_map(self) -> dict[str, str]:
        """The file's ``block_map`` without unknown components and columns, for which it adds warnings."""
        given = self._document.get("block_map", {})
        movable = [name for name in layout_options.COMPONENTS if name not in layout_options.UNPLACED]
        self._warnings.unknown_names(("block_map",), given, movable)
        known = (ALL, *self.names)
        found = {}
        for name in movable:
            if name in given and isinstance(given[name], str) and given[name] in known:
                found[name] = given[name]
            elif name in given:
                message = f"{shown(given[name])} is not a column and has no effect; known: {', '.join(known)}"
                self._warnings.add(("block_map", name), message)
        return found


def _file_columns(given: list[str] | _Names, warnings: LayoutWarnings) -> _Names:
    """The file's columns and gutters from left to right, without duplicate columns."""
    names: list[str] = []
    for place, name in enumerate(given):
        if name == GUTTER or (name not in names and name != ALL):
            names.append(name)
        else:
            message = f"{name!r} has no effect: a column may occur once, and {ALL!r} means the whole width"
            warnings.add(("tokens", "grid", "columns", str(place)), message)
    return tuple(names)


def _suits(variant: Variant, names: _Names) -> bool:
    """Whether the emitter can use these columns: 5b needs three or more, the others two."""
    count = sum(name != GUTTER for name in names)
    return count >= 3 if variant == "5b" else count == 2


def _emitter_columns(variant: Variant) -> _Names:
    """The emitter's own columns, with gutters between them."""
    columns = [name for column in layout_options.EMITTER_COLUMNS[variant] for name in (GUTTER, column)]
    return tuple(columns[1:])


def _assigned(columns: Sequence[Column], mapped: Mapping[str, str]) -> dict[str, str]:
    """The column of each component: from ``block_map``, else by the columns' names, else by their roles, else "all"."""
    found = dict.fromkeys(layout_options.COMPONENTS, ALL)
    for column in reversed(columns):
        if column.role:
            found |= dict.fromkeys(layout_options.ROLES[column.role][1], column.name)
    for column in columns:
        found |= dict.fromkeys(layout_options.FIVE_PARTS.get(column.name, ()), column.name)
    names = {ALL, *(column.name for column in columns)}
    return found | {part: column for part, column in mapped.items() if column in names}
