"""A layout file as frozen dataclasses, with a default for every token (source: ``card-template.v1``).

Lengths are in millimetres unless a name says otherwise, type sizes in points. Names of components, columns, roles,
colours and sizes are those of ``layout_options.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from cardapp.errors import FieldError

Variant = Literal["classic", "5a", "5b"]
Orientation = Literal["portrait", "landscape"]


@dataclass(frozen=True)
class Page:
    """One sheet of paper, and the pixels it has on a screen at zoom 1. ``width`` and ``height`` are as turned: a
    landscape page is wider than high."""

    format: str
    orientation: Orientation
    width: float
    height: float
    width_px: float
    height_px: float


class Frame(NamedTuple):
    """A rectangle on a sheet, in mm from its top left corner."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True)
class Column:
    """A column that holds parts (a gutter is only the distance between two). ``role`` is the grid's ``left_role`` for
    the first column, its ``right_role`` for the last, "" between them."""

    name: str
    role: str
    x: float
    width: float


@dataclass(frozen=True)
class Grid:
    """Where things stand on a sheet: the columns from left to right, all within ``body``; header and footer span the
    body's width. ``row_gap`` is the distance between two parts, one below the other."""

    columns: tuple[Column, ...]
    header: Frame
    body: Frame
    footer: Frame
    row_gap: float

    def column(self, name: str) -> Column:
        """The column called ``name``; "all" is the whole width of the body."""
        found = (column for column in self.columns if column.name == name)
        return next(found, Column("all", "", self.body.x, self.body.width))


@dataclass(frozen=True)
class Typography:
    """``families`` (``text``, ``code``): font families, the wanted one first. ``sizes_pt`` (a point is 1/72 inch) and
    ``line_height`` (a factor of the size) go by the names of sizes: title, block, phase, step, body, label, code.
    ``weights``: regular, strong (100 to 900)."""

    families: Mapping[str, tuple[str, ...]]
    sizes_pt: Mapping[str, float]
    line_height: Mapping[str, float]
    weights: Mapping[str, int]


@dataclass(frozen=True)
class Component:
    """How one kind of part looks and where it goes. ``column`` is a column's name or "all"; ``size`` names a type size;
    ``color``, ``background`` and ``rule`` (a line at its left edge; below a header, above a footer) name colours, None
    is none. ``label`` is the word that its caption begins with.

    ``answer_lines`` (of the question) is how many empty lines to write on, ``line_numbers`` (of the code) whether lines
    are numbered, ``tick_box`` (of ``step_title``) whether a step has a box to tick, ``values`` (of ``states`` and
    ``machine``) whether values are told; else they are left to be filled in.
    """

    name: str
    column: str
    size: str
    color: str
    background: str | None
    rule: str | None
    label: str
    answer_lines: int
    line_numbers: bool
    tick_box: bool
    values: bool


Output = Literal["html", "latex"]


@dataclass(frozen=True)
class Arrangement:
    """What an emitter makes of a layout: its columns, and in which each component stands."""

    grid: Grid
    columns: Mapping[str, str]


@dataclass(frozen=True)
class Layout:
    """A whole layout file. ``components`` holds the parts that are shown, by their names; ``colors`` maps every known
    name to ``#rrggbb``; ``warnings`` are the places whose names or values are not known and so had no effect,
    or may have one that the author does not expect.

    ``grid`` and the components' columns are those of one output, first of the HTML: see :meth:`arranged`.
    """

    id: str
    name: str
    version: str
    approved: str
    description: str
    page: Page
    grid: Grid
    typography: Typography
    colors: Mapping[str, str]
    components: Mapping[str, Component]
    html: Variant
    latex: Variant
    arrangements: Mapping[Output, Arrangement]
    limitations: Mapping[str, tuple[str, ...]]
    warnings: tuple[FieldError, ...]

    def arranged(self, output: Output) -> Layout:
        """The layout as the emitter of ``output`` arranges it."""
        found = self.arrangements[output]
        parts = {name: replace(part, column=found.columns[name]) for name, part in self.components.items()}
        return replace(self, grid=found.grid, components=parts)
