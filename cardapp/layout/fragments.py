"""Splits a component into the fragment that fits the available height, and the rest for the next sheet."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

from cardapp.layout import text_fitting
from cardapp.layout.component_builder import CardComponent
from cardapp.layout.diagram.shapes import Diagram
from cardapp.layout.measure import Measure
from cardapp.layout.sheets import (
    ANSWER_LINE,
    BLANK,
    CONTINUED,
    CONTINUES,
    TABLE_GAP,
    Code,
    CodeLine,
    Content,
    Fields,
    Machine,
    Note,
    Notes,
    Question,
    RichText,
    Row,
    Title,
)

ROUNDING = 1e-6
"""Tolerance in mm when a height is compared with the available one."""

_Item = TypeVar("_Item")


class Fragment(NamedTuple):
    """The part of a component that fits. ``caption`` is the text above it, ``mark`` the text below it, and ``height``
    the total height in mm. ``rest`` is the remaining component, or None."""

    component: CardComponent
    content: Content
    caption: str
    mark: str
    height: float
    rest: CardComponent | None


class Measured(NamedTuple):
    """A component, and the fragment that contains all of it. ``whole`` is None if the component is higher than a
    sheet."""

    component: CardComponent
    whole: Fragment | None


_Cut = tuple[Content | None, float, Content | None]
"""The content that fits, its height, and the remaining content. None means that there is no content."""


class Cutter:
    """Splits the components of one layout; ``height`` is the height of a sheet's body in mm."""

    def __init__(self, measure: Measure, height: float) -> None:
        self._measure = measure
        self._height = height

    def measured(self, component: CardComponent) -> Measured:
        fragment = self._fragment(component, self._height)
        return Measured(component, None if fragment is None or fragment.rest is not None else fragment)

    def take(self, measured: Measured, room: float) -> Fragment | None:
        """Return the fragment that fits the height ``room`` (mm), or None if nothing fits."""
        whole = measured.whole
        if whole is not None and whole.height <= room + ROUNDING:
            return whole
        return self._fragment(measured.component, room)

    def _fragment(self, component: CardComponent, room: float) -> Fragment | None:
        caption = self._caption(component)
        around = 2 * self._measure.padding(component.kind) + self._measure.label_height(component.kind, caption)
        content, height, left = self._cut(component, room - around, self._height - around)
        mark = ""
        if left is not None:
            mark = CONTINUES
            around += self._measure.label_height(component.kind, mark)
            content, height, left = self._cut(component, room - around, self._height - around)
        if content is None:
            return None
        rest = None if left is None else component._replace(content=left, continued=True)
        return Fragment(component, content, caption, mark, height + around, rest)

    def _caption(self, component: CardComponent) -> str:
        if isinstance(component.content, Fields):  # its label names the fields
            return ""
        caption = " · ".join(filter(None, [self._measure.component(component.kind).label, component.subject]))
        return " ".join(filter(None, [caption, CONTINUED if component.continued else ""]))

    def _cut(self, component: CardComponent, room: float, sheet_room: float) -> _Cut:
        """Split the content at the height ``room``. ``sheet_room`` is the height available on an empty sheet."""
        match component.content:
            case Fields() as fields:
                return _all_or_nothing(fields, ANSWER_LINE, room)
            case Title() as title:
                return _all_or_nothing(title, self._measure.title_height(component.kind, title), room)
            case Diagram() as diagram:
                return _all_or_nothing(diagram, diagram.height, room)
            case RichText(blocks):
                taken = text_fitting.take(blocks, room, self._measure.setting(component.kind))
                rest = RichText(taken.rest) if taken.rest else None
                return RichText(taken.blocks) if taken.blocks else None, taken.height, rest
            case Question() as question:
                return self._cut_question(question, room)
            case Code() as code:
                return self._cut_code(code, room, sheet_room)
            case Machine(rows) as machine:
                return _cut_items(
                    rows,
                    (room, sheet_room),
                    self._measure.row_height,
                    self._split_row,
                    lambda kept: machine._replace(rows=kept),
                )
            case Notes(entries):
                return _cut_items(entries, (room, sheet_room), self._note_height, self._split_note, Notes)

    def _cut_question(self, question: Question, room: float) -> _Cut:
        taken = text_fitting.take(question.blocks, room, self._measure.setting("question"))
        fits = 0 if taken.rest else min(question.answer_lines, int((room - taken.height) / ANSWER_LINE + ROUNDING))
        left = question.answer_lines - fits
        kept = Question(taken.blocks, fits) if taken.blocks or fits else None
        rest = Question(taken.rest, left) if taken.rest or left else None
        return kept, taken.height + fits * ANSWER_LINE, rest

    def _cut_code(self, code: Code, room: float, sheet_room: float) -> _Cut:
        line = self._measure.line(self._measure.component("code").size)
        note = self._measure.label_height("code", code.notice)
        if not code.lines:
            return _all_or_nothing(code, note, room)
        kept, height, rest = _cut_items(
            code.lines,
            (room - note, sheet_room - note),
            lambda each: len(each.segments) * line,
            lambda each, limit: _split_line(each, int(limit / line + ROUNDING)),
            lambda lines: code._replace(lines=lines),
        )
        return kept, height + note, rest

    def _split_row(self, row: Row, room: float) -> tuple[Row, Row] | None:
        max_lines = int((room - TABLE_GAP) / self._measure.line(self._measure.component("machine").size) + ROUNDING)
        if max_lines < 1 or (not row.value and room < BLANK + TABLE_GAP):
            return None
        # An empty value means a box to fill in. So if all lines of the value fit, its rest is one empty line.
        rest = row.value[max_lines:] or ("",) * bool(row.value)
        return Row(row.expression[:max_lines], row.value[:max_lines]), Row(row.expression[max_lines:], rest)

    def _note_height(self, note: Note) -> float:
        size = self._measure.component("notes").size
        return self._measure.note_lines(note) * self._measure.line(size) + TABLE_GAP

    def _split_note(self, note: Note, room: float) -> tuple[Note, Note] | None:
        size = self._measure.component("notes").size
        text_lines = self._measure.note_lines(note._replace(code=()))
        max_lines = int((room - TABLE_GAP) / self._measure.line(size) + ROUNDING) - text_lines
        return (note._replace(code=note.code[:max_lines]), Note("", note.code[max_lines:])) if max_lines >= 1 else None


def _all_or_nothing(content: Content, height: float, room: float) -> _Cut:
    return (content, height, None) if height <= room + ROUNDING else (None, 0.0, content)


def _cut_items(
    items: tuple[_Item, ...],
    rooms: tuple[float, float],
    height_of: Callable[[_Item], float],
    split: Callable[[_Item, float], tuple[_Item, _Item] | None],
    make: Callable[[tuple[_Item, ...]], Content],
) -> _Cut:
    """Split between two items. A single item is split only if it is higher than an empty sheet. ``rooms`` are the
    heights available on this sheet and on an empty one."""
    (room, sheet_room), height = rooms, 0.0
    for place, item in enumerate(items):
        more = height_of(item)
        if height + more > room + ROUNDING:
            pieces = split(item, room) if place == 0 and more > sheet_room + ROUNDING else None
            if pieces is not None:
                return make(pieces[:1]), height_of(pieces[0]), make((pieces[1], *items[1:]))
            return make(items[:place]) if place else None, height, make(items[place:])
        height += more
    return make(items), height, None


def _split_line(line: CodeLine, count: int) -> tuple[CodeLine, CodeLine] | None:
    if count < 1 or len(line.segments) <= count:
        return None
    return line._replace(segments=line.segments[:count]), line._replace(segments=line.segments[count:])
