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
from cardapp.layout.text import Block, Break, Bullets, Cell, CodeBlock, Heading, Paragraph, Quote, Run, Span, Table

_AHEAD = 256
"""Number of characters that are measured at a time."""
_MIN_LINES = 2
"""Minimum number of lines of a split paragraph at the end of a sheet."""
_RULE_LINES = 0.5
_ROUNDING = 1e-6
_MIN_COLUMN_EMS = 3.0
"""Minimum width of a table's column, as a factor of the type size."""
_MAX_HEAD_LINES = 6
"""A table's head with more lines is a row like any other, because each fragment of the table would repeat it."""


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
        case Table():
            return _take_rows(block, room, setting)
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
    max_lines = max(0, int(room / setting.code_line + _ROUNDING))
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


# -- tables --------------------------------------------------------------------------------------------------------


def fitted(table: Table, setting: Setting) -> Table:
    """Return the table as it is shown, with the widths of its columns, without the gaps between them. If its columns
    would be too narrow, the cells of a row are one below the other, in one column."""
    if table.widths:
        return table
    room = setting.width - sheets.TEXT_TABLE_GAP * (len(table.aligns) - 1)
    if room < _MIN_COLUMN_EMS * setting.em * len(table.aligns):
        rows = (*((table.head,) if table.head else ()), *table.rows)
        table = Table((), tuple((cell,) for row in rows for cell in row), ("left",))
        room = setting.width
    widths = _shared(room, _natural_widths(table, setting), _MIN_COLUMN_EMS * setting.em)
    if table.head and _row_lines(table.head, widths, replace(setting, strong=True)) > _MAX_HEAD_LINES:
        table = Table((), (table.head, *table.rows), table.aligns)
    return table._replace(widths=widths)


def _natural_widths(table: Table, setting: Setting) -> list[float]:
    """Return the width of the widest line of each column."""
    found = [_MIN_COLUMN_EMS * setting.em] * len(table.aligns)
    for row in (table.head, *table.rows):
        for place, cell in enumerate(row):
            found[place] = max(found[place], _widest_line(cell, replace(setting, strong=row is table.head)))
    return found


def _widest_line(cell: Cell, setting: Setting) -> float:
    widest = taken = 0.0
    for span in cell:
        taken = 0.0 if isinstance(span, Break) else taken + _width(span, setting)
        widest = max(widest, taken)
    return widest / font_metrics.SLACK + 0.1


def _width(run: Run, setting: Setting) -> float:
    return font_metrics.width(font_metrics.spaced(run.text), setting.em, _face(run, setting))


def _shared(room: float, natural: Sequence[float], least: float) -> tuple[float, ...]:
    """Return widths that add up to at most ``room``. A column that needs no more than an equal share of the remaining
    width gets its natural width; the others share the rest by their natural widths, each at least ``least``."""
    widths = dict(enumerate(natural))
    wide = list(widths)
    while sum(widths.values()) > room and any(widths[each] > _share(room, widths, wide) for each in wide):
        narrow = [each for each in wide if natural[each] <= _share(room, widths, wide)]
        if not narrow:
            rest = room - sum(width for each, width in widths.items() if each not in wide) - least * len(wide)
            total = sum(natural[each] for each in wide)
            widths |= {each: least + rest * natural[each] / total for each in wide}
            break
        wide = [each for each in wide if each not in narrow]
    return tuple(widths.values())


def _share(room: float, widths: dict[int, float], wide: Sequence[int]) -> float:
    return (room - sum(width for each, width in widths.items() if each not in wide)) / len(wide)


def _row_lines(row: Sequence[Cell], widths: Sequence[float], setting: Setting) -> int:
    return max(len(_cell_lines(cell, width, setting)) for cell, width in zip(row, widths, strict=True))


def _cell_lines(cell: Cell, width: float, setting: Setting) -> list[int]:
    """Return the number of characters on each line of a cell. An empty cell has one empty line."""
    return list(line_lengths(cell, replace(setting, width=width))) or [0]


def _take_rows(given: Table, room: float, setting: Setting) -> Taken:
    table = fitted(given, setting)
    widths, height = table.widths, 0.0
    if table.head:
        height = _row_lines(table.head, widths, replace(setting, strong=True)) * setting.line + sheets.TABLE_GAP
    for place, row in enumerate(table.rows):
        more = _row_lines(row, widths, setting) * setting.line + sheets.TABLE_GAP
        if height + more > room + _ROUNDING:
            kept, rest = table.rows[:place], table.rows[place:]
            max_lines = int((room - height - sheets.TABLE_GAP) / setting.line + _ROUNDING)
            if not kept and max_lines >= _MIN_LINES:
                pieces = [_cut_cell(*each, max_lines, setting) for each in zip(row, widths, strict=True)]
                kept, rest = (tuple(piece[0] for piece in pieces),), (tuple(piece[1] for piece in pieces), *rest[1:])
                height += max_lines * setting.line + sheets.TABLE_GAP
            if not kept:
                return Taken((), 0.0, (given,))
            return Taken((table._replace(rows=kept),), height, (table._replace(rows=rest),))
        height += more
    return Taken((given,), height, ()) if height <= room + _ROUNDING else Taken((), 0.0, (given,))


def _cut_cell(cell: Cell, width: float, max_lines: int, setting: Setting) -> tuple[Cell, Cell]:
    return _cut(cell, sum(_cell_lines(cell, width, setting)[:max_lines]))


# -- paragraphs ----------------------------------------------------------------------------------------------------


def _take_paragraph(block: Paragraph | Heading, spans: tuple[Span, ...], room: float, setting: Setting) -> Taken:
    max_lines = int(room / setting.line + _ROUNDING)
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
