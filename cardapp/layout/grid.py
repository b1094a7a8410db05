"""Computes the page, the columns of each emitter, and the column of each component from a layout file.

Lengths are in millimetres, from ``tokens.page`` and ``tokens.grid``. An emitter uses the layout file's columns if their
number suits it, otherwise its default columns (``EMITTER_COLUMNS``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cardapp.errors import InvalidLayout
from cardapp.layout import layout_options
from cardapp.layout.layout_model import Arrangement, Column, Frame, Grid, Orientation, Page, Variant
from cardapp.layout.layout_options import ALL, GUTTER
from cardapp.layout.layout_warnings import LayoutWarnings
from cardapp.schema import shown

_PX_PER_MM = 96 / 25.4
_MIN_COLUMN, _MIN_BODY = 35.0, 80.0
"""Minimum width of a column and height of the body in mm, for a diagram or a readable line of code."""
_MIN_AUTO_COLUMN = 40.0
"""A column without a given width gets at least this many mm if there is space for all such columns. Narrower columns,
down to _MIN_COLUMN, are allowed only if the file gives the width, or if there is too little space."""
_MAX_CM = 200.0
_MAX_RATIO_ERROR = 0.01
"""Tolerated difference of the aspect ratios of pixels and paper, because pixels are whole numbers."""
_ROUNDING = 0.05
_PAGE_PLACE, _GEOMETRY_PLACE = ("tokens", "page"), ("tokens", "grid", "geometry_cm")


@dataclass(frozen=True)
class Paper:
    """The page, its frames within the margins, and the lengths of the layout file in mm by name."""

    page: Page
    header: Frame
    body: Frame
    footer: Frame
    size: Mapping[str, float]


def paper(
    tokens: Mapping[str, Any], columns: Iterable[str], variants: Iterable[Variant], warnings: LayoutWarnings
) -> Paper:
    """Compute the page and its frames. ``columns`` are the names that may have a width. ``variants`` are the emitters
    that use the page. Raises :class:`InvalidLayout` if the margins leave too little room."""
    given = tokens.get("grid", {})
    warnings.unknown_names(("tokens", "grid"), given, ("columns", "left_role", "right_role", "geometry_cm"))
    size = _geometry(given.get("geometry_cm", {}), columns, warnings)
    orientation: Orientation = "landscape" if "5b" in variants else "portrait"
    page = _page(tokens.get("page", {}), orientation, size, warnings)
    return Paper(page, *_frames(page, size), size)


# -- the paper -----------------------------------------------------------------------------------------------------


def _page(given: Mapping[str, Any], default: Orientation, size: Mapping[str, float], warnings: LayoutWarnings) -> Page:
    """Return the page in its orientation, ``default`` if none is given. The default size in pixels is 96 per inch."""
    warnings.unknown_names(_PAGE_PLACE, given, ("format", "orientation", "width_px", "height_px"))
    orientation = given.get("orientation", default)
    form, (short, long) = _paper(given.get("format", "A4"), size, warnings)
    width, height = (long, short) if orientation == "landscape" else (short, long)
    natural = round(width * _PX_PER_MM)
    width_px = warnings.number((*_PAGE_PLACE, "width_px"), given.get("width_px", natural), 100, 20_000, natural)
    natural = round(width_px * height / width)
    height_px = warnings.number((*_PAGE_PLACE, "height_px"), given.get("height_px", natural), 100, 20_000, natural)
    if abs(height_px / natural - 1) > _MAX_RATIO_ERROR:
        message = f"does not match the paper's aspect ratio of {width:g} x {height:g} mm; {natural} is used instead"
        warnings.add((*_PAGE_PLACE, "height_px"), message)
        height_px = natural
    return Page(form, orientation, width, height, width_px, height_px)


def _paper(form: str, size: Mapping[str, float], warnings: LayoutWarnings) -> tuple[str, tuple[float, float]]:
    """Return the format's name and its sides in mm, the shorter one first."""
    sides = sorted((size["page_width"], size["page_height"]))
    if form in layout_options.FORMATS:
        for name in ("page_width", "page_height"):
            if size[name]:
                message = f"has no effect: the size of {form} is fixed; to use this value, give the format another name"
                warnings.add((*_GEOMETRY_PLACE, name), message)
    elif all(sides):
        return form, (sides[0], sides[1])
    else:
        form = warnings.name((*_PAGE_PLACE, "format"), form, layout_options.FORMATS, "A4")
    return form, layout_options.FORMATS[form]


