"""The sheet model: a card as sheets with placed parts, the input of all emitters.

A page is a block: it begins on a new sheet and continues on as many as it needs. The card's front (title, text,
activity diagram) precedes the first block, the colophon follows the last. Parts are in reading order. Each has a frame
that is high enough for its content, so an emitter moves and breaks nothing. A part that does not fit is split between
paragraphs or lines, and both fragments are marked (``continues``, ``continued``).

Parts and their contents are named tuples, because a big card has thousands of them and tuples are created faster; what
exists once per document or sheet is a frozen dataclass.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from cardapp.card.model import Card, Identity, Level
from cardapp.layout.diagram.model import Diagram
from cardapp.layout.template import Frame, Layout
from cardapp.layout.text import Block

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
