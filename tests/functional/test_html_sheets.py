"""The sheets of the shipped cards in Chromium: every part is in its place on the screen and on paper, and accessible.
A quick run shows one card in one layout; --full shows every card in every layout."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from cardapp.layout.annotations import by_part
from cardapp.layout.compose import compose
from cardapp.layout.diagram.shapes import Diagram
from cardapp.layout.font_metrics import CELL
from cardapp.layout.sheets import Document
from cardapp.publish import layouts
from tests.cardapp.layout.hostile import SHIPPED, shipped
from tests.functional.sheet_page import SheetPage, assert_in_place, assert_near, assert_readable, sheet_page

pytestmark = pytest.mark.functional

NAME = ("name", "description")
WINDOWS = (1280, 1920)
MISSING = "links => links.filter(one => !document.getElementById(decodeURIComponent(one.slice(1))))"

HIDDEN = """() => Array.from(document.querySelectorAll(".said")).filter(text => {
    text.scrollIntoView({block: "center"})
    const box = text.getBoundingClientRect()
    return document.elementFromPoint((box.left + box.right) / 2, box.bottom - 2) !== text
}).map(text => text.textContent)"""
MARKS = """() => Array.from(document.querySelectorAll(".stop"), mark => {
    const [box, line] = [mark, mark.parentElement].map(each => each.getBoundingClientRect())
    const style = getComputedStyle(mark.parentElement), em = parseFloat(style.fontSize)
    const middle = line.top + parseFloat(style.lineHeight) / 2
    return [(box.right - line.left) / em, (middle - (box.top + box.bottom) / 2) / em]
})"""
"""In ems: how far each mark reaches into its line, and how far the mark's middle is above the middle of the line's
first row."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "document" in metafunc.fixturenames:
        pairs = list(product(SHIPPED, layouts.known_ids()))
        if not metafunc.config.getoption("full"):
            pairs = pairs[1:2]
        metafunc.parametrize("document", pairs, indirect=True, ids="-".join, scope="module")


@pytest.fixture(scope="module")
def document(request: pytest.FixtureRequest) -> Document:
    card, name = request.param
    loaded = shipped(card)
    return compose(loaded.card, loaded.identity, layouts.find(name).arranged("html"), loaded.sources())


@pytest.fixture(scope="module")
def shown(document: Document, browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SheetPage]:
    with sheet_page(browser, tmp_path_factory.mktemp("sheets")) as opened:
        opened.show(document)
        yield opened


@pytest.mark.parametrize(
    ("media", "width"),
    [
        ("screen", WINDOWS[0]),
        *(pytest.param(*each, marks=pytest.mark.full) for each in (("screen", WINDOWS[1]), ("print", WINDOWS[0]))),
    ],
)
def test_nothing_reaches_out_of_its_part(document: Document, shown: SheetPage, media: str, width: int) -> None:
    shown.page.set_viewport_size({"width": width, "height": 1000})
    shown.page.emulate_media(media="print" if media == "print" else "screen")
    measured = shown.measured(document)
    assert_in_place(document, measured)
    for sheet in measured:
        assert sheet["left"] >= 0
        assert sheet["right"] >= 0 or media == "print"
        assert len(sheet["edges"]) == 2
        for edge, frame in zip(sheet["edges"], (document.layout.grid.header, document.layout.grid.footer), strict=True):
            assert edge["cut"] == []
            left, top, width_, height = edge["box"]
            assert_near([left, width_], (frame.x, frame.width))
            assert frame.y - 0.1 < top
            assert top + height < frame.y + frame.height + 0.1


def test_the_mark_of_a_stop_is_beside_the_number_of_its_line(shown: SheetPage) -> None:
    marks = shown.page.evaluate(MARKS)
    assert marks
    for width, above in marks:
        assert width <= CELL + 0.01
        assert abs(above) < 0.1


@pytest.mark.full
def test_a_telephone_shows_it_without_scrolling_sideways(shown: SheetPage) -> None:
    shown.page.emulate_media(media="screen")
    shown.page.set_viewport_size({"width": 390, "height": 800})
    assert shown.page.evaluate("document.documentElement.scrollWidth") == 390


def test_paper_has_the_sheets_as_its_pages(document: Document, shown: SheetPage, tmp_path: Path) -> None:
    for program in ("pdftotext", "pdfinfo"):
        if shutil.which(program) is None:
            pytest.skip(f"not run: there is no {program} here (Debian package poppler-utils)")
    file = tmp_path / "sheets.pdf"
    shown.page.emulate_media(media="print")
    shown.page.pdf(path=file, prefer_css_page_size=True)
    count, page = len(document.sheets), document.layout.page
    info = _output("pdfinfo", "-l", str(count), file)
    sizes = re.findall(r"Page +\d+ size: +([\d.]+) x ([\d.]+) pts", info)
    assert len(sizes) == count
    for size in sizes:
        assert [float(length) / 72 * 25.4 for length in size] == pytest.approx([page.width, page.height], abs=0.5)
    pages = _output("pdftotext", "-layout", file, "-").split("\f")[:-1]
    assert [re.findall(r"sheet \d+ of \d+", text) for text in pages] == [
        [f"sheet {number} of {count}"] for number in range(1, count + 1)
    ]