def _frames(page: Page, size: Mapping[str, float]) -> tuple[Frame, Frame, Frame]:
    """Return the frames of header, body and footer between the margins."""
    left, top = size["margin_left"], size["margin_top"]
    width = page.width - left - size["margin_right"]
    header = Frame(left, top, width, size["header"])
    footer = Frame(left, page.height - size["margin_bottom"] - size["footer"], width, size["footer"])
    start = top + size["header"]
    body = Frame(left, start, width, footer.y - start)
    if body.height < _MIN_BODY or width < _MIN_COLUMN:
        raise InvalidLayout.of(
            "/tokens/grid/geometry_cm",
            f"leaves {width / 10:.1f} x {body.height / 10:.1f} cm of {page.width / 10:g} x {page.height / 10:g} cm "
            f"for the parts, which need {_MIN_COLUMN / 10:g} x {_MIN_BODY / 10:g} cm: make the margins smaller",
        )
    return header, body, footer


# -- lengths and columns -------------------------------------------------------------------------------------------


def _geometry(given: Mapping[str, Any], columns: Iterable[str], warnings: LayoutWarnings) -> dict[str, float]:
    """Return the known lengths in mm, and the widths of the columns that have a width."""
    known = dict.fromkeys((*layout_options.GEOMETRY_CM, *columns))
    warnings.unknown_names(_GEOMETRY_PLACE, given, known)
    size = {name: default * 10 for name, (_, default) in layout_options.GEOMETRY_CM.items()}
    for name in (name for name in given if name in known):
        if not 0 <= given[name] <= _MAX_CM:
            raise InvalidLayout.of(f"/tokens/grid/geometry_cm/{name}", f"must be from 0 to {_MAX_CM:g} cm")
        size[name] = given[name] * 10
    return size


def grid(paper: Paper, names: Iterable[str], shares: Mapping[str, float], roles: Mapping[str, str]) -> Grid:
    """Place the columns and gutters ``names`` from left to right. Columns without a width share the rest by their
    ``shares``."""
    names, size = tuple(names), paper.size
    taken = sum(size.get(name, 0.0) for name in names)
    shared = _shared(paper.body.width - taken, {name: shares.get(name, 1.0) for name in names if name not in size})
    columns, x = [], paper.body.x
    for name in names:
        width = size[name] if name in size else shared[name]
        if name != layout_options.GUTTER:
            columns.append(Column(name, roles.get(name, ""), x, width))
        x += width
    if x > paper.body.x + paper.body.width + _ROUNDING or min(column.width for column in columns) < _MIN_COLUMN:
        widths = ", ".join(f"{column.name} {column.width / 10:.1f}" for column in columns)
        needed = (paper.page.width - paper.body.width + taken + _MIN_AUTO_COLUMN * len(shared)) / 10
        wider = f", or use a sheet that is {needed:.1f} cm wide" if needed * 10 > paper.page.width else ""
        raise InvalidLayout.of(
            "/tokens/grid/geometry_cm",
            f"columns ({widths} cm, with gutters {(x - paper.body.x) / 10:.1f} cm) must fit "
            f"{paper.body.width / 10:.1f} cm and have at least {_MIN_COLUMN / 10:g} cm each: make some columns or "
            f"the margins smaller{wider}",
        )
    return Grid(tuple(columns), paper.header, paper.body, paper.footer, size["row_gap"])


def _shared(room: float, shares: Mapping[str, float]) -> dict[str, float]:
    """Divide the width by the shares. A column below the minimum gets the minimum, and the others share the rest."""
    minimum = min(_MIN_AUTO_COLUMN, room / max(len(shares), 1))
    widths: dict[str, float] = {}
    for name in sorted(shares, key=shares.__getitem__):
        rest = sum(share for other, share in shares.items() if other not in widths)
        widths[name] = max(minimum, (room - sum(widths.values())) * shares[name] / rest)
    return widths


# -- the emitters' columns, and the components' columns --------------------------------------------------------------

_COLUMNS = ("left", GUTTER, "right")
_SIDES = ("left_role", "right_role")
_GRID, _READING = ("guide", "evidence"), ("notes", "reading")
"""The default roles of the first and the last column. ``_READING`` is for the default columns of the emitter
``classic``, ``_GRID`` for all other columns."""
_Names = tuple[str, ...]


