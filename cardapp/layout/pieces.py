"""What of a draft fits into a room: the piece that stays, and the draft that is left for the next sheet."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

from cardapp.layout import prose
from cardapp.layout.diagram.model import Diagram
from cardapp.layout.drafts import Draft
from cardapp.layout.measure import Measure
from cardapp.layout.metrics import ANSWER_LINE, BLANK, TABLE_GAP
from cardapp.layout.sheets import (
    CONTINUED,
    CONTINUES,
    Code,
    CodeLine,
    Content,
    Machine,
    Note,
    Notes,
    Prose,
    Question,
    Row,
    Title,
)

ROUNDING = 1e-6
"""By how much, in mm, a piece may be higher than its room."""

_Item = TypeVar("_Item")


class Piece(NamedTuple):
    """What fits of a draft, with the texts above and below it, and its whole height in mm; ``rest`` is what is left."""

    draft: Draft
    content: Content
    caption: str
    mark: str
    height: float
    rest: Draft | None


class Measured(NamedTuple):
    """A draft, and the piece that it is where there is room for all of it; None of what is higher than a sheet."""

    draft: Draft
    whole: Piece | None


_Cut = tuple[Content | None, float, Content | None]
"""What fits (None: nothing), its height, and what is left (None: nothing)."""


class Cutter:
    """Cuts the drafts of one layout, whose sheets have ``height`` mm for parts."""

    def __init__(self, measure: Measure, height: float) -> None:
        self._measure = measure
        self._height = height

    def measured(self, draft: Draft) -> Measured:
        piece = self._piece(draft, self._height)
        return Measured(draft, None if piece is None or piece.rest is not None else piece)

    def take(self, measured: Measured, room: float) -> Piece | None:
        """The piece of the draft that fits into ``room`` mm; None where nothing of it does."""
        whole = measured.whole
        if whole is not None and whole.height <= room + ROUNDING:
            return whole
        return self._piece(measured.draft, room)

    def _piece(self, draft: Draft, room: float) -> Piece | None:
        caption = self._caption(draft)
        around = 2 * self._measure.padding(draft.kind) + self._measure.label_height(draft.kind, caption)
        content, height, left = self._cut(draft, room - around, self._height - around)
        mark = ""
        if left is not None:
            mark = CONTINUES
            around += self._measure.label_height(draft.kind, mark)
            content, height, left = self._cut(draft, room - around, self._height - around)
        if content is None:
            return None
        rest = None if left is None else draft._replace(content=left, continued=True)
        return Piece(draft, content, caption, mark, height + around, rest)

    def _caption(self, draft: Draft) -> str:
        said = " · ".join(filter(None, [self._measure.component(draft.kind).label, draft.subject]))
        return " ".join(filter(None, [said, CONTINUED if draft.continued else ""]))

    def _cut(self, draft: Draft, room: float, most: float) -> _Cut:
        """What fits into ``room``, where an empty sheet has room for ``most``."""
        match draft.content:
            case Title() as title:
                return _whole(title, self._measure.title_height(draft.kind, title), room)
            case Diagram() as diagram:
                return _whole(diagram, diagram.height, room)
            case Prose(blocks):
                taken = prose.take(blocks, room, self._measure.setting(draft.kind))
                rest = Prose(taken.rest) if taken.rest else None
                return Prose(taken.blocks) if taken.blocks else None, taken.height, rest
            case Question() as question:
                return self._cut_question(question, room)
            case Code() as code:
                return self._cut_code(code, room, most)
            case Machine(rows):
                return _cut_items(rows, (room, most), self._row_height, self._split_row, Machine)
            case Notes(entries):
                return _cut_items(entries, (room, most), self._note_height, self._split_note, Notes)

    def _cut_question(self, question: Question, room: float) -> _Cut:
        taken = prose.take(question.blocks, room, self._measure.setting("question"))
        fits = 0 if taken.rest else min(question.answer_lines, int((room - taken.height) / ANSWER_LINE + ROUNDING))
        left = question.answer_lines - fits
        kept = Question(taken.blocks, fits) if taken.blocks or fits else None
        rest = Question(taken.rest, left) if taken.rest or left else None
        return kept, taken.height + fits * ANSWER_LINE, rest

    def _cut_code(self, code: Code, room: float, most: float) -> _Cut:
        line = self._measure.line(self._measure.component("code").size)
        note = self._measure.label_height("code", code.missing)
        if not code.lines:
            return _whole(code, note, room)
        kept, height, rest = _cut_items(
            code.lines,
            (room - note, most - note),
            lambda each: len(each.pieces) * line,
            lambda each, limit: _split_line(each, int(limit / line + ROUNDING)),
            lambda lines: code._replace(lines=lines),
        )
        return kept, height + note, rest

    def _row_height(self, row: Row) -> float:
        line = self._measure.line(self._measure.component("machine").size)
        return max(len(row.expression) * line, len(row.value) * line if row.value else BLANK) + TABLE_GAP

    def _split_row(self, row: Row, room: float) -> tuple[Row, Row] | None:
        most = int((room - TABLE_GAP) / self._measure.line(self._measure.component("machine").size) + ROUNDING)
        if most < 1 or (not row.value and room < BLANK + TABLE_GAP):
            return None
        # No value is a box to fill in; one that was shown whole leaves an empty line.
        rest = row.value[most:] or ("",) * bool(row.value)
        return Row(row.expression[:most], row.value[:most]), Row(row.expression[most:], rest)

    def _note_height(self, note: Note) -> float:
        size = self._measure.component("notes").size
        return self._measure.note_lines(note) * self._measure.line(size) + TABLE_GAP

    def _split_note(self, note: Note, room: float) -> tuple[Note, Note] | None:
        size = self._measure.component("notes").size
        words = self._measure.note_lines(note._replace(code=()))
        most = int((room - TABLE_GAP) / self._measure.line(size) + ROUNDING) - words
        return (note._replace(code=note.code[:most]), Note("", note.code[most:])) if most >= 1 else None


def _whole(content: Content, height: float, room: float) -> _Cut:
    return (content, height, None) if height <= room + ROUNDING else (None, 0.0, content)


def _cut_items(
    items: tuple[_Item, ...],
    rooms: tuple[float, float],
    height_of: Callable[[_Item], float],
    split: Callable[[_Item, float], tuple[_Item, _Item] | None],
    made: Callable[[tuple[_Item, ...]], Content],
) -> _Cut:
    """Whole items; a piece only of one that is higher than an empty sheet. ``rooms`` are that of this sheet and that of
    an empty one."""
    (room, most), height = rooms, 0.0
    for place, item in enumerate(items):
        more = height_of(item)
        if height + more > room + ROUNDING:
            pieces = split(item, room) if place == 0 and more > most + ROUNDING else None
            if pieces is not None:
                return made(pieces[:1]), height_of(pieces[0]), made((pieces[1], *items[1:]))
            return made(items[:place]) if place else None, height, made(items[place:])
        height += more
    return made(items), height, None


def _split_line(line: CodeLine, most: int) -> tuple[CodeLine, CodeLine] | None:
    if most < 1 or len(line.pieces) <= most:
        return None
    return line._replace(pieces=line.pieces[:most]), line._replace(pieces=line.pieces[most:])
