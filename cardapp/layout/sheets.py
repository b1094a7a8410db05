"""The sheet model: a card laid out as pages of placed parts, the same for every emitter.

A page is a block: it begins on a sheet of its own and flows on to as many as it needs. The card's front (title, text,
activity diagram) opens the first page, the colophon closes the last. Parts come in reading order; each lies in a frame
that is high enough for what it holds, so an emitter neither moves nor breaks anything. A part that does not fit is cut
between paragraphs or lines, and both pieces say so (``continues``, ``continued``). Parts and what they hold are tuples,
as a big card has thousands of them; what there is once or once a sheet is a frozen dataclass.
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
"""The name of the component that says how a part looks. ``intro`` is the text of a card, task, block or phase, ``text``
that of a step; ``overview``, ``activity``, ``states`` and ``memory`` are diagrams."""

CONTINUED = "(continued)"
"""At the end of the caption of a piece that goes on from an earlier one."""
CONTINUES = "continues on the next sheet"
"""The mark of a piece that a further one follows."""


class Title(NamedTuple):
    """The content of every ``…_title``: the heading of a card, task, block, phase or step, plain text. ``number``
    counts from the task down ("2.1.3"); "" for the card."""

    level: Level
    text: str
    number: str


class Prose(NamedTuple):
    """A text of the card as ``text.parse`` reads it (``goal``, ``intro``, ``text``), and the ``colophon``. A piece of a
    longer text holds whole blocks of it, or, of a block longer than a sheet, some of its items, lines or words."""

    blocks: tuple[Block, ...]


class Question(NamedTuple):
    """A text, and below it empty lines to write the answer on."""

    blocks: tuple[Block, ...]
    answer_lines: int


class CodeLine(NamedTuple):
    """One line of a source file. ``pieces`` are what fits the column, one below the other; without its tabs, which
    became spaces, they make up the line. ``stops`` are the keys of the snapshots that stop here."""

    number: int
    pieces: tuple[str, ...]
    stops: tuple[str, ...]


class Code(NamedTuple):
    """Lines of ``file``. ``gutter`` is how many columns before each line hold the mark of a stop and, if the component
    shows it, the line's number. Where there are no lines, ``missing`` says why in one line."""

    file: str
    gutter: int
    lines: tuple[CodeLine, ...]
    missing: str


class Row(NamedTuple):
    """An expression of the card and its value, each in the pieces that fit its column, one below the other. A value of
    no pieces is a box to fill in."""

    expression: tuple[str, ...]
    value: tuple[str, ...]


class Machine(NamedTuple):
    """What the machine must hold at a snapshot, as rows of a table with two columns."""

    rows: tuple[Row, ...]


class Note(NamedTuple):
    """A line or two of plain text in words, and below it code, in the pieces that fit the column; one may be empty."""

    text: str
    code: tuple[str, ...]


class Notes(NamedTuple):
    """Side notes of a snapshot: where the program stands, and what else is worth watching."""

    entries: tuple[Note, ...]


Content = Title | Prose | Question | Code | Diagram | Machine | Notes


class Part(NamedTuple):
    """One thing on a sheet. ``key`` is its place in the card (for anchors, and to tell where an error lies); ``column``
    a column of the grid or "all"; ``row`` counts the bands of the sheet: parts of one row stand side by side.

    ``frame`` holds, from top to bottom: the padding of the component, the lines of ``caption`` in the size "label" with
    ``CAPTION_GAP`` below, the content, ``CAPTION_GAP`` with a line for ``mark`` in the size "label", the padding
    again; what is "" takes no room. ``caption`` is what kind of part it is and of what; ``mark`` says that it goes on.
    A diagram was laid out for the room in its frame and is drawn as it is.
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
    """It goes on from an earlier piece (``caption`` says so)."""
    continues: bool = False
    """A further piece follows (``mark`` says so)."""


@dataclass(frozen=True)
class Header:
    """The head of a sheet; ``continued`` on every sheet of a block but its first. Of the front, task and block are
    ""."""

    card: str
    task: str
    block: str
    continued: bool


@dataclass(frozen=True)
class Footer:
    """The foot of a sheet: the card's revision (``sha256`` is short: 12 hex digits) and "sheet ``number`` of
    ``count``"."""

    id: str
    version: str
    sha256: str
    number: int
    count: int


@dataclass(frozen=True)
class Sheet:
    """One side of paper. ``index`` counts from 0 over the document, ``page_index`` is the catalog's, ``number`` counts
    the sheets of its page from 1; ``key`` is its block's, "" for the front and a colophon of its own."""

    index: int
    page_index: int
    number: int
    key: str
    header: Header
    footer: Footer
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Document:
    """A card on sheets. ``page_of`` gives the page of every position of the catalog, ``sheet_of`` the index of the
    sheet on which it begins."""

    card: Card
    identity: Identity
    layout: Layout
    sheets: tuple[Sheet, ...]
    page_of: Mapping[str, int]
    sheet_of: Mapping[str, int]