def _output(*command: str | Path) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout


def test_the_file_runs_no_script_and_fetches_nothing(shown: SheetPage) -> None:
    assert shown.page.locator("script").count() == 0
    assert shown.fetched == []
    assert shown.events == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("media", ["screen", "print"])
def test_every_text_can_be_read(shown: SheetPage, media: str, scheme: str) -> None:
    shown.page.set_viewport_size({"width": WINDOWS[0], "height": 1000})
    shown.page.emulate_media(
        media="print" if media == "print" else "screen", color_scheme="dark" if scheme == "dark" else "light"
    )
    assert_readable(shown, dark=scheme == "dark" and media == "screen")


def test_assistive_technology_finds_landmarks_and_names(document: Document, shown: SheetPage) -> None:
    shown.page.emulate_media(media="screen")
    tree = shown.page.context.new_cdp_session(shown.page).send("Accessibility.getFullAXTree")["nodes"]
    nodes = defaultdict(list)
    for node in tree:
        if not node["ignored"]:
            nodes[node["role"]["value"]].append([node.get(member, {}).get("value", "") for member in NAME])
    assert len(nodes["main"]) == len(nodes["navigation"]) == 1
    assert len(nodes["article"]) == len({sheet.page_index for sheet in document.sheets})
    assert len(nodes["figure"]) == len(nodes["Figcaption"]) > 100
    for role in ("RootWebArea", "navigation", "heading", "link", "rowheader", "columnheader"):
        assert nodes[role]
        assert all(re.search(r"\w", name) for name, _ in nodes[role]), role
    diagrams = [part for sheet in document.sheets for part in sheet.parts if isinstance(part.content, Diagram)]
    assert sum(bool(name and description) for name, description in nodes["group"]) >= len(diagrams) > 20
    assert shown.page.locator("html").get_attribute("lang") == document.card.language


def test_the_keyboard_reaches_everything_and_shows_where_it_is(shown: SheetPage) -> None:
    page = shown.page
    page.set_viewport_size({"width": WINDOWS[0], "height": 1000})
    page.emulate_media(media="screen")
    page.goto(shown.file.as_uri())
    page.keyboard.press("Tab")
    focused = page.locator(":focus")
    assert focused.inner_text() == "Skip to the sheets"
    assert page.evaluate("document.activeElement.getBoundingClientRect().top") >= 0
    page.keyboard.press("Tab")
    assert focused.evaluate("one => one.closest('nav') !== null")
    assert focused.evaluate("one => getComputedStyle(one).outlineStyle") == "solid"
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert focused.evaluate("one => one.closest('main') !== null")
    assert focused.evaluate("one => getComputedStyle(one.querySelector('rect')).strokeWidth") == "0.7px"


def test_a_click_on_a_node_leads_to_what_it_stands_for(document: Document, shown: SheetPage) -> None:
    page = shown.page
    page.set_viewport_size({"width": WINDOWS[0], "height": 1000})
    page.emulate_media(media="screen")
    links = page.locator('a[href^="#"]').evaluate_all("links => links.map(one => one.getAttribute('href'))")
    assert len(links) > 100
    assert page.evaluate(MISSING, links) == []
    block = document.card.tasks[-1].blocks[-1]
    key = f"{document.card.tasks[-1].id}/{block.id}"
    page.locator(f'.overview a[href="#{key}"]').click()
    title = page.locator(f'[id="{key}"]')
    assert block.title in title.inner_text()
    top = title.evaluate("one => one.getBoundingClientRect().top")
    assert 0 <= top < 1000


@pytest.mark.full
def test_the_text_of_an_annotation_lies_over_the_next_part(browser: Browser, tmp_path: Path) -> None:
    loaded = shipped("arena")
    document = compose(loaded.card, loaded.identity, layouts.find("karta-classic").arranged("html"), loaded.sources())
    annotations = by_part(_annotation(kind) for kind in ("step_title", "text", "code", "question"))
    with sheet_page(browser, tmp_path) as opened:
        opened.show(replace(document, annotations=annotations))
        opened.page.add_style_tag(content=".said { pointer-events: auto !important; }")
        assert opened.page.evaluate(HIDDEN) == []


def _annotation(kind: str) -> dict[str, Any]:
    target = {"part": f"bump/requests/three-requests/first:{kind}", "x": 0.0, "y": 0.9, "w": 0.2, "h": 0.1}
    points = {"points": [[0.0, 0.9], [0.2, 1.0]]}
    return {"target": target, "geometry": points, "style": {"kind": "box"}, "text": kind, "visible": True}
