"""The sheet model: a card as sheets with placed parts, the input of all emitters.

A page is a block: it begins on a new sheet and continues on as many as it needs. The card's front (title, text,
activity diagram) precedes the first block, the colophon follows the last. Parts are in reading order. Each has a frame
that is high enough for its content, so an emitter moves and breaks nothing. A part that does not fit is split between
paragraphs or lines, and both fragments are marked (``continues``, ``continued``).

Parts and their contents are named tuples, because a big card has thousands of them and tuples are created faster; what
exists once per document or sheet is a frozen dataclass.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Literal, NamedTuple

from cardapp.card.model import Card, Identity, Level
from cardapp.layout.diagram.shapes import Diagram
from cardapp.layout.layout_model import Column, Frame, Grid, Layout, Variant
from cardapp.layout.layout_options import ALL
from cardapp.layout.text import Block

# -- distances that the sheet model and the emitters share -------------------------------------------------------------

PADDING = 1.6
"""Between the frame of a part with a background and its content, on all sides, in mm."""
RULE, RULE_GAP = 0.6, 1.8
"""A component's rule: thickness of the line at the left edge, and its distance to the content, in mm."""
CAPTION_GAP = 0.6
"""Below a caption and above a mark, in mm."""
PARAGRAPH_GAP = 0.5
"""Between two blocks of a text, as a factor of the line height."""
ITEM_GAP = 0.15
"""Between two items of a tight list, as a factor of the line height."""
INDENT, INDENTED_LEVELS = 4.0, 4
"""Indent of a list, quotation or code block in mm, and the number of levels that are indented."""
ANSWER_LINE = 7.5
"""Height of an answer line in mm."""
BLANK = 6.0
"""Height of a box for a value in mm."""
TABLE_SHARE = 0.6
"""The share of a table's width for expressions; values have the rest."""
TABLE_GAP = 1.2
"""Between the columns of a table, and between a row's text and its rule, in mm."""

# -- the model ---------------------------------------------------------------------------------------------------------

Kind = Literal[
    "card_title", "task_title", "block_title", "phase_title", "step_title", "intro", "overview", "goal", "activity",
    "states", "text", "code", "memory", "machine", "notes", "question", "colophon",
]  # fmt: skip
"""The component of a part. ``intro`` is the text of a card, task, block or phase, ``text`` that of a step;
``overview``, ``activity``, ``states`` and ``memory`` are diagrams."""

CONTINUED = "(continued)"
"""The end of the caption of a fragment that continues an earlier one."""
CONTINUES = "continues on the next sheet"
"""The mark of a fragment that another one follows."""


class Title(NamedTuple):
    """The plain text heading of a card, task, block, phase or step. ``number`` counts from the task down ("2.1.3"); ""
    for the card."""

    level: Level
    text: str
    number: str


class RichText(NamedTuple):
    """A parsed text (``text.parse``) of the card, or the colophon. A fragment has whole blocks of the text; of a block
    that is higher than a sheet, some of its items, lines or words."""

    blocks: tuple[Block, ...]


class Question(NamedTuple):
    """A text, and empty lines below it for an answer."""

    blocks: tuple[Block, ...]
    answer_lines: int


class CodeLine(NamedTuple):
    """One line of a source file. ``segments`` are its parts that fit the column, with tabs expanded; they are shown one
    below the other. ``stops`` are the keys of the snapshots that stop at this line."""

    number: int
    segments: tuple[str, ...]
    stops: tuple[str, ...]


class Code(NamedTuple):
    """Lines of ``file``. ``gutter`` is the number of columns before each line, for the stop mark and, if shown, the
    line number. ``missing`` says why lines are missing, else it is ""."""

    file: str
    gutter: int
    lines: tuple[CodeLine, ...]
    missing: str


class Row(NamedTuple):
    """An expression and its value, each in segments that fit its column, one below the other. A value without segments
    is a box to fill in."""

    expression: tuple[str, ...]
    value: tuple[str, ...]


class Machine(NamedTuple):
    """The expected values at a snapshot, as rows of a table with two columns."""

    rows: tuple[Row, ...]


class Note(NamedTuple):
    """Plain text, and below it code in segments that fit the column. The text or the code may be empty."""

    text: str
    code: tuple[str, ...]


class Notes(NamedTuple):
    """Side notes of a snapshot: where the program stops, and the watched expressions."""

    entries: tuple[Note, ...]


Content = Title | RichText | Question | Code | Diagram | Machine | Notes


class Part(NamedTuple):
    """One element of a sheet. ``key`` is its position in the card, for anchors and error messages; ``column`` is a
    column of the grid or "all"; ``row`` counts the rows of the sheet, whose parts are side by side.

    ``frame`` contains, from top to bottom: the component's padding; ``caption`` in the size "label" and
    ``CAPTION_GAP``; the content; ``CAPTION_GAP`` and ``mark`` in the size "label"; the padding again. An empty caption
    or mark takes no space. A diagram is already laid out for its frame."""

    kind: Kind
    key: str
    column: str
    row: int
    frame: Frame
    content: Content
    caption: str = ""
    mark: str = ""
    continued: bool = False
    """It continues an earlier fragment; ``caption`` says so."""
    continues: bool = False
    """Another fragment follows; ``mark`` says so."""


@dataclass(frozen=True)
class Header:
    """The head of a sheet. ``continued`` is true on all but the first sheet of a block. On the front, task and block
    are "".
    """

    card: str
    task: str
    block: str
    continued: bool


@dataclass(frozen=True)
class Footer:
    """The foot of a sheet: the card's revision (``sha256`` is shortened to 12 hex digits) and "sheet ``number`` of
    ``count``"."""

    id: str
    version: str
    sha256: str
    number: int
    count: int


@dataclass(frozen=True)
class Sheet:
    """One side of paper. ``index`` counts from 0 over the document, ``page_index`` as in the catalog, ``number`` from 1
    over the sheets of the page. ``key`` is the block's; "" for the front, and for a colophon without blocks."""

    index: int
    page_index: int
    number: int
    key: str
    header: Header
    footer: Footer
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Document:
    """A card as sheets. ``page_of`` maps each position to its page, ``sheet_of`` to the index of the sheet on which it
    begins."""

    card: Card
    identity: Identity
    layout: Layout
    sheets: tuple[Sheet, ...]
    page_of: Mapping[str, int]
    sheet_of: Mapping[str, int]


# -- rows with their lines --------------------------------------------------------------------------------------------

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
