"""Fits a text into a height: measures its blocks, and splits the text into the part that fits and the rest.

Nothing is measured beyond the split, so the time is linear in the text's length, on any number of sheets.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain, islice
from typing import NamedTuple

from cardapp.layout import font_metrics, sheets
from cardapp.layout.font_metrics import Face
from cardapp.layout.text import Block, Bullets, CodeBlock, Heading, Paragraph, Quote, Run, Span

_AHEAD = 256
"""Number of characters that are measured at a time."""
_MIN_LINES = 2
"""Minimum number of lines of a split paragraph at the end of a sheet."""
_RULE_LINES = 0.5


@dataclass(frozen=True)
class Setting:
    """The width and type sizes of a text in mm. ``em`` and ``line`` are the type size and line height of the text,
    ``code_em`` and ``code_line`` those of its code blocks. ``level`` is the nesting depth in lists and quotations."""

    width: float
    em: float
    line: float
    code_em: float
    code_line: float
    strong: bool = False
    level: int = 0

    def inside(self, indent: float = sheets.INDENT) -> Setting:
        """Return the setting within a list or quotation."""
        room = self.width - indent if self.level < sheets.INDENTED_LEVELS else self.width
        return replace(self, width=room, level=self.level + 1)


class Taken(NamedTuple):
    """The blocks that fit, their height, and the remaining blocks. ``rest`` is () if all blocks fit."""

    blocks: tuple[Block, ...]
    height: float
    rest: tuple[Block, ...]


def take(blocks: tuple[Block, ...], room: float, setting: Setting) -> Taken:
    """Return the ``blocks`` that fit the height ``room`` (mm). The last one may be split."""
    height, gap = 0.0, 0.0
    for place, block in enumerate(blocks):
        found = _take_block(block, room - height - gap, setting)
        if found.rest:
            height += gap + found.height if found.blocks else 0.0
            return Taken(blocks[:place] + found.blocks, height, found.rest + blocks[place + 1 :])
        height += gap + found.height
        gap = _gap_after(block, setting)
    return Taken(blocks, height, ())


def _gap_after(block: Block, setting: Setting) -> float:
    is_tight = isinstance(block, Paragraph) and block.tight
    return (sheets.ITEM_GAP if is_tight else sheets.PARAGRAPH_GAP) * setting.line


def _take_block(block: Block, room: float, setting: Setting) -> Taken:
    match block:
        case Paragraph(spans):
            return _take_paragraph(block, spans, room, setting)
        case Heading(_, spans):
            return _take_paragraph(block, spans, room, replace(setting, strong=True))
        case CodeBlock():
            return _take_code(block, room, setting.inside())
        case Quote():
            found = take(block.blocks, room, setting.inside())
            kept: tuple[Block, ...] = (Quote(found.blocks),) if found.blocks else ()
            return Taken(kept, found.height, (Quote(found.rest),) if found.rest else ())
        case Bullets():
            return _take_items(block, room, setting)
        case _:
            height = _RULE_LINES * setting.line
            return Taken((block,), height, ()) if height <= room else Taken((), 0.0, (block,))


# -- lists and code ------------------------------------------------------------------------------------------------


def indent(bullets: Bullets, em: float) -> float:
    """Return the indent of a list's items in mm. It is wide enough for the list's last number. ``em`` is the type size
    in mm."""
    if bullets.start is None:
        return sheets.INDENT
    return max(sheets.INDENT, font_metrics.width(f"{bullets.start + len(bullets.items)}. ", em))


def _take_items(bullets: Bullets, room: float, setting: Setting) -> Taken:
    inner = setting.inside(indent(bullets, setting.em))
    height, gap = 0.0, 0.0
    for place, item in enumerate(bullets.items):
        found = take(item, room - height - gap, inner)
        if found.rest:
            kept = (found.blocks,) if found.blocks else ()
            height += gap + found.height if kept else 0.0
            items = bullets.items[:place] + kept
            start = None if bullets.start is None else bullets.start + place
            rest = Bullets((found.rest, *bullets.items[place + 1 :]), start)
            return Taken((bullets._replace(items=items),) if items else (), height, (rest,))
        # An item without blocks still has its mark.
        height += gap + max(found.height, setting.line)
        gap = _gap_after(item[-1], setting) if item else sheets.ITEM_GAP * setting.line
    return Taken((bullets,), height, ())


def _take_code(block: CodeBlock, room: float, setting: Setting) -> Taken:
    max_lines = max(0, int(room / setting.code_line + 1e-6))
    columns = font_metrics.columns(setting.width, setting.code_em)
    taken = 0
    lines = block.text.split("\n")
    for place, line in enumerate(lines):
        pieces = font_metrics.chop(line, columns)
        if taken + len(pieces) > max_lines:
            split = max_lines - taken
            kept, rest = "".join(pieces[:split]), "".join(pieces[split:])
            before, after = lines[:place] + ([kept] if split else []), [rest, *lines[place + 1 :]]
            stays = (block._replace(text="\n".join(before)),) if before else ()
            return Taken(stays, max_lines * setting.code_line, (block._replace(text="\n".join(after)),))
        taken += len(pieces)
    return Taken((block,), taken * setting.code_line, ())


# -- paragraphs ----------------------------------------------------------------------------------------------------


def _take_paragraph(block: Paragraph | Heading, spans: tuple[Span, ...], room: float, setting: Setting) -> Taken:
    max_lines = int(room / setting.line + 1e-6)
    lengths = list(islice(line_lengths(spans, setting), max(0, max_lines) + 1))
    if len(lengths) <= max_lines:
        return Taken((block,), len(lengths) * setting.line, ())
    if max_lines < _MIN_LINES:
        return Taken((), 0.0, (block,))
    kept, rest = _cut(spans, sum(lengths[:max_lines]))
    return Taken((block._replace(spans=kept),), max_lines * setting.line, (block._replace(spans=rest),))


def _length(span: Span) -> int:
    return len(span.text) if isinstance(span, Run) else 1


def _cut(spans: tuple[Span, ...], length: int) -> tuple[tuple[Span, ...], tuple[Span, ...]]:
    """Split the spans after ``length`` characters. A break counts as one character."""
    for place, span in enumerate(spans):
        if length < _length(span):
            before, after = spans[:place], spans[place + 1 :]
            if isinstance(span, Run) and length:
                before = (*before, span._replace(text=span.text[:length]))
                span = span._replace(text=span.text[length:])
            return before, (span, *after)
        length -= _length(span)
    return spans, ()


def line_lengths(spans: tuple[Span, ...], setting: Setting) -> Iterator[int]:
    """Yield the number of characters on each line of a paragraph, including spaces and the break at its end."""
    limit = setting.width * font_metrics.SLACK * 1000 / setting.em
    runs: list[Run] = []
    for span in spans:
        if isinstance(span, Run):
            runs.append(span)
            continue
        *full, last = _lines(runs, limit, setting) if runs else [0]
        yield from (*full, last + 1)
        runs = []
    yield from _lines(runs, limit, setting)


def _lines(runs: Sequence[Run], limit: float, setting: Setting) -> Iterator[int]:
    """Yield the line lengths of runs without breaks. A line ends after the last space that fits, or after the last
    character that fits if there is no such space. This takes most of a layout's time, so the end is found by bisection
    and not word by word."""
    text = font_metrics.spaced("".join([run.text for run in runs]))
    advances = accumulate(chain.from_iterable(font_metrics.advances(run.text, _face(run, setting)) for run in runs))
    reached, start = [0], 0
    while start < len(text):
        goal = reached[start] + limit
        while reached[-1] <= goal and len(reached) <= len(text):
            reached += islice(advances, _AHEAD)
        stop = max(start + 1, bisect_right(reached, goal, start) - 1)
        if stop < len(text) and text[stop] != " ":
            stop = text.rfind(" ", start, stop) + 1 or stop
        while stop < len(text) and text[stop] == " ":
            stop += 1
        yield stop - start
        start = stop


def _face(run: Run, setting: Setting) -> Face:
    return "code" if run.code else "strong" if run.strong or setting.strong else "regular"