class Arranger:
    """Computes the arrangements of one layout file. ``columns`` maps the name of each emitter to its columns and
    gutters."""

    def __init__(self, document: Mapping[str, Any], warnings: LayoutWarnings) -> None:
        self._document = document
        self._warnings = warnings
        given = document["tokens"].get("grid", {})
        from_file = self._file_columns = _file_columns(given.get("columns", _COLUMNS), warnings)
        self.columns: dict[Variant, _Names] = {
            variant: from_file if _suits(variant, from_file) else _emitter_columns(variant)
            for variant in dict.fromkeys(document["emitters"].values())
        }
        if "columns" in given and from_file not in self.columns.values():
            message = f"have no effect: the emitters use their default columns ({', '.join(self.names)})"
            warnings.add(("tokens", "grid", "columns"), message)
        self._roles = {
            side: warnings.name(("tokens", "grid", side), given[side], layout_options.ROLES, default)
            for side, default in zip(_SIDES, _GRID, strict=True)
            if side in given
        }

    @property
    def names(self) -> _Names:
        """The names of the columns of all emitters."""
        return tuple(dict.fromkeys(name for names in self.columns.values() for name in names if name != GUTTER))

    def arrangements(self, paper: Paper) -> dict[Variant, Arrangement]:
        """Return the arrangement of each emitter. Raises :class:`InvalidLayout` if its columns do not fit the paper."""
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
        """Return the roles of the first and the last column by the column's name. A role that the file gives replaces
        the default role. There is one exception: the default columns of the emitter ``classic`` keep their default
        roles, unless the file lists these columns itself."""
        names = [name for name in self.columns[variant] if name != GUTTER]
        is_reading = variant == "classic" and names == list(layout_options.EMITTER_COLUMNS[variant])
        roles = dict(zip(_SIDES, _READING if is_reading else _GRID, strict=True))
        if not is_reading or self._uses_file_columns(variant):
            roles |= self._roles
        return {names[-1]: roles["right_role"]} | {names[0]: roles["left_role"]}

    def _uses_file_columns(self, variant: Variant) -> bool:
        return self.columns[variant] == self._file_columns

    def _has_effect(self, side: str, variant: Variant, arrangement: Arrangement, mapped: Mapping[str, str]) -> bool:
        """Return whether another role for the first or last column (``side``) would move any component."""
        if variant == "classic" and not self._uses_file_columns(variant):
            return False
        *columns, at = arrangement.grid.columns if side == "right_role" else arrangement.grid.columns[::-1]
        others = ([*columns, replace(at, role=role)] for role in layout_options.ROLES)
        return any(
            _assigned(sorted(other, key=lambda column: column.x), mapped) != arrangement.columns for other in others
        )

    def _block_map(self) -> dict[str, str]:
        """Return the file's ``block_map`` without unknown components and columns. Adds warnings for these."""
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
    """Return the file's columns and gutters from left to right, without duplicate columns."""
    names: list[str] = []
    for place, name in enumerate(given):
        if name == GUTTER or (name not in names and name != ALL):
            names.append(name)
        else:
            message = f"{name!r} has no effect: a column may occur once, and {ALL!r} means the whole width"
            warnings.add(("tokens", "grid", "columns", str(place)), message)
    return tuple(names)


def _suits(variant: Variant, names: _Names) -> bool:
    """Return whether the emitter can use these columns: 5b needs three or more, the others two."""
    count = sum(name != GUTTER for name in names)
    return count >= 3 if variant == "5b" else count == 2


def _emitter_columns(variant: Variant) -> _Names:
    """Return the emitter's default columns, with gutters between them."""
    columns = [name for column in layout_options.EMITTER_COLUMNS[variant] for name in (GUTTER, column)]
    return tuple(columns[1:])


def _assigned(columns: Sequence[Column], mapped: Mapping[str, str]) -> dict[str, str]:
    """Return the column of each component: from ``block_map``; otherwise by the columns' names; otherwise by the
    columns' roles; otherwise "all"."""
    found = dict.fromkeys(layout_options.COMPONENTS, ALL)
    for column in reversed(columns):
        if column.role:
            found |= dict.fromkeys(layout_options.ROLES[column.role][1], column.name)
    for column in columns:
        found |= dict.fromkeys(layout_options.FIVE_PARTS.get(column.name, ()), column.name)
    names = {ALL, *(column.name for column in columns)}
    return found | {part: column for part, column in mapped.items() if column in names}
