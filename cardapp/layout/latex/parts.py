"""Renders the parts of a sheet as LaTeX in their frames, with the distances of the sheet model."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence

from cardapp.layout import font_metrics, sheets
from cardapp.layout.diagram import tikz
from cardapp.layout.diagram.shapes import Diagram
from cardapp.layout.escape import tex_code, tex_line, tex_text
from cardapp.layout.latex.text_blocks import TextWriter, code_pieces, paragraph
from cardapp.layout.layout_model import Frame, Layout
from cardapp.layout.measure import TICK_BOX, Measure
from cardapp.layout.sheets import Code, CodeLine, Fields, Machine, Notes, Part, Question, RichText, Title


class Parts:
    """Renders the parts of one document. ``keys`` are the positions to which links may lead."""

    def __init__(self, layout: Layout, keys: Container[str]) -> None:
        self._layout = layout
        self._measure = Measure(layout)
        self._text_writer = TextWriter(keys, self.type("code"))

    def type(self, size: str) -> str:
        """Return the command that selects a type size."""
        points = self._layout.typography.sizes_pt[size]
        return rf"\CardType{{{points:g}}}{{{points * self._layout.typography.line_height[size]:.4g}}}"

    def line(self, size: str) -> float:
        """Return the line height of a type size in mm."""
        return self._measure.line(size)

    def draw(self, part: Part) -> Iterator[str]:
        """Yield the LaTeX source lines of a part. The first line is a comment with the kind and key. ``place_of`` reads
        it to locate errors."""
        component = self._layout.components[part.kind]
        frame, padding = part.frame, self._measure.padding(part.kind)
        rule = sheets.RULE + sheets.RULE_GAP if component.rule else 0.0
        width, height = self._measure.width(part.kind), frame.height - 2 * padding
        if part.kind == "colophon":  # unknown height: the last sentence depends on the installed fonts
            height = self._layout.grid.body.y + self._layout.grid.body.height - frame.y
        yield f"{MARK}{part.kind} {part.key}"
        if component.background:
            yield fill(component.background, frame)
        if component.rule:
            yield fill(component.rule, Frame(frame.x, frame.y, sheets.RULE, frame.height))
        inner = Frame(frame.x + rule + padding, frame.y + padding, width, height)
        yield rf"\begin{{CardPart}}{{{part.kind} {part.key}}}{numbers(inner)}{{{component.color}}}"
        if part.caption:
            yield rf"\CardCaption{self._label(part, part.caption)}"
        yield self.type(component.size)
        yield from self._content(part)
        if part.kind == "colophon" and not part.continues:
            yield r"\CardMissingSentence"
        if part.mark:
            yield rf"\CardContinues{self._label(part, part.mark)}"
        yield r"\end{CardPart}"

    def _label(self, part: Part, plain: str) -> str:
        words = self._words(plain, self._measure.width(part.kind), "label")
        return rf"{{{self.type('label')}}}{{{words}}}{{{sheets.CAPTION_GAP:g}}}"

    def _words(self, plain: str, room: float, size: str) -> str:
        """Render plain text for lines of ``room`` mm."""
        return tex_text(plain, font_metrics.longer_than_a_line(plain, room, self._measure.em(size)))

    def _content(self, part: Part) -> Iterator[str]:
        content = part.content
        match content:
            case Fields(names):
                yield from self._fields(names)
            case Title():
                yield from self._title(part, content)
            case RichText(blocks):
                yield from self._text_writer.blocks(blocks, self._measure.setting(part.kind))
            case Question(blocks, answer_lines):
                yield from self._text_writer.blocks(blocks, self._measure.setting(part.kind))
                yield from [rf"\CardAnswer{{{sheets.ANSWER_LINE:g}}}"] * answer_lines
            case Code():
                yield from self._code(content)
            case Diagram():
                yield rf"\hbox{{{tikz.render(content)}}}\nointerlineskip"
            case Machine():
                yield from self._machine(content)
            case Notes():
                yield from self._notes(content)

    def _fields(self, names: Sequence[str]) -> Iterator[str]:
        """Yield the fields of a line. The first is twice as wide as each other."""
        room = self._measure.width("name_date") - sheets.FIELDS_GAP * (len(names) - 1)
        share = room / (len(names) + 1)
        fields = r"\hss".join(
            rf"\CardField{{{share * (1 if place else 2):.2f}}}{{{tex_line(name)}}}" for place, name in enumerate(names)
        )
        yield rf"\CardFields{{{sheets.ANSWER_LINE:g}}}{{{fields}}}"

    def _title(self, part: Part, title: Title) -> Iterator[str]:
        component = self._layout.components[part.kind]
        number = rf"\CardNumber{{{title.number}}}" if title.number else ""
        room = self._measure.width(part.kind)
        if component.tick_box:
            box = TICK_BOX * self._measure.em(component.size)
            room -= box
            yield rf"\CardTick\advance\hsize-{box:.2f}mm"
        yield paragraph(rf"\bfseries {number}{self._words(title.text, room, component.size)}", title.text)

    def _code(self, source: Code) -> Iterator[str]:
        for line in source.lines:
            yield from self._code_line(line, source.gutter)
        if source.notice:
            words = self._words(source.notice, self._measure.width("code"), "label")
            gap = sheets.CAPTION_GAP if source.lines else 0
            yield rf"\CardCodeNotice{{{self.type('label')}}}{{{words}}}{{{gap:g}}}"

    def _code_line(self, line: CodeLine, gutter: int) -> Iterator[str]:
        number = str(line.number) if self._layout.components["code"].line_numbers else ""
        room = f"{gutter * font_metrics.CELL:g}"
        for place, segment in enumerate(map(code_pieces, line.segments)):
            shown = number if place == 0 else r"\CardContinuationMark"
            if line.stops:
                sign = rf"\CardSign{{{line.stops[0]}}}" if place == 0 else ""
                yield rf"\CardStopLine{{{room}}}{{{shown}}}{{{segment}}}{{{sign}}}"
            else:
                yield rf"\CardLine{{{room}}}{{{shown}}}{{{segment}}}"

    def _machine(self, machine: Machine) -> Iterator[str]:
        room = self._measure.width("machine") - sheets.TABLE_GAP
        left, right = room * machine.share, room * (1 - machine.share)
        for place, row in enumerate(machine.rows):
            expression, value = ("".join(map(_code_line, segments)) for segments in (row.expression, row.value))
            value = value or rf"\CardBlank{{{sheets.BLANK:g}}}"
            if place:
                yield r"\CardRowRule"
            yield rf"\CardRow{{{left:.3f}}}{{{expression}}}{{{right:.3f}}}{{{value}}}{{{sheets.TABLE_GAP / 2:g}}}"

    def _notes(self, notes: Notes) -> Iterator[str]:
        size = self._layout.components["notes"].size
        for note in notes.entries:
            if note.text:
                words = self._words(note.text, self._measure.width("notes"), size)
                yield rf"\CardParagraph{{{words}}}"
            yield from (rf"\CardNoteLine{{{tex_code(segment)}}}" for segment in note.code)
            yield rf"\CardSkip{{{sheets.TABLE_GAP:g}}}"


MARK = "% part: "
"""The beginning of the comment before a part. The part's kind and key follow."""


def numbers(frame: Frame) -> str:
    """Return a frame as the four arguments of a command, in mm."""
    return "".join(f"{{{length:.3f}}}" for length in (frame.x, frame.y, frame.width, frame.height))


def fill(color: str, frame: Frame) -> str:
    """Return the command that fills a frame with one of the layout's colours."""
    return rf"\CardFill{{{color}}}{numbers(frame)}"


def _code_line(segment: str) -> str:
    return rf"\CardCodeLine{{{tex_code(segment)}}}"
