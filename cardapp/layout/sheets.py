"""The sheet model: a card as sheets with placed parts, the input of all emitters.

Each block of the card is a page. A page begins on a new sheet and takes as many sheets as it needs. The card's front
(title, text, activity diagram) precedes the first block, and the colophon follows the last one. Parts are in reading
order. Each part has a frame that is high enough for its content, so an emitter neither moves nor splits a part. A part
that does not fit a sheet is split between paragraphs or lines, and both fragments are marked (``continues``,
``continued``).

Parts and their contents are named tuples, because a big card has thousands of them and tuples are created faster.
Objects that exist once per document or sheet are frozen dataclasses.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from typing import Literal, NamedTuple

from cardapp.card.model import Card, Identity, Level
from cardapp.layout.annotations import Drawn
from cardapp.layout.diagram.shapes import Diagram
from cardapp.layout.highlight import Line as CodeSegment
from cardapp.layout.layout_model import Column, Frame, Grid, Layout, Variant
from cardapp.layout.layout_options import ALL
from cardapp.layout.text import Block

# -- distances that the sheet model and the emitters share -------------------------------------------------------------

PADDING = 1.6
"""Distance in mm, on all sides, between the frame of a part with a background and its content."""
RULE, RULE_GAP = 0.6, 1.8
"""A component's rule: thickness of the line at the left edge, and its distance to the content, in mm."""
CAPTION_GAP = 0.6
"""Distance in mm below a caption and above a mark."""
PARAGRAPH_GAP = 0.5
"""Distance between two blocks of a text, as a factor of the line height."""
ITEM_GAP = 0.15
"""Distance between two items of a tight list, as a factor of the line height."""
INDENT, INDENTED_LEVELS = 4.0, 4
"""Indent of a list, quotation or code block in mm, and the number of levels that are indented."""
ANSWER_LINE = 7.5
"""Height of an answer line in mm."""
FIELDS_GAP = 6.0
"""Distance in mm between the fields of a line."""
BLANK = 6.0
"""Height in mm of a box in which a value is to be filled in."""
TABLE_SHARE = 0.6
"""The expressions' share of a table's width. The values have the rest."""
MIN_TABLE_SHARE = 0.2
"""Their share of a table with long values is at least this."""
TABLE_GAP = 1.2
"""Distance in mm between the columns of a table, and between a row's text and its rule."""
TEXT_TABLE_GAP = 3.0
"""Distance in mm between the columns of a table within a text."""

# -- the model ---------------------------------------------------------------------------------------------------------

Kind = Literal[
    "name_date", "card_title", "task_title", "block_title", "phase_title", "step_title", "intro", "overview", "goal",
    "activity", "states", "text", "code", "memory", "machine", "explanation", "notes", "question", "colophon",
]  # fmt: skip
"""The component of a part. ``intro`` is the text of a card, task, block or phase; ``text`` is the text of a step.
``overview``, ``activity``, ``states`` and ``memory`` are diagrams."""


def is_title(kind: Kind) -> bool:
    return kind.endswith("_title")


CONTINUED = "(continued)"
"""The end of the caption of a fragment that continues an earlier fragment."""
CONTINUES = "continues on the next sheet"
"""The mark below a fragment that another fragment follows."""


class Title(NamedTuple):
    """The plain text heading of a card, task, block, phase or step. ``number`` joins the numbers from the task down to
    this level, like "2.1.3". It is "" for the card."""

    level: Level
    text: str
    number: str


class RichText(NamedTuple):
    """A parsed text (``text.parse``) of the card or of the colophon. A fragment contains whole blocks, except that the
    first and the last one may be parts of a block that was split."""

    blocks: tuple[Block, ...]


class Fields(NamedTuple):
    """Names with a line to write on after each, side by side. Their line is ``ANSWER_LINE`` high."""

    names: tuple[str, ...]


class Question(NamedTuple):
    """A text, and empty lines below it for an answer."""

    blocks: tuple[Block, ...]
    answer_lines: int


class CodeLine(NamedTuple):
    """One line of a source file. ``segments`` are the parts of the line that fit the column, with tabs expanded, each
    as pieces of one kind. They are shown one below the other. ``stops`` are the keys of the snapshots that stop at
    this line."""

    number: int
    segments: tuple[CodeSegment, ...]
    stops: tuple[str, ...]


class Code(NamedTuple):
    """Lines of ``file``. ``gutter`` is the number of columns before each line, for the stop mark and, if shown, the
    line number. ``notice`` says that lines are missing or changed; it is "" if the lines are as the author chose
    them."""

    file: str
    gutter: int
    lines: tuple[CodeLine, ...]
    notice: str


class Row(NamedTuple):
    """An expression and its value. Each consists of segments that fit its column, one below the other. A value without
    segments is a box to fill in."""

    expression: tuple[str, ...]
    value: tuple[str, ...]


