"""The same diagrams in Chromium and in LuaLaTeX's PDF: every node and every word is at the same place in both."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from xml.etree import ElementTree

import pytest
from playwright.sync_api import Browser

from cardapp.card.source import load_card
from cardapp.layout.diagram import activity, arena, memory, states, svg, tikz
from cardapp.layout.diagram.shapes import Box, Diagram, Room
from cardapp.layout.layout_options import COLORS

pytestmark = [pytest.mark.functional, pytest.mark.full]

ROOT = Path(__file__).resolve().parent.parent.parent
TOLERANCE = 0.5  # mm; a visible difference
PAPER = 420  # mm
PIXELS = 96 / 25.4
POINTS = 72 / 25.4
PALETTE = {name: value for name, (_use, value) in COLORS.items()}
READING = {
    "base": 0x5555_5555_92A0, "size": 320, "used": 29, "high_water": 138,
    "blocks": [{"offset": 0, "size": 8, "label": "first"}, {"offset": 8, "size": 5, "label": "second"},
               {"offset": 16, "size": 13, "label": "third"}],
}  # fmt: skip

RECTANGLE = "const placed = box => [box.x, box.y, box.width, box.height];"
SHAPES = f"elements => {{ {RECTANGLE} return elements.map(one => placed(one.getBoundingClientRect())); }}"
WORDS = f"""elements => {{ {RECTANGLE} return elements.flatMap(one =>
    [...one.textContent.matchAll(/[^ ]+/g)].map(word => {{
        const range = document.createRange();
        range.setStart(one.firstChild, word.index);
        range.setEnd(one.firstChild, word.index + word[0].length);
        return [word[0], ...placed(range.getBoundingClientRect())];
    }})); }}"""


def drawn(name: str) -> Iterator[Diagram]:
    """Diagrams of every kind for the card ``name``, with much and with little width."""
    card = load_card(ROOT / "etc" / "cards" / name).card
    yield from activity.of_card(card, Room(180, 120))
    for task, width in zip(card.tasks, (54, 106, 180, 267), strict=False):
        block = task.blocks[-1]
        yield from activity.of_block(f"{task.id}/{block.id}", block, Room(width, 150))
        yield from states.of_block(f"{task.id}/{block.id}", block, Room(width, 150))
    seen = arena.arena_from_reading(READING)
    assert seen is not None
    yield memory.memory_map("a/b/c/d/e", "Three blocks", seen, Room(80, 120))


@dataclass(frozen=True)
class Seen:
    """The boxes of the linked nodes' shapes, and of the words by their text, in one output format; in mm."""

    nodes: list[Box]
    words: dict[str, list[Box]]


@pytest.fixture(scope="module", params=["arena", "calc"])
def diagrams(request: pytest.FixtureRequest) -> list[Diagram]:
    return list(drawn(request.param))


@pytest.fixture
def on_screen(diagrams: list[Diagram], browser: Browser) -> list[Seen]:
    return list(measured_in_browser(diagrams, browser))


@pytest.fixture
def on_paper(diagrams: list[Diagram], tmp_path: Path) -> list[Seen]:
    for program in ("lualatex", "pdftotext"):
        if shutil.which(program) is None:
            pytest.skip(f"not run: there is no {program} here")
    return list(measured_in_pdf(diagrams, tmp_path))


def test_nodes_and_words_lie_in_the_same_places_in_html_and_pdf(
    diagrams: list[Diagram], on_screen: list[Seen], on_paper: list[Seen]
) -> None:
    words = 0
    for diagram, screen, paper in zip(diagrams, on_screen, on_paper, strict=True):
        linked = [node for node in diagram.nodes if node.href]
        for node, here, there in zip(linked, screen.nodes, paper.nodes, strict=True):
            assert apart(here, there) < TOLERANCE, node
            assert apart(here, node.box) < TOLERANCE, node
        for word in screen.words.keys() & paper.words.keys():
            here, there = screen.words[word], paper.words[word]
            if len(here) == len(there) == 1:
                words += 1
                assert apart(here[0], there[0]) < TOLERANCE, word
                assert here[0].width == pytest.approx(there[0].width, abs=TOLERANCE)
    assert words > 100, "the comparison has found what it is about"


def scaled(box: Sequence[float]) -> Box:
    x, y, width, height = (length / PIXELS for length in box)
    return Box(x, y, width, height)


