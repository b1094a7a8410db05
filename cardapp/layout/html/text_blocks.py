"""Renders parsed texts (``text.parse``) as HTML."""

from __future__ import annotations

import re
from collections.abc import Collection, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby
from math import inf, isinf

from cardapp.layout import highlight
from cardapp.layout.escape import html
from cardapp.layout.font_metrics import longer_than_a_line
from cardapp.layout.sheets import INDENTED_LEVELS, TEXT_TABLE_GAP
from cardapp.layout.text import (
    Block,
    Break,
    Bullets,
    Cell,
    CodeBlock,
    Heading,
    Link,
    Paragraph,
    Quote,
    Span,
    Table,
    parse,
)
from cardapp.layout.text_fitting import Setting, fitted, indent

_LOWEST_RANK = 6
_BLANKS = re.compile(r"([ \t\n]+)")
_BREAKABLE = re.compile("[-/?|}!]")
"""Characters at which a browser breaks a line within a word."""


@dataclass(frozen=True)
class TextWriter:
    """Renders a text below a heading of ``rank`` (1 to 6). ``keys`` are the positions to which links may lead."""

    rank: int
    keys: Container[str]

    def blocks(self, blocks: Iterable[Block], setting: Setting) -> str:
        """Render the blocks of a text. The sheet model must have measured them with the same ``setting``."""
        return "".join(self._block(block, setting) for block in blocks)

    def _block(self, block: Block, setting: Setting) -> str:
        deep = " class=deep" if setting.level >= INDENTED_LEVELS else ""
        match block:
            case Paragraph(spans=spans, tight=tight):
                return f'<p dir="auto"{" class=tight" if tight else ""}>{self._spans(spans, setting)}</p>\n'
            case Heading(level=level, spans=spans):
                # All headings get the next rank, whatever the author's level is, so that no rank is skipped.
                name = f"h{min(self.rank + 1, _LOWEST_RANK)}"
                attributes = f'dir="auto" class="inner" data-level="{level}"'
                return f"<{name} {attributes}>{self._spans(spans, setting)}</{name}>\n"
            case CodeBlock(text=text, info=info):
                language = f' data-language="{html(info)}"' if info else ""
                shown = "\n".join(map(code_pieces, highlight.block(text, info))) if info else html(text)
                return f'<pre dir="ltr"{deep}{language}><code>{shown}</code></pre>\n'
            case Quote(blocks=blocks):
                return f"<blockquote{deep}>{self.blocks(blocks, setting.inside())}</blockquote>\n"
            case Bullets():
                return self._list(block, setting, deep)
            case Table():
                return self._table(block, setting)
            case _:
                return "<hr>\n"

    def _list(self, bullets: Bullets, setting: Setting, deep: str) -> str:
        name, attributes = "ul", ""
        if bullets.start is not None:
            digits = len(str(bullets.start + len(bullets.items)))
            name, attributes = "ol", f' start="{bullets.start}" style="--digits:{digits}"'
        inside = setting.inside(indent(bullets, setting.em))
        items = "".join(f"<li>{self.blocks(item, inside)}</li>\n" for item in bullets.items)
        return f"<{name}{deep}{attributes}>\n{items}</{name}>\n"

    def _table(self, given: Table, setting: Setting) -> str:
        if isinf(setting.width):  # the browser finds the widths
            table, opening, cells = given, '<table class="cells">', (setting,) * len(given.aligns)
        else:
            table = fitted(given, setting)
            taken = [width + TEXT_TABLE_GAP for width in table.widths[:-1]] + [table.widths[-1]]
            columns = "".join(f'<col style="--share:{100 * width / sum(taken):.2f}">' for width in taken)
            opening = f'<table class="cells" style="--tw:{sum(taken):.2f}"><colgroup>{columns}</colgroup>'
            cells = tuple(replace(setting, width=width) for width in table.widths)
        head = f"<thead>{self._row('th', table.head, table, cells)}</thead>\n" if table.head else ""
        body = "".join(self._row("td", row, table, cells) for row in table.rows)
        return f"{opening}\n{head}<tbody>\n{body}</tbody></table>\n"

    def _row(self, name: str, row: Sequence[Cell], table: Table, settings: Sequence[Setting]) -> str:
        opening = f'{name} scope="col"' if name == "th" else name
        cells = "".join(
            f'<{opening} class=to-{align} dir="auto">{self._spans(cell, setting)}</{name}>'
            for cell, align, setting in zip(row, table.aligns, settings, strict=True)
        )
        return f"<tr>{cells}</tr>\n"

    def _spans(self, spans: Collection[Span], setting: Setting) -> str:
        plain = "".join("\n" if isinstance(span, Break) else span.text for span in spans)
        long_words = longer_than_a_line(plain, setting.width, setting.em)
        pieces = []
        for link, group in groupby(spans, lambda span: None if isinstance(span, Break) else span.link):
            inner = "".join(_styled(group, long_words))
            pieces.append(inner if link is None else self._linked(link, inner))
        return "".join(pieces)

    def _linked(self, link: Link, inner: str) -> str:
        title = f' title="{html(link.title)}"' if link.title else ""
        if link.url.startswith("#") and link.url[1:] not in self.keys:
            return f"<span{title}>{inner}</span>"
        return f'<a href="{html(link.url)}"{title}>{inner}</a>'


def unmeasured(markdown: str, keys: Container[str], rank: int = 3) -> str:
    """Render a text that is not on a sheet, below a heading of ``rank``. The browser alone breaks its lines."""
    return TextWriter(rank=rank, keys=keys).blocks(parse(markdown), Setting(inf, 1.0, 1.0, 1.0, 1.0))


@lru_cache(maxsize=4096)
def code_pieces(line: highlight.Line) -> str:
    """Render pieces of a line of code. The class of a piece is ``t-`` and its kind."""
    return "".join([f"<span class=t-{kind}>{html(text)}</span>" if kind else html(text) for text, kind in line])


def words(text: str, long_words: Collection[str] = (), *, code: bool = False) -> str:
    """Render plain text. ``long_words`` are the words that are wider than their line. A word that is one of them, or a
    part of one, may be broken at any character. Without this, a browser would break it at hyphens and slashes, earlier
    than the sheet model. If ``code`` is true, other words are not broken."""
    if not long_words and not code:
        return html(text)
    return "".join(_word(piece, long_words, code) for piece in _BLANKS.split(text))


def _word(word: str, long_words: Collection[str], code: bool) -> str:
    if word and any(word in long for long in long_words):
        return f'<span class="long">{html(word)}</span>'
    if code and _BREAKABLE.search(word):
        return f'<span class="whole">{html(word)}</span>'
    return html(word)


def _styled(spans: Iterable[Span], long_words: Collection[str]) -> Iterator[str]:
    for span in spans:
        if isinstance(span, Break):
            yield "<br>"
            continue
        text = words(span.text, long_words, code=span.code)
        if span.code:
            text = f"<code>{text}</code>"
        if span.emphasis:
            text = f"<em>{text}</em>"
        yield f"<strong>{text}</strong>" if span.strong else text
