"""The lines of the emitters 5a and 5b between and above the columns of a row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from cardapp.layout.layout_options import ALL
from cardapp.layout.sheets import Part
from cardapp.layout.template import Column, Frame, Grid, Variant

DIVIDER, BAR = 0.2, 0.5
"""Thickness of the line in a gutter and of the bar above a column, in mm."""
_ABOVE = 1.2
"""Distance from the top of both to the parts, in mm."""


@dataclass(frozen=True)
class SheetRow:
    """The parts of a row in reading order, the ``dividers`` in the gutters between its columns and the ``bars`` above
    the columns. A row of one column, or one that spans the sheet, has neither."""

    parts: tuple[Part, ...]
    dividers: tuple[Frame, ...] = ()
    bars: tuple[Frame, ...] = ()


def rows_with_rules(parts: Sequence[Part], grid: Grid, variant: Variant) -> Iterator[SheetRow]:
    """The rows of a sheet with their lines; ``classic`` and ``5a`` have no bars, ``classic`` no dividers."""
    for _, group in groupby(parts, lambda part: part.row):
        row = tuple(group)
        names = {part.column for part in row}
        filled = [column for column in grid.columns if column.name in names]
        if variant == "classic" or ALL in names or len(filled) < 2:
            yield SheetRow(row)
            continue
        top = min(part.frame.y for part in row) - _ABOVE
        height = max(part.frame.y + part.frame.height for part in row) - top
        dividers = (_divider(left, right, top, height) for left, right in pairwise(_span(filled, grid)))
        bars = (Frame(column.x, top, column.width, BAR) for column in filled if variant == "5b")
        yield SheetRow(row, tuple(dividers), tuple(bars))


def _span(filled: Sequence[Column], grid: Grid) -> list[Column]:
    return [column for column in grid.columns if filled[0].x <= column.x <= filled[-1].x]


def _divider(left: Column, right: Column, top: float, height: float) -> Frame:
    middle = (left.x + left.width + right.x) / 2
    return Frame(middle - DIVIDER / 2, top, DIVIDER, height)