class Machine(NamedTuple):
    """The expected values at a snapshot, as rows of a table with two columns. ``share`` is the part of its width
    that the expressions have."""

    rows: tuple[Row, ...]
    share: float = TABLE_SHARE


class Note(NamedTuple):
    """Plain text, and below it code in segments that fit the column. Either may be empty."""

    text: str
    code: tuple[str, ...]


class Notes(NamedTuple):
    """Side notes of a snapshot: where the program stops, and the watched expressions."""

    entries: tuple[Note, ...]


Content = Fields | Title | RichText | Question | Code | Diagram | Machine | Notes


class Part(NamedTuple):
    """One element of a sheet. ``key`` is the position in the card, for anchors and error messages. ``column`` is a
    column of the grid or "all". ``row`` is the index of the row on the sheet; the parts of a row are side by side.

    ``frame`` contains, from top to bottom: the component's padding; ``caption`` in the size "label" and
    ``CAPTION_GAP``; the content; ``CAPTION_GAP`` and ``mark`` in the size "label"; the padding again. An empty caption
    or mark takes no space. A diagram is already laid out for its frame.
    """

    kind: Kind
    key: str
    column: str
    row: int
    frame: Frame
    content: Content
    caption: str = ""
    mark: str = ""
    continued: bool = False
    """True if this part continues an earlier fragment; ``caption`` then says so."""
    continues: bool = False
    """True if another fragment follows; ``mark`` then says so."""


@dataclass(frozen=True)
class Header:
    """The head of a sheet. ``continued`` is true on all sheets of a block except the first. On the front, task and
    block are ""."""

    card: str
    task: str
    block: str
    continued: bool


@dataclass(frozen=True)
class Footer:
    """The foot of a sheet: the card's revision (``sha256`` is shortened to 12 hex digits), whether the card was proved
    (``proved`` is a phrase, or "" if this is not shown), and "sheet ``number`` of ``count``"."""

    id: str
    version: str
    sha256: str
    proved: str
    number: int
    count: int


@dataclass(frozen=True)
class Sheet:
    """One side of paper. ``index`` counts the sheets of the document from 0, ``number`` the sheets of the page from 1.
    ``page_index`` is the index of the page in the catalog. ``key`` is the key of the block. It is "" for the front, and
    for the colophon of a card without blocks."""

    index: int
    page_index: int
    number: int
    key: str
    header: Header
    footer: Footer
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Document:
    """A card as sheets. ``page_of`` maps each position to its page. ``sheet_of`` maps it to the index of the sheet on
    which it begins."""

    card: Card
    identity: Identity
    layout: Layout
    sheets: tuple[Sheet, ...]
    page_of: Mapping[str, int]
    sheet_of: Mapping[str, int]
    annotations: Mapping[str, Sequence[Drawn]] = field(default_factory=dict)
    """The annotations to draw, by the name of their part."""


# -- rows with their lines --------------------------------------------------------------------------------------------

DIVIDER, BAR = 0.2, 0.5
"""Thickness of the line in a gutter and of the bar above a column, in mm."""
_RULE_RISE = 1.2
"""Dividers and bars begin this far above the parts of their row, in mm."""


@dataclass(frozen=True)
class SheetRow:
    """The parts of a row in reading order, the ``dividers`` in the gutters between its columns, and the ``bars`` above
    its columns. A row has no dividers and no bars if it has one column or spans the sheet."""

    parts: tuple[Part, ...]
    dividers: tuple[Frame, ...] = ()
    bars: tuple[Frame, ...] = ()


def rows_with_rules(parts: Sequence[Part], grid: Grid, variant: Variant) -> Iterator[SheetRow]:
    """Yield the rows of a sheet with their lines. ``classic`` has neither dividers nor bars; ``5a`` has no bars."""
    for _, group in groupby(parts, lambda part: part.row):
        row = tuple(group)
        names = {part.column for part in row}
        filled = [column for column in grid.columns if column.name in names]
        if variant == "classic" or ALL in names or len(filled) < 2:
            yield SheetRow(row)
            continue
        top = min(part.frame.y for part in row) - _RULE_RISE
        height = max(part.frame.y + part.frame.height for part in row) - top
        dividers = (_divider(left, right, top, height) for left, right in pairwise(_span(filled, grid)))
        bars = (Frame(column.x, top, column.width, BAR) for column in filled if variant == "5b")
        yield SheetRow(row, tuple(dividers), tuple(bars))


def _span(filled: Sequence[Column], grid: Grid) -> list[Column]:
    return [column for column in grid.columns if filled[0].x <= column.x <= filled[-1].x]


def _divider(left: Column, right: Column, top: float, height: float) -> Frame:
    middle = (left.x + left.width + right.x) / 2
    return Frame(middle - DIVIDER / 2, top, DIVIDER, height)
