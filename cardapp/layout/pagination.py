"""Places components on sheets: rows from top to bottom, and within a row each part below the previous part of its
column."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import groupby

from cardapp.errors import InvalidLayout
from cardapp.layout.component_builder import CardComponent, Group
from cardapp.layout.component_builder import Row as ComponentRow
from cardapp.layout.fragments import ROUNDING, Cutter, Fragment, Measured
from cardapp.layout.layout_model import Column, Frame, Layout
from cardapp.layout.layout_options import ALL, VALUES
from cardapp.layout.measure import Measure
from cardapp.layout.sheets import Footer, Header, Part, Sheet, is_title

_NO_FOOTER = Footer("", "", "", "", 0, 0)

_Row = tuple[Measured, ...]


@dataclass
class _Attempt:
    """The result of placing rows on a sheet: the parts; the position (``y``) and index (``row``) of the next row; and
    the rows that did not fit."""

    y: float
    row: int
    parts: list[Part] = field(default_factory=list)
    rest: list[_Row] = field(default_factory=list)

    @property
    def may_end_sheet(self) -> bool:
        """Whether the sheet may end here: not after a title, which would be separated from its content."""
        return bool(self.parts) and not is_title(self.parts[-1].kind)


class Paginator:
    """Fills the sheets of a document, one after the other."""

    def __init__(self, layout: Layout, measure: Measure) -> None:
        self._layout = layout
        self._cutter = Cutter(measure, layout.grid.body.height)
        self._columns = {kind: layout.grid.column(each.column) for kind, each in layout.components.items()}
        self._sheets: list[Sheet] = []
        self._parts: list[Part] = []
        self._y = 0.0
        self._row = 0

    @property
    def is_open(self) -> bool:
        """Whether there is a sheet to place groups on."""
        return bool(self._sheets)

    def open(self, key: str, page_index: int, header: Header) -> None:
        """Begin a new sheet of the block ``key``."""
        self._close()
        self._sheets.append(Sheet(len(self._sheets), page_index, 0, key, header, _NO_FOOTER, ()))
        self._y, self._row = self._layout.grid.body.y, 0

    def place(self, group: Group) -> None:
        """Place the rows of ``group`` on this sheet. Rows that do not fit go to the next sheets."""
        rows = [band for row in group for band in self._split_wide(row)]
        if self._parts and self._fits_next_only(rows):
            self._open_next()
        found = self._attempt(rows, self._y, self._row)
        if found.rest and self._parts:
            on_next = self._attempt(rows, self._layout.grid.body.y, 0)
            # A group higher than a sheet is split anyway, so it begins on this sheet if there is room.
            if not on_next.rest or not found.may_end_sheet:
                self._open_next()
                found = on_next
        self._keep(found)
        while found.rest:
            if not found.parts:
                self._refuse(found.rest[0][0].component)
            self._open_next()
            found = self._attempt(found.rest, self._y, self._row)
            self._keep(found)

    def _fits_next_only(self, rows: list[_Row]) -> bool:
        """Return whether the rows fit an empty sheet but not this one. Their heights are compared first, because an
        attempt to place them takes longer."""
        height = -self._layout.grid.row_gap
        for row in rows:
            columns: dict[str, float] = {}
            for component, whole in row:
                if whole is None:
                    return False
                name = self._columns[component.kind].name
                columns[name] = columns.get(name, 0.0) + whole.height + self._layout.grid.row_gap
            height += max(columns.values(), default=0.0)
        body = self._layout.grid.body
        return body.y + body.height - self._y + ROUNDING < height <= body.height

    def finished(self) -> list[Sheet]:
        """Return the sheets, without numbers and footers."""
        self._close()
        return self._sheets

    def _close(self) -> None:
        if self._sheets:
            self._sheets[-1] = replace(self._sheets[-1], parts=tuple(self._parts))
        self._parts = []

    def _open_next(self) -> None:
        last = self._sheets[-1]
        self.open(last.key, last.page_index, replace(last.header, continued=True))

    def _keep(self, found: _Attempt) -> None:
        self._parts += found.parts
        self._y, self._row = found.y, found.row

    def _refuse(self, component: CardComponent) -> None:
        shown = self._layout.components[component.kind]
        raise InvalidLayout.of(
            f"/components/{component.kind}",
            f"does not fit a sheet: at {component.key or 'the card'} it is higher than "
            f"{self._layout.grid.body.height:.0f} mm "
            f"in the column {shown.column!r}; reduce its type size ({shown.size!r}), or make the column wider",
        )

    # -- rows --------------------------------------------------------------------------------------------------------

    def _split_wide(self, row: ComponentRow) -> Iterator[_Row]:
        """Split the row so that each component that spans the sheet is in a separate row."""
        for is_wide, components in groupby(row, lambda component: self._columns[component.kind].name == ALL):
            measured = tuple(map(self._cutter.measured, components))
            if is_wide:
                yield from ((each,) for each in measured)
            else:
                yield measured

    def _attempt(self, rows: list[_Row], y: float, row: int) -> _Attempt:
        found = _Attempt(y, row)
        for place, measured in enumerate(rows):
            rest = self._put(measured, found)
            if rest:
                found.rest = [rest, *rows[place + 1 :]]
                break
        return found

    def _put(self, row: _Row, found: _Attempt) -> _Row:
        """Add a row to the attempt. Returns the components that do not fit. Values are not placed before their whole
        question is placed."""
        grid, rest = self._layout.grid, list[Measured]()
        ends: dict[str, float] = {}
        full: set[str] = set()
        for measured in row:
            column = self._columns[measured.component.kind]
            top = ends.get(column.name, found.y)
            room = grid.body.y + grid.body.height - top
            waits = measured.component.kind in VALUES and any(each.component.kind == "question" for each in rest)
            fragment = None if waits or column.name in full else self._cutter.take(measured, room)
            if fragment is None or fragment.rest is not None:
                full.add(column.name)
                left = None if fragment is None else fragment.rest
                rest.append(measured if left is None else self._cutter.measured(left))
            if fragment is not None:
                found.parts.append(_part(fragment, column, top, found.row))
                ends[column.name] = top + fragment.height + grid.row_gap
        if ends:
            found.y, found.row = max(ends.values()), found.row + 1
        return tuple(rest)


def _part(fragment: Fragment, column: Column, y: float, row: int) -> Part:
    component = fragment.component
    return Part(
        kind=component.kind,
        key=component.key,
        column=column.name,
        row=row,
        frame=Frame(column.x, y, column.width, fragment.height),
        content=fragment.content,
        caption=fragment.caption,
        mark=fragment.mark,
        continued=component.continued,
        continues=fragment.rest is not None,
    )
