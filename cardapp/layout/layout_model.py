"""A layout as frozen dataclasses, with defaults filled in (schema: ``card-template.v1``).

Lengths are in millimetres unless the name states another unit; type sizes are in points. ``layout_options.py`` defines
the names of components, columns, roles, colours and sizes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from cardapp.errors import FieldError
from cardapp.layout.layout_options import LIMITATIONS

Variant = Literal["classic", "5a", "5b"]
Orientation = Literal["portrait", "landscape"]


@dataclass(frozen=True)
class Page:
    """The size of a sheet, on paper and in pixels at zoom 1. In landscape, ``width`` is the longer side."""

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
    """A column for parts. ``width`` includes no gutter. ``role`` is the grid's ``left_role`` for the first column and
    its ``right_role`` for the last one; it is "" for the others."""

    name: str
    role: str
    x: float
    width: float


@dataclass(frozen=True)
class Grid:
    """The frames of a sheet. ``columns`` are ordered from left to right, and all are within ``body``. Header and footer
    have the body's width. ``row_gap`` is the vertical distance between parts."""

    columns: tuple[Column, ...]
    header: Frame
    body: Frame
    footer: Frame
    row_gap: float

    def column(self, name: str) -> Column:
        """Return the column ``name``. "all" gives a column with the whole width of the body."""
        found = (column for column in self.columns if column.name == name)
        return next(found, Column("all", "", self.body.x, self.body.width))


@dataclass(frozen=True)
class Typography:
    """``families`` maps ``text`` and ``code`` to font families, the preferred one first. ``sizes_pt`` (1 point is 1/72
    inch) and ``line_height`` (a factor of the size) are by size name: title, block, phase, step, body, label, code.
    ``weights`` has regular and strong (100 to 900)."""

    families: Mapping[str, tuple[str, ...]]
    sizes_pt: Mapping[str, float]
    line_height: Mapping[str, float]
    weights: Mapping[str, int]


@dataclass(frozen=True)
class Component:
    """How one kind of part looks, and its column. ``column`` is a column's name or "all". ``size`` names a type size.
    ``color``, ``background`` and ``rule`` name colours; the last two may be None. The rule is a line at the left edge
    (below the header, above the footer). ``label`` begins the caption.

    Some options belong to one or two components. ``answer_lines`` (``question``) is the number of empty lines for an
    answer. ``line_numbers`` (``code``) shows line numbers. ``tick_box`` (``step_title``) shows a box to tick.
    ``values`` (``states``, ``machine``) shows the values; without it, there are boxes to fill in.
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
    """The grid of an emitter, and the column of each component."""

    grid: Grid
    columns: Mapping[str, str]


@dataclass(frozen=True)
class Layout:
    """A layout. ``components`` maps the names of the shown components to their options. ``colors`` maps all names to
    ``#rrggbb``. ``warnings`` are about values of the file that have no effect, or an unexpected one.

    ``grid`` and the components' columns belong to one output. This is HTML until :meth:`arranged` selects another.
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

    @property
    def emitters(self) -> str:
        """A phrase that names the emitter of each output."""
        return f"HTML by the emitter {self.html}, LaTeX by {self.latex}"

    def limitation_sentences(self) -> Iterator[str]:
        """Yield the limitations, each with the output that it concerns."""
        for name, sentences in self.limitations.items():
            yield from (f"{LIMITATIONS[name]}: {sentence}" for sentence in sentences)

    def arranged(self, output: Output) -> Layout:
        """Return the layout with the grid and columns of ``output``."""
        found = self.arrangements[output]
        parts = {name: replace(part, column=found.columns[name]) for name, part in self.components.items()}
        return replace(self, grid=found.grid, components=parts)
