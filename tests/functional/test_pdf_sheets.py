"""The sheets of a shipped card as PDF by the real lualatex: typeset without errors, every part in its frame, with
readable text and working links. Each run typesets one card in one layout, drawn by its seed."""

from __future__ import annotations

import io
import random
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from xml.etree import ElementTree

import pypdf
import pytest

from cardapp.card.catalog import Catalog
from cardapp.layout import highlight
from cardapp.layout.compose import compose
from cardapp.layout.latex.document import CARD, render
from cardapp.layout.layout_model import Frame
from cardapp.layout.sheets import Code, Document, Fields, Machine, Notes, Part, Question, RichText, Title
from cardapp.layout.text import Block, Bullets, Quote
from cardapp.publish import layouts
from cardapp.publish.lualatex import TypesetPdf, typeset
from tests.cardapp.layout.hostile import SHIPPED, shipped, text_of

pytestmark = [pytest.mark.functional, pytest.mark.timeout(600)]

MM = 25.4 / 72
NEAR = 0.4  # mm; an invisible difference
SIDES = ("xMin", "yMin", "xMax", "yMax")


@dataclass(frozen=True)
class Word:
    """A word of a page and its position, in mm from the top left corner."""

    text: str
    left: float
    top: float
    right: float
    bottom: float

    def is_in(self, frame: Frame) -> bool:
        """Compares the whole width, but only the middle of the height, because a font's boxes are higher than its
        letters."""
        middle = (self.top + self.bottom) / 2
        return (
            frame.x - NEAR <= self.left
            and self.right <= frame.x + frame.width + NEAR
            and frame.y - NEAR <= middle <= frame.y + frame.height + NEAR
        )


@dataclass(frozen=True)
class Sheets:
    """A card's sheets, and the result of lualatex."""

    document: Document
    tex: str
    typeset_pdf: TypesetPdf
    path: Path

    def poppler(self, program: str, *options: str) -> str:
        command = [program, *options, str(self.path)] + (["-"] if program == "pdftotext" else [])
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    def pages(self) -> Iterator[list[Word]]:
        space = "{http://www.w3.org/1999/xhtml}"
        for page in ElementTree.fromstring(self.poppler("pdftotext", "-bbox")).iter(f"{space}page"):
            words = page.iter(f"{space}word")
            yield [Word(word.text or "", *(float(word.attrib[side]) * MM for side in SIDES)) for word in words]


def test_a_shipped_card_is_typeset(latex_cache: Path, tmp_path: Path, rng: random.Random) -> None:
    card, layout = rng.choice(list(product(SHIPPED, layouts.known_ids())))
    loaded = shipped(card)
    document = compose(loaded.card, loaded.identity, layouts.find(layout).arranged("latex"), loaded.sources())
    tex = render(document)
    typeset_pdf = typeset(tex, latex_cache)
    path = tmp_path / f"{card}-{layout}.pdf"
    path.write_bytes(typeset_pdf.pdf)
    sheets = Sheets(document, tex, typeset_pdf, path)
    assert_latex_has_nothing_to_complain_of_and_every_sheet_is_a_page(sheets)
    assert_every_word_is_inside_the_frame_of_its_part(sheets)
    assert_text_is_extracted_in_reading_order(sheets)
    assert_positions_and_links_lead_where_they_say(sheets)