def apart(one: Box, other: Box) -> float:
    """How far the centres are from each other, in mm along the worse axis."""
    return max(abs(one.centre.x - other.centre.x), abs(one.centre.y - other.centre.y))


def measured_in_browser(diagrams: Sequence[Diagram], browser: Browser) -> Iterator[Seen]:
    page = browser.new_page()
    for diagram in diagrams:
        page.set_content(
            f"<!doctype html><style>{svg.style(PALETTE)} body{{margin:0}} .diagram{{max-width:none!important}}</style>"
            + svg.render(diagram)
        )
        shapes = page.locator("a.node > .shape").evaluate_all(SHAPES)
        words: dict[str, list[Box]] = {}
        for word, *box in page.locator("text").evaluate_all(WORDS):
            words.setdefault(word, []).append(scaled(box))
        yield Seen([scaled(box) for box in shapes], words)
    page.close()


def measured_in_pdf(diagrams: Sequence[Diagram], folder: Path) -> Iterator[Seen]:
    pdf = compiled(diagrams, folder)
    links = pdf_links(pdf.read_bytes())
    for diagram, words in zip(diagrams, pdf_words(pdf, folder), strict=True):
        wanted = [*(lane.href for lane in diagram.partitions), *(node.href for node in diagram.nodes if node.href)]
        found = [next(links) for _link in wanted]
        assert [key for key, _box in found] == wanted
        yield Seen([box for _key, box in found[len(diagram.partitions) :]], words)
    assert next(links, None) is None


def compiled(diagrams: Sequence[Diagram], folder: Path) -> Path:
    keys = {part.href for diagram in diagrams for part in chain(diagram.nodes, diagram.partitions) if part.href}
    lines = [
        r"\documentclass{article}",
        rf"\usepackage[paperwidth={PAPER}mm,paperheight={PAPER}mm,margin=0mm]{{geometry}}",
        r"\usepackage{fontspec,tikz}\setmainfont{Noto Sans}\setmonofont{Noto Sans Mono}",
        r"\usepackage[hidelinks]{hyperref}\pagestyle{empty}\parindent=0pt\topskip=0pt",
        r"\pdfvariable compresslevel=0 \pdfvariable objcompresslevel=0",
        tikz.preamble(PALETTE),
        r"\begin{document}",
        *(rf"\hbox{{{tikz.render(diagram)}}}\newpage" for diagram in diagrams),
        *(rf"\hypertarget{{{key}}}{{.}}" for key in sorted(keys)),
        r"\end{document}",
    ]
    (folder / "diagrams.tex").write_text("\n".join(lines), encoding="utf-8")
    done = subprocess.run(
        ["lualatex", "--no-shell-escape", "--interaction=nonstopmode", "--halt-on-error", "diagrams.tex"],
        cwd=folder, capture_output=True, text=True, errors="replace", timeout=110, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:]
    assert not re.search(r"^(Overfull|Missing character)", done.stdout, re.MULTILINE)
    return folder / "diagrams.pdf"


def pdf_links(pdf: bytes) -> Iterator[tuple[str, Box]]:
    """Each link within the document, in the order of the pages: the target's name, and where it can be clicked."""
    found = re.finditer(
        rb"/Rect \[([-\d. ]+)\][^\[\]]*?/A\s*<<\s*/S\s*/GoTo\s*/D\s*\(([^)]*)\)", pdf.replace(b"\n", b" ")
    )
    for link in found:
        left, bottom, right, top = (float(number) / POINTS for number in link[1].split())
        yield link[2].decode(), Box(left, PAPER - top, right - left, top - bottom)


def pdf_words(pdf: Path, folder: Path) -> Iterator[dict[str, list[Box]]]:
    subprocess.run(["pdftotext", "-bbox", pdf, folder / "words.html"], check=True, timeout=60)
    space = "{http://www.w3.org/1999/xhtml}"
    for page in [*ElementTree.parse(folder / "words.html").iter(f"{space}page")][:-1]:
        words: dict[str, list[Box]] = {}
        for word in page.iter(f"{space}word"):
            x, y, right, bottom = (float(word.attrib[name]) / POINTS for name in ("xMin", "yMin", "xMax", "yMax"))
            words.setdefault(word.text or "", []).append(Box(x, y, right - x, bottom - y))
        yield words
