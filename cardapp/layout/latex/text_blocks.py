"""Renders parsed texts (``text.parse``) as LaTeX, with the commands of ``card.tex``.

The sheet model measures each text with certain distances (``text_fitting.Setting``). The LaTeX uses the same distances,
so that the text fits its frame.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from cardapp.layout import font_metrics, highlight, sheets
from cardapp.layout.escape import tex_code, tex_inline_code, tex_text, tex_url
from cardapp.layout.text import Block, Break, Bullets, Cell, CodeBlock, Heading, Link, Paragraph, Quote, Span, Table
from cardapp.layout.text_fitting import Setting, fitted, indent


@dataclass(frozen=True)
class TextWriter:
    """Renders texts. ``keys`` are the positions to which links may lead. ``code_type`` is the command that selects the
    type of code blocks."""

    keys: Container[str]
    code_type: str

    def blocks(self, blocks: Iterable[Block], setting: Setting) -> Iterator[str]:
        """Yield the blocks of a text, with the gaps between them."""
        gap = ""
        for block in blocks:
            if gap:
                yield gap
            yield from self._block(block, setting)
            gap = gap_after(block)

    def spans(self, spans: Collection[Span], setting: Setting) -> str:
        """Render the content of a paragraph."""
        pieces = []
        long_words = font_metrics.longer_than_a_line(_plain(spans), setting.width, setting.em)
        for link, group in groupby(spans, lambda span: None if isinstance(span, Break) else span.link):
            inner = "".join(_styled(span, long_words) for span in group)
            pieces.append(inner if link is None else self._linked(link, inner))
        return "".join(pieces)

    def _block(self, block: Block, setting: Setting) -> Iterator[str]:
        match block:
            case Paragraph(spans):
                yield paragraph(self.spans(spans, setting), _plain(spans))
            case Heading(_, spans):
                yield paragraph(rf"\bfseries {self.spans(spans, setting)}", _plain(spans))
            case CodeBlock():
                yield from self._indented(sheets.INDENT, setting, self._code(block, setting.inside()))
            case Quote(inner):
                yield r"\begin{CardQuote}"
                yield from self._indented(sheets.INDENT, setting, self.blocks(inner, setting.inside()))
                yield r"\end{CardQuote}"
            case Bullets():
                yield from self._items(block, setting)
            case Table():
                yield from self._table(block, setting)
            case _:
                yield r"\CardDivision"

    def _code(self, block: CodeBlock, setting: Setting) -> Iterator[str]:
        columns = font_metrics.columns(setting.width, setting.code_em)
        yield rf"{self.code_type}"
        for line in highlight.block(block.text, block.info):
            for segment in highlight.segmented(line, font_metrics.chop(highlight.text_of(line), columns)):
                yield rf"\CardCodeLine{{{code_pieces(segment)}}}"

    def _items(self, bullets: Bullets, setting: Setting) -> Iterator[str]:
        deep = indent(bullets, setting.em)
        gap = ""
        for place, item in enumerate(bullets.items):
            mark = "•" if bullets.start is None else f"{bullets.start + place}."
            if gap:
                yield gap
            yield rf"\CardMark{{{deep:.3g}}}{{{mark}}}" + ("" if item else r"\CardParagraph{}")
            yield from self._indented(deep, setting, self.blocks(item, setting.inside(deep)))
            gap = gap_after(item[-1]) if item else rf"\CardGap{{{sheets.ITEM_GAP:g}}}"

    def _table(self, given: Table, setting: Setting) -> Iterator[str]:
        table = fitted(given, setting)
        if table.head:
            yield self._row(r"\bfseries ", table.head, table, setting)
        for place, row in enumerate(table.rows):
            if place or table.head:
                yield rf"\CardTableRule{{{sum(table.widths) + sheets.TEXT_TABLE_GAP * (len(table.widths) - 1):.3f}}}"
            yield self._row("", row, table, setting)

    def _row(self, look: str, row: Sequence[Cell], table: Table, setting: Setting) -> str:
        cells = rf"\CardTableGap{{{sheets.TEXT_TABLE_GAP:g}}}".join(
            rf"\CardTableCell{{{width:.3f}}}{{{align}}}"
            rf"{{{paragraph(look + self.spans(cell, replace(setting, width=width)), _plain(cell))}}}"
            for cell, align, width in zip(row, table.aligns, table.widths, strict=True)
        )
        return rf"\CardTableRow{{{sheets.TABLE_GAP / 2:g}}}{{{cells}}}"

    def _indented(self, deep: float, setting: Setting, lines: Iterable[str]) -> Iterator[str]:
        yield "{" if setting.level >= sheets.INDENTED_LEVELS else rf"{{\CardIndent{{{deep:.3g}}}"
        yield from lines
        yield "}"

    def _linked(self, link: Link, inner: str) -> str:
        if not link.url.startswith("#"):
            return rf"\CardLink{{{tex_url(link.url)}}}{{{inner}}}"
        return rf"\CardGo{{{link.url[1:]}}}{{{inner}}}" if link.url[1:] in self.keys else inner


def code_pieces(line: highlight.Line) -> str:
    """Render pieces of a line of code in the colours of their kinds."""
    return "".join(
        [rf"\CardToken{{code_{kind}}}{{{tex_code(text)}}}" if kind else tex_code(text) for text, kind in line]
    )


def paragraph(latex: str, plain: str) -> str:
    """Return a paragraph. ``plain`` is its text without commands, whose first letter determines the text direction."""
    strong = (unicodedata.bidirectional(char) for char in plain)
    first = next((kind for kind in strong if kind in ("L", "R", "AL")), "L")
    return rf"\CardParagraph{{{latex}}}" if first == "L" else rf"\CardRightParagraph{{{latex}}}"


def gap_after(block: Block) -> str:
    """Return the command for the gap below a block. Its argument is a factor of the line height."""
    is_tight = isinstance(block, Paragraph) and block.tight
    return rf"\CardGap{{{sheets.ITEM_GAP if is_tight else sheets.PARAGRAPH_GAP:g}}}"


def _plain(spans: Iterable[Span]) -> str:
    return "".join("" if isinstance(span, Break) else span.text for span in spans)


def _styled(span: Span, long_words: Collection[str]) -> str:
    if isinstance(span, Break):
        return r"\CardBreakLine{}"
    styled = rf"\CardCode{{{tex_inline_code(span.text, long_words)}}}" if span.code else tex_text(span.text, long_words)
    if span.emphasis:
        styled = rf"\textit{{{styled}}}"
    return rf"\textbf{{{styled}}}" if span.strong else styled
