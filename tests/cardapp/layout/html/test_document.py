"""The HTML file of a card is well formed and complete, its links resolve, and it has no other content than the card."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cardapp.card.catalog import Catalog
from cardapp.card.model import Card
from cardapp.layout.compose import compose
from cardapp.layout.escape import safe_url, visible
from cardapp.layout.html.document import render
from cardapp.layout.html.text_blocks import TextWriter
from cardapp.layout.layout_model import Layout
from cardapp.layout.sheets import Document
from cardapp.layout.text import parse
from cardapp.layout.text_fitting import Setting
from cardapp.publish import layouts
from tests.cardapp.layout.hostile import FILE, IDENTITY, SHIPPED, hostile_cards, plain, shipped, squeezed
from tests.cardapp.layout.markup import Element, read

LAYOUTS = layouts.known_ids()
HTML = {
    "html", "head", "meta", "title", "style", "body", "a", "nav", "p", "ul", "ol", "li", "span", "main", "article",
    "section", "header", "footer", "h1", "h2", "h3", "h4", "h5", "h6", "div", "aside", "figure", "figcaption", "table",
    "colgroup", "col", "thead", "tbody", "tr", "th", "td", "pre", "code", "blockquote", "em", "strong", "br", "hr",
    "svg", "desc", "g", "rect", "circle", "polygon", "path", "text",
}  # fmt: skip
ATTRIBUTES = {
    "id", "class", "href", "title", "lang", "dir", "style", "role", "name", "content", "charset", "http-equiv", "scope",
    "start", "tabindex", "aria-label", "aria-labelledby", "aria-hidden", "data-number", "data-language", "data-level",
    "data-key", "xmlns", "viewbox", "width", "height", "x", "y", "rx", "cx", "cy", "r", "d",
    "points", "font-size", "textlength", "lengthadjust",
}  # fmt: skip
PLACES = re.compile(r"(--[a-z]+:\d+(\.\d+)?;?)+")


def arranged(name: str) -> Layout:
    return layouts.find(name).arranged("html")


def made(card: str, layout: str, *, proved: str = "Not proved") -> tuple[Document, Element]:
    loaded = shipped(card)
    document = compose(loaded.card, loaded.identity, arranged(layout), loaded.sources(), proved)
    return document, page_of(document)


def page_of(document: Document) -> Element:
    return read("".join(render(document)))


def ids_of(page: Element) -> list[str]:
    return [element.attributes["id"] for element in page.all() if "id" in element.attributes]


def ranks_of(page: Element) -> list[int]:
    return [int(element.name[1]) for element in page.all() if re.fullmatch("h[1-6]", element.name)]


# -- shipped cards -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_shipped_card_is_complete_in_every_layout(layout: str) -> None:
    said = "Proved 2026-11-25 at 3f2a1c4+"
    document, page = made(SHIPPED[LAYOUTS.index(layout) % len(SHIPPED)], layout, proved=said)
    assert_links_resolve(document, page)
    assert_landmarks_are_there(document, page)
    assert_it_needs_nothing_else(document, page)
    sheets = list(page.all("section"))
    assert len(sheets) == len(document.sheets)
    for number, sheet in enumerate(sheets, 1):
        (foot,) = sheet.all("footer")
        for named in (document.identity.id, document.identity.version, document.identity.source_sha256[:12], said):
            assert named in foot.text
        assert foot.text.endswith(f"sheet {number} of {len(sheets)}")
        (head,) = sheet.all("header")
        assert document.card.title in head.text
        begun = {key for key, begins in document.sheet_of.items() if key and begins == number - 1}
        assert sheet.attributes["id"] == f"sheet.{number}"
        assert begun <= set(ids_of(sheet)), "an anchor is on the sheet where its position begins"
    (colophon,) = page.all("div", "colophon")
    for named in (
        document.layout.name,
        f" {said}.",
        *(each for kept in document.layout.limitations.values() for each in kept),
    ):
        assert named in colophon.text


def assert_links_resolve(document: Document, page: Element) -> None:
    ids = Counter(ids_of(page))
    assert [name for name, count in ids.items() if count > 1] == []
    assert {item.key for item in Catalog(document.card).items if item.key} <= set(ids)
    links = {link.attributes["href"] for link in page.all("a")}
    assert {link for link in links if link.startswith("#")} >= {f"#{task.id}" for task in document.card.tasks}
    assert [link for link in links if not (link[1:] in ids if link.startswith("#") else safe_url(link))] == []
    named = {name for element in page.all() for name in element.attributes.get("aria-labelledby", "").split()}
    assert named <= set(ids)


def assert_landmarks_are_there(document: Document, page: Element) -> None:
    ranks = ranks_of(page)
    assert (ranks[0], ranks.count(1)) == (1, 1)
    assert all(later - earlier <= 1 for earlier, later in pairwise(ranks))
    (root,) = page.all("html")
    assert root.attributes["lang"] == document.card.language
    (main,), (_nav,) = page.all("main"), page.all("nav")
    assert next(page.all("a")).attributes["href"] == f"#{main.attributes['id']}"
    for figure in page.all("figure"):
        assert figure.text.strip()
        assert "aria-label" in figure.attributes or next(figure.all("figcaption"), None) is not None


def assert_it_needs_nothing_else(document: Document, page: Element) -> None:
    assert {element.name for element in page.all()} <= HTML
    assert {name for element in page.all() for name in element.attributes} <= ATTRIBUTES
    (style,) = page.all("style")
    assert "@import" not in style.text
    assert set(re.findall(r"url\((.{12})", style.text)) == {'"data:font/w'}
    policy = next(meta for meta in page.all("meta") if "http-equiv" in meta.attributes).attributes["content"]
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'; font-src data:;")
    paper = document.layout.page
    assert f"@page{{size:{paper.width:g}mm {paper.height:g}mm;margin:0}}" in style.text
    for color, value in document.layout.colors.items():
        assert f"--{color.replace('_', '-')}:{value};" in style.text
    for size, points in document.layout.typography.sizes_pt.items():
        assert f"--{size}-size:{points * 25.4 / 72:.4f};" in style.text


def test_an_excerpt_whose_lines_changed_or_are_missing_says_so() -> None:
    loaded, sources = shipped("calc"), shipped("calc").sources()
    card = replace(loaded.card, tasks=loaded.card.tasks[:1])

    def notices() -> list[str]:
        page = page_of(compose(card, loaded.identity, arranged("karta-classic"), sources))
        return [element.text for element in page.all("p", "notice")]

    assert notices() == []
    changed = "These lines changed since the card was written"
    sources["token.c"] = ["/* new */"] * 10 + sources["token.c"]
    assert f"{changed}: its excerpt is now in lines 90–95." in notices()
    sources["token.c"] = ["/* new */"] * len(sources["token.c"])
    assert set(notices()) == {f"{changed}."}
    sources.clear()
    assert set(notices()) == {"This file cannot be read."}


# -- hostile and long texts ----------------------------------------------------------------------------------------


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(hostile_cards(), st.sampled_from(LAYOUTS))
def test_hostile_texts_survive_and_inject_nothing(made_up: tuple[Card, dict[str, list[str]]], name: str) -> None:
    card, sources = made_up
    layout = arranged(name)
    page = page_of(compose(card, IDENTITY, layout, sources))
    assert_nothing_injected(page)
    assert_all_survives(page, card, sources[FILE], tells_values=layout.components["machine"].values)


def assert_nothing_injected(page: Element) -> None:
    ids = {element.attributes.get("id") for element in page.all()}
    for element in page.all():
        assert element.name in HTML
        assert set(element.attributes) <= ATTRIBUTES
        if "style" in element.attributes:
            assert PLACES.fullmatch(element.attributes["style"])
        if "href" in element.attributes:
            target = element.attributes["href"]
            assert target[1:] in ids if target.startswith("#") else safe_url(target)
    assert [style.text.count("</") for style in page.all("style")] == [0]


def assert_all_survives(page: Element, card: Card, source: list[str], *, tells_values: bool) -> None:
    task = card.tasks[0]
    block = task.blocks[0]
    phase = block.phases[0]
    step = phase.steps[0]
    snapshot = step.snapshots[0]
    for kind, titled in (("card", card), ("task", task), ("block", block), ("phase", phase), ("step", step)):
        assert squeezed(visible(titled.title)) in _said(page, f"{kind}_title")
    texts = (("intro", card.text), ("intro", task.text), ("intro", block.text), ("intro", phase.text))
    for kind, text in (*texts, ("goal", block.goal), ("text", step.text), ("question", step.question)):
        assert plain(text) in _said(page, kind)
    assert [line for line in source if squeezed(visible(line)) not in _said(page, "code")] == []
    for text in (snapshot.stop.text or "", *snapshot.watch):
        assert squeezed(visible(text)) in _said(page, "notes")
    # A split row continues with both columns.
    rows = [row for machine in page.all(within="machine") for body in machine.all("tbody") for row in body.all("tr")]
    expressions, values = (squeezed("".join(row.inner[at].text for row in rows)) for at in (0, 1))
    for expected in snapshot.expect:
        assert squeezed(visible(expected.expression)) in expressions
        assert squeezed(visible(expected.value) if tells_values else "") in values


def _said(page: Element, kind: str) -> str:
    """The text of all parts of a kind, without the marks at a split and without notices."""
    left_out = {"caption", "mark", "anchor", "notice"}
    pieces = [piece for part in page.all(within=kind) if "part" in part.classes for piece in part.inner]
    return squeezed("".join(each.text for each in pieces if isinstance(each, Element) and not each.classes & left_out))


def test_code_breaks_at_its_blanks_and_only_a_word_longer_than_its_line_breaks_anywhere() -> None:
    long = "half-".ljust(80, "x")
    page = read(TextWriter(2, ()).blocks(parse(f"well-known `a->b = c` **{long}**"), Setting(60, 3.3, 5, 3, 4)))
    assert [span.text for span in page.all(within="whole")] == ["a->b"]
    assert [span.text for span in page.all(within="long")] == [long]
