"""The HTML file of a card is well formed and complete, its links resolve, and it has no other content than the card."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings

from cardapp.card.catalog import Catalog
from cardapp.card.model import Card
from cardapp.card.source import LoadedCard
from cardapp.layout.compose import compose
from cardapp.layout.escape import safe_url, visible
from cardapp.layout.html.document import render
from cardapp.layout.html.text_blocks import TextWriter
from cardapp.layout.layout_model import Layout
from cardapp.layout.sheets import Document
from cardapp.layout.text import parse
from cardapp.layout.text_fitting import Setting
from cardapp.publish import layouts
from tests.cardapp.layout.cards import growing
from tests.cardapp.layout.hostile import FILE, IDENTITY, SHIPPED, hostile_cards, shipped
from tests.cardapp.layout.markup import Element, read
from tests.cardapp.layout.test_text import text_of

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


def made(card: str, layout: str) -> tuple[Document, Element]:
    loaded = shipped(card)
    document = compose(loaded.card, loaded.identity, arranged(layout), loaded.sources())
    return document, read("".join(render(document)))


@pytest.fixture(
    scope="module",
    params=[  # in the quick run each layout has one card
        pytest.param((card, layout), marks=[] if card == SHIPPED[at % len(SHIPPED)] else [pytest.mark.full])
        for card in SHIPPED
        for at, layout in enumerate(LAYOUTS)
    ],
    ids="-".join,
)
def shown(request: pytest.FixtureRequest) -> tuple[Document, Element]:
    return made(*request.param)


def squeezed(text: str) -> str:
    return "".join(text.split())


# -- shipped cards -------------------------------------------------------------------------------------------------


def test_every_position_is_an_anchor_and_every_link_resolves(shown: tuple[Document, Element]) -> None:
    document, page = shown
    ids = Counter(element.attributes["id"] for element in page.all() if "id" in element.attributes)
    assert [name for name, count in ids.items() if count > 1] == []
    assert {item.key for item in Catalog(document.card).items if item.key} <= set(ids)
    links = {link.attributes["href"] for link in page.all("a")}
    assert {link for link in links if link.startswith("#")} >= {f"#{task.id}" for task in document.card.tasks}
    for link in links:
        assert link[1:] in ids if link.startswith("#") else safe_url(link)
    named = {name for element in page.all() for name in element.attributes.get("aria-labelledby", "").split()}
    assert named <= set(ids)


def test_an_anchor_is_on_the_sheet_where_its_position_begins(shown: tuple[Document, Element]) -> None:
    document, page = shown
    for sheet in page.all("section"):
        index = int(sheet.attributes["id"].removeprefix("sheet.")) - 1
        here = {element.attributes.get("id") for element in sheet.all()}
        assert {key for key, begins in document.sheet_of.items() if key and begins == index} <= here


def test_headings_are_in_order_and_landmarks_are_there(shown: tuple[Document, Element]) -> None:
    document, page = shown
    ranks = [int(element.name[1]) for element in page.all() if re.fullmatch("h[1-6]", element.name)]
    assert ranks[0] == 1
    assert ranks.count(1) == 1
    assert all(later - earlier <= 1 for earlier, later in pairwise(ranks))
    (root,) = page.all("html")
    assert root.attributes["lang"] == document.card.language
    assert len(list(page.all("main"))) == len(list(page.all("nav"))) == 1
    skip = next(page.all("a"))
    assert skip.attributes["href"] == f"#{next(page.all('main')).attributes['id']}"
    for figure in page.all("figure"):
        assert figure.text.strip()
        assert "aria-label" in figure.attributes or next(figure.all("figcaption"), None) is not None


@pytest.mark.parametrize("language", ["cs", "de-AT"])
def test_the_sheets_own_words_are_marked_as_english(language: str) -> None:
    page = _long_card(language)
    spoken: dict[str, set[str]] = defaultdict(set)
    for text, spoken_in in _spoken(page, ""):
        spoken[text.strip(" ·\n")].add(spoken_in)
    for ours in (
        "Goal", "Memory", "Machine", "Stop", "(continued)", "continues on the next sheet", "a.c, lines 3–9",
        "Expression", "This file cannot be read.", "Before line 5 of a.c for the 2nd time", "Watch", "free", "Begin",
        "[else]", "[as predicted]",
        "1 task with 1 block, in the order of work.", "Skip to the sheets",
    ):  # fmt: skip
        assert spoken[ours] == {"en"}, ours
    assert {part.attributes["lang"] for part in page.all(within="colophon")} == {"en"}
    for theirs in ("Kód", "Goal.", "A phase", "The snapshot", "What is it?"):
        assert spoken[theirs] == {language}, theirs


@pytest.mark.parametrize("language", ["en", "EN-gb"])
def test_an_english_card_needs_no_other_language(language: str) -> None:
    page = _long_card(language)
    marked = {
        element.name for part in page.all(within="part") for element in part.all() if "lang" in element.attributes
    }
    assert marked <= {"svg", "g", "desc"}


def _long_card(language: str) -> Element:
    card = replace(growing(1, text="Slova a slova. " * 700), language=language)
    layout = arranged("karta-5a")
    components = layout.components | {"code": replace(layout.components["code"], label="Kód")}
    return read("".join(render(compose(card, IDENTITY, replace(layout, components=components), {}))))


def _spoken(element: Element, language: str) -> Iterator[tuple[str, str]]:
    """The texts of an element, each with its language."""
    language = element.attributes.get("lang", language)
    for piece in element.inner:
        if isinstance(piece, str):
            yield piece, language
        else:
            yield from _spoken(piece, language)


def test_the_file_needs_nothing_else_and_runs_nothing(shown: tuple[Document, Element]) -> None:
    _, page = shown
    assert {element.name for element in page.all()} <= HTML
    assert {name for element in page.all() for name in element.attributes} <= ATTRIBUTES
    (style,) = page.all("style")
    assert "@import" not in style.text
    assert set(re.findall(r"url\((.{12})", style.text)) == {'"data:font/w'}
    policy = next(meta for meta in page.all("meta") if "http-equiv" in meta.attributes).attributes["content"]
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'; font-src data:;")


def test_every_sheet_names_its_card(shown: tuple[Document, Element]) -> None:
    document, page = shown
    sheets = list(page.all("section"))
    assert len(sheets) == len(document.sheets)
    for number, sheet in enumerate(sheets, 1):
        (foot,) = sheet.all("footer")
        for said in (document.identity.id, document.identity.version, document.identity.source_sha256[:12]):
            assert said in foot.text
        assert foot.text.endswith(f"sheet {number} of {len(sheets)}")
        (head,) = sheet.all("header")
        assert document.card.title in head.text
    (colophon,) = page.all(within="colophon")
    assert document.layout.name in colophon.text
    for kept in document.layout.limitations.values():
        assert all(sentence in colophon.text for sentence in kept)


def test_the_tokens_of_the_layout_reach_the_page() -> None:
    styles = {name: next(read("".join(render(_empty(name)))).all("style")).text for name in LAYOUTS}
    assert "@page{size:210mm 297mm;margin:0}" in styles["karta-classic"]
    assert "@page{size:297mm 210mm;margin:0}" in styles["karta-5b"]
    for name, style in styles.items():
        layout = arranged(name)
        for color, value in layout.colors.items():
            assert f"--{color.replace('_', '-')}:{value};" in style
        for size, points in layout.typography.sizes_pt.items():
            assert f"--{size}-size:{points * 25.4 / 72:.4f};" in style


@pytest.mark.parametrize(
    ("families", "stack"),
    [
        (("Noto Sans", "sans-serif"), '"Noto Sans","Noto Sans Signs",sans-serif'),
        (("Comic Sans MS",), '"Comic Sans MS","Noto Sans","Noto Sans Signs"'),
        (("Comic Sans MS", "sans-serif"), '"Comic Sans MS","Noto Sans","Noto Sans Signs",sans-serif'),
        (("Tinos", "serif"), '"Tinos","Noto Sans Signs",serif'),
    ],
)
def test_behind_every_family_is_one_that_is_in_the_file(families: tuple[str, ...], stack: str) -> None:
    document = _empty("karta-classic")
    typography = replace(document.layout.typography, families=document.layout.typography.families | {"text": families})
    page = read("".join(render(replace(document, layout=replace(document.layout, typography=typography)))))
    assert f"--text:{stack};" in next(page.all("style")).text


def _empty(layout: str) -> Document:
    loaded = shipped("arena")
    return compose(loaded.card, loaded.identity, arranged(layout), {})


def test_a_source_that_is_missing_is_named() -> None:
    page = read("".join(render(_empty("karta-classic"))))
    notices = [element.text for element in page.all("p", "notice")]
    assert notices
    assert set(notices) == {"This file cannot be read."}


def test_an_excerpt_whose_lines_changed_says_so() -> None:
    loaded, sources = shipped("calc"), shipped("calc").sources()
    assert _notices(loaded, sources) == []
    changed = "These lines changed since the card was written"
    sources["token.c"] = ["/* new */"] * 10 + sources["token.c"]
    assert f"{changed}: its excerpt is now in lines 90–95." in _notices(loaded, sources)
    sources["token.c"] = ["/* new */"] * len(sources["token.c"])
    assert set(_notices(loaded, sources)) == {f"{changed}."}


def _notices(loaded: LoadedCard, sources: dict[str, list[str]]) -> list[str]:
    page = read("".join(render(compose(loaded.card, loaded.identity, arranged("karta-classic"), sources))))
    return [element.text for element in page.all("p", "notice")]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_each_sheet_and_the_colophon_say_whether_the_card_was_proved(layout: str) -> None:
    loaded, said = shipped("calc"), "Proved 2026-11-25 at 3f2a1c4+"
    document = compose(loaded.card, loaded.identity, arranged(layout), {}, said)
    page = read("".join(render(document)))
    feet = [foot.text for foot in page.all("footer")]
    assert len(feet) == len(document.sheets)
    assert all(said in foot for foot in feet)
    assert any(f" {said}." in colophon.text for colophon in page.all("div", "colophon"))
    assert "roved" not in "".join(foot.text for foot in read("".join(render(_empty(layout)))).all("footer"))


def test_hidden_components_leave_all_anchors_and_heading_ranks() -> None:
    loaded = shipped("arena")
    full = arranged("karta-classic")
    kept = {name: full.components[name] for name in ("block_title", "step_title", "text")}
    document = compose(loaded.card, loaded.identity, replace(full, components=kept), loaded.sources())
    page = read("".join(render(document)))
    ids = [element.attributes["id"] for element in page.all() if "id" in element.attributes]
    assert len(ids) == len(set(ids))
    assert {item.key for item in Catalog(loaded.card).items if item.key} <= set(ids)
    assert {element.name for element in page.all() if re.fullmatch("h[1-6]", element.name)} == {"h1", "h2", "h3"}


@pytest.mark.parametrize("layout", ["karta-classic", "karta-5a", "karta-5b"])
def test_lines_are_drawn_between_columns_with_content(layout: str) -> None:
    _, page = made("arena", layout)
    for band in page.all(within="band"):
        parts = {part.attributes["style"].split(";")[0] for part in band.all(within="part")}
        dividers = [float(one.attributes["style"][4:].split(";")[0]) for one in band.all(within="divider")]
        bars = {bar.attributes["style"].split(";")[0] for bar in band.all(within="bar")}
        places = sorted(float(place[4:]) for place in parts)
        assert len(dividers) >= len(places) - 1
        assert all(places[0] < divider < places[-1] for divider in dividers)
        assert bars == (parts if layout == "karta-5b" and len(parts) > 1 else set())
    assert bool(list(page.all(within="divider"))) == (layout != "karta-classic")


# -- hostile and long texts ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS)
def test_hostile_texts_survive_and_inject_nothing(layout: str, loops: Callable[..., int]) -> None:
    @settings(
        max_examples=loops(quick=25, full=300),
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(hostile_cards())
    def check(made_up: tuple[Card, dict[str, list[str]]]) -> None:
        card, sources = made_up
        page = read("".join(render(compose(card, IDENTITY, arranged(layout), sources))))
        assert_nothing_injected(page)
        assert_all_survives(page, card, sources[FILE], tells_values=arranged(layout).components["machine"].values)

    check()


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
    for kind, title in (("card", card), ("task", task), ("block", block), ("phase", phase), ("step", step)):
        heading = next(element for element in page.all(within=f"{kind}_title"))
        assert squeezed(visible(title.title)) in squeezed(heading.text)
    said = {kind: _said(page, kind) for kind in ("intro", "goal", "text", "question", "code", "notes")}
    # A split row continues with both columns.
    rows = [row for machine in page.all(within="machine") for body in machine.all("tbody") for row in body.all("tr")]
    expressions, values = (squeezed("".join(row.inner[at].text for row in rows)) for at in (0, 1))
    for text in (card.text, task.text, block.text, phase.text):
        assert _plain(text) in said["intro"]
    assert _plain(block.goal) in said["goal"]
    assert _plain(step.text) in said["text"]
    assert _plain(step.question) in said["question"]
    for line in source:
        assert squeezed(visible(line)) in said["code"]
    for expected in snapshot.expect:
        assert squeezed(visible(expected.expression)) in expressions
        assert squeezed(visible(expected.value) if tells_values else "") in values
    assert squeezed(visible(snapshot.stop.text or "")) in said["notes"]
    for expression in snapshot.watch:
        assert squeezed(visible(expression)) in said["notes"]


def _plain(markdown: str) -> str:
    return squeezed(text_of(parse(markdown)))


def _said(page: Element, kind: str) -> str:
    """The text of all parts of a kind, without the marks at a split and without notices."""
    found = []
    for part in page.all(within=kind):
        if "part" in part.classes:
            found += [
                piece.text
                for piece in part.inner
                if isinstance(piece, Element) and not piece.classes & {"caption", "mark", "anchor", "notice"}
            ]
    return squeezed("".join(found))


def test_code_breaks_at_its_blanks_and_only_a_word_longer_than_its_line_breaks_anywhere() -> None:
    setting = Setting(60, 3.3, 5, 3, 4)
    long = "half-".ljust(80, "x")
    page = read(TextWriter(2, ()).blocks(parse(f"well-known `a->b = c` **{long}**"), setting))
    assert [span.text for span in page.all(within="whole")] == ["a->b"]
    assert [span.text for span in page.all(within="long")] == [long]


def test_ten_thousand_characters_in_a_line_are_all_there() -> None:
    loaded = shipped("arena")
    step = Catalog(loaded.card).steps["bump/anatomy/empty/fields"]
    assert step.code is not None
    long = "".join(chr(97 + number % 26) for number in range(10_000))
    sources = {step.code.file: [long] * step.code.last}
    page = read("".join(render(compose(loaded.card, loaded.identity, arranged("karta-5b"), sources))))
    assert long in _said(page, "code")