def assert_latex_has_nothing_to_complain_of_and_every_sheet_is_a_page(sheets: Sheets) -> None:
    log = sheets.typeset_pdf.log
    assert sheets.typeset_pdf.remarks == sheets.typeset_pdf.named == ()
    assert [size for size in re.findall(r"^Overfull \\[hv]box \(([0-9.]+)pt", log, re.M) if float(size) > 2] == []
    assert re.findall(r"^(?:Missing character|.*Warning: |! ).*", log, re.MULTILINE) == []
    assert "write18 enabled" not in log
    page = sheets.document.layout.page
    info = sheets.poppler("pdfinfo", "-f", "1", "-l", "9999")
    sizes = re.findall(r"^Page +\d+ size: +([0-9.]+) x ([0-9.]+) pts", info, re.MULTILINE)
    assert len(sizes) == len(sheets.document.sheets)
    for size in sizes:
        assert [float(length) * MM for length in size] == pytest.approx([page.width, page.height], abs=0.1)
    lines = sheets.poppler("pdffonts").splitlines()[2:]
    assert lines
    for line in lines:
        name, *_, embedded, subset, unicode, _object, _generation = line.split()
        assert re.fullmatch(r"[A-Z]{6}\+Noto\w+-\w+", name), line
        assert (embedded, subset, unicode) == ("yes", "yes", "yes"), line


def assert_every_word_is_inside_the_frame_of_its_part(sheets: Sheets) -> None:
    grid = sheets.document.layout.grid
    for sheet, words in zip(sheets.document.sheets, sheets.pages(), strict=True):
        frames = [grid.header, grid.footer, *(part.frame for part in sheet.parts)]
        outside = [word for word in words if not any(word.is_in(frame) for frame in frames)]
        assert outside == [], sheet.number


def texts(part: Part) -> Iterator[str]:
    """The text of a part, in reading order."""
    yield part.caption
    match part.content:
        case Title(_, text, number):
            yield number
            yield text
        case RichText(blocks) | Question(blocks, _):
            yield from paragraphs(blocks)
        case Code(lines=lines):
            for line in lines:
                yield from map(highlight.text_of, line.segments)
        case Machine(rows):
            for row in rows:
                yield from row.expression
                yield from row.value
        case Notes(entries):
            for note in entries:
                yield note.text
                yield from note.code
        case Fields(names):
            yield from names
        case diagram:
            for node in diagram.nodes:
                yield from (line.text for line in node.lines)
    yield part.mark


def paragraphs(blocks: tuple[Block, ...]) -> Iterator[str]:
    """The texts between which the sheets may show the mark of a list item."""
    for block in blocks:
        match block:
            case Quote(inner):
                yield from paragraphs(inner)
            case Bullets(items):
                for item in items:
                    yield from paragraphs(item)
            case _:
                yield text_of((block,))


def assert_text_is_extracted_in_reading_order(sheets: Sheets) -> None:
    """The text in the order of the file, which a screen reader uses."""
    pages = sheets.poppler("pdftotext", "-raw").split("\f")
    assert pages.pop() == ""
    for sheet, page in zip(sheets.document.sheets, pages, strict=True):
        shown, place = "".join(page.split()), 0
        for part in sheet.parts:
            for text in texts(part):
                wanted = "".join(text.split())
                found = shown.find(wanted, place)
                assert found >= 0, (sheet.number, part.kind, part.key, text)
                place = found + len(wanted)


def assert_positions_and_links_lead_where_they_say(sheets: Sheets) -> None:
    document = sheets.document
    reader = pypdf.PdfReader(io.BytesIO(sheets.typeset_pdf.pdf))
    pages = {page.indirect_reference.idnum: at for at, page in enumerate(reader.pages) if page.indirect_reference}
    items = {item.key: item for item in Catalog(document.card).items}
    led = {name: pages[place.page.idnum] for name, place in reader.named_destinations.items()}
    assert {key: led[key or CARD] for key in items} == {key: document.sheet_of[key] for key in items}
    links = [note.get_object() for page in reader.pages for note in page.get("/Annots", ())]
    within = [link for link in links if link["/Subtype"] == "/Link" and link["/A"]["/S"] == "/GoTo"]
    assert {str(link["/A"]["/D"]) for link in within} <= led.keys()
    assert reader.metadata is not None
    assert reader.metadata.title == document.card.title
    assert document.identity.source_sha256 in str(reader.metadata["/Keywords"])
    assert reader.trailer["/Root"]["/Lang"] == document.card.language  # type: ignore[index]
