"""Measures in mm for a layout: the width inside each component, and the number and height of the lines in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from cardapp.card.model import Expectation
from cardapp.card.notation import in_format
from cardapp.layout import font_metrics, highlight, sheets
from cardapp.layout.escape import visible
from cardapp.layout.layout_model import Component, Layout
from cardapp.layout.sheets import CodeLine, Note, Row, Title
from cardapp.layout.text_fitting import Setting

_MARK, _SPACE = 1, 1
"""Columns before a line of code: one for the stop mark, and one for the space after the mark or the line number."""
TICK_BOX = 1.4
"""Width of a tick box and its distance to the title, as a factor of the title's type size."""


class Measure:
    """The measures of one layout."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        type_ = layout.typography
        self._ems = {size: points * font_metrics.MM_PER_POINT for size, points in type_.sizes_pt.items()}
        self._lines = {size: em * type_.line_height[size] for size, em in self._ems.items()}
        self._widths = {kind: self._inner_width(component) for kind, component in layout.components.items()}
        self._settings = {kind: self._setting(component) for kind, component in layout.components.items()}

    def em(self, size: str) -> float:
        """Return a type size in mm."""
        return self._ems[size]

    def line(self, size: str) -> float:
        """Return the line height of a type size in mm."""
        return self._lines[size]

    def component(self, kind: str) -> Component:
        return self._layout.components[kind]

    def padding(self, kind: str) -> float:
        """Return the distance between a component's frame and its content."""
        return _padding(self.component(kind))

    def width(self, kind: str) -> float:
        """Return the width inside a component."""
        return self._widths[kind]

    def _inner_width(self, component: Component) -> float:
        rule = sheets.RULE + sheets.RULE_GAP if component.rule else 0.0
        return self._layout.grid.column(component.column).width - rule - 2 * _padding(component)

    def setting(self, kind: str) -> Setting:
        """Return the width and type sizes of a component's text."""
        return self._settings[kind]

    def _setting(self, component: Component) -> Setting:
        size, width = component.size, self.width(component.name)
        return Setting(width, self.em(size), self.line(size), self.em("code"), self.line("code"))

    def title_height(self, kind: str, title: Title) -> float:
        size = self.component(kind).size
        em = self.em(size)
        room = self.width(kind) - (TICK_BOX * em if self.component(kind).tick_box else 0.0)
        text = f"{title.number} {title.text}"
        return self._count(text, room, em, "strong") * self.line(size)

    def label_height(self, kind: str, text: str) -> float:
        """Return the height of a caption or mark and of its distance to the content. The height of "" is 0."""
        if not text:
            return 0.0
        lines = self._count(text, self.width(kind), self.em("label"), "strong")
        return lines * self.line("label") + sheets.CAPTION_GAP

    def note_lines(self, note: Note) -> int:
        size = self.component("notes").size
        text_lines = self._count(note.text, self.width("notes"), self.em(size)) if note.text else 0
        return text_lines + len(note.code)

    def _count(self, text: str, room: float, em: float, face: font_metrics.Face = "regular") -> int:
        limit = room * font_metrics.SLACK
        if font_metrics.width(text, em, face) <= limit:
            return 1
        return sum(1 for _ in font_metrics.wrap(text, limit, em, face))

    # -- code ------------------------------------------------------------------------------------------------------

    def gutter(self, last_line: int) -> int:
        """Return the number of columns before each line of code. ``last_line`` is the greatest line number."""
        return _MARK + _SPACE + (len(str(last_line)) if self.component("code").line_numbers else 0)

    def code_lines(
        self, lines: Iterable[highlight.Line], first: int, stops: Mapping[int, Sequence[str]], gutter: int
    ) -> tuple[CodeLine, ...]:
        """Return the source lines, numbered from ``first``, in segments that fit the column. ``stops`` maps line
        numbers to the keys of the snapshots that stop there."""
        em = self.em(self.component("code").size)
        columns = font_metrics.columns(self.width("code") - gutter * em * font_metrics.CELL, em)
        return tuple(
            CodeLine(number, _segments(line, columns), tuple(stops.get(number, ())))
            for number, line in enumerate(lines, first)
        )

    def machine(self, expect: Iterable[Expectation]) -> sheets.Machine:
        """Return the table of a ``machine`` component. If its values are long, they get room from the expressions."""
        em = self.em(self.component("machine").size)
        room = self.width("machine") - sheets.TABLE_GAP
        values = [(each.expression, in_format(each.value, each.format)) for each in expect]
        share, shows_values = sheets.TABLE_SHARE, self.component("machine").values
        is_long = any(len(value) > font_metrics.columns(room * (1 - share), em) for _, value in values)
        if shows_values and is_long:
            longest = max(len(expression) for expression, _ in values) * em * font_metrics.CELL / room
            share = round(min(max(longest, sheets.MIN_TABLE_SHARE), share), 3)
        left, right = font_metrics.columns(room * share, em), font_metrics.columns(room * (1 - share), em)
        rows = (
            Row(_folded(expression, left), _folded(value, right) if shows_values else ())
            for expression, value in values
        )
        return sheets.Machine(tuple(rows), share)

    def row_height(self, row: Row) -> float:
        line = self.line(self.component("machine").size)
        return max(len(row.expression) * line, len(row.value) * line if row.value else sheets.BLANK) + sheets.TABLE_GAP

    def note_pieces(self, code: str) -> tuple[str, ...]:
        em = self.em(self.component("notes").size)
        return _folded(code, font_metrics.columns(self.width("notes"), em))


def _padding(component: Component) -> float:
    return sheets.PADDING if component.background else 0.0


@lru_cache(maxsize=4096)
def _segments(line: highlight.Line, columns: int) -> tuple[highlight.Line, ...]:
    return highlight.segmented(line, font_metrics.fold(highlight.text_of(line), columns))


@lru_cache(maxsize=4096)
def _folded(line: str, columns: int) -> tuple[str, ...]:
    return font_metrics.fold(visible(line), columns)
