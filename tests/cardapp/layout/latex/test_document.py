"""The LaTeX file of a card, without LaTeX: complete, its links resolve, and its only commands are ours."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import urllib.parse
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from cardapp.card.catalog import Catalog
from cardapp.card.model import Card
from cardapp.layout import escape
from cardapp.layout.compose import compose
from cardapp.layout.escape import visible
from cardapp.layout.latex.document import CARD, place_of, render
from cardapp.layout.sheets import Document
from cardapp.layout.text import parse
from cardapp.publish import layouts
from tests.cardapp.layout.hostile import FILE, IDENTITY, ROOT, SHIPPED, hostile_cards, shipped
from tests.cardapp.layout.test_text import text_of
from tests.cardapp.layout.tex import Read, address, read, shown

LAYOUTS = layouts.known_ids()
ANYTHING = st.text(st.characters(codec=None))


def composed(card: str, layout: str) -> Document:
    loaded = shipped(card)
    return compose(loaded.card, loaded.identity, layouts.find(layout).arranged("latex"), loaded.sources())


@pytest.fixture(
    scope="module",
    params=[  # in the quick run each layout has one card
        pytest.param((card, layout), marks=[] if card == SHIPPED[at % len(SHIPPED)] else [pytest.mark.full])
        for card in SHIPPED
        for at, layout in enumerate(LAYOUTS)
    ],
    ids="-".join,
)
def made(request: pytest.FixtureRequest) -> tuple[Document, str]:
    document = composed(*request.param)
    return document, render(document)


def squeezed(text: str) -> str:
    return "".join(text.split())


# -- escaping for each context -------------------------------------------------------------------------------------


@given(ANYTHING)
def test_escaped_text_is_decoded_with_collapsed_spaces(text: str) -> None:
    escaped = escape.tex_text(text)
    assert "\n" not in escaped
    assert shown(escaped).split() == visible(text).split()


@given(ANYTHING)
def test_an_escaped_line_is_decoded_without_outer_blanks(text: str) -> None:
    assert shown(escape.tex_line(text)) == " ".join(visible(text).split())


@given(st.text(st.characters(codec=None, exclude_characters="\t\n")))
def test_escaped_code_is_decoded_unchanged(text: str) -> None:
    assert shown(escape.tex_code(text)) == visible(text)


@given(st.text(st.characters(codec=None, exclude_characters="\t\n")))
def test_escaped_code_within_a_text_keeps_its_blanks(text: str) -> None:
    assert shown(escape.tex_inline_code(text)) == re.sub(r"\s", " ", visible(text))
    assert escape.tex_inline_code("a  b{", ["b{"]) == r"a\ \ b\CardBreak{}\{"


@given(ANYTHING)
def test_an_escaped_address_is_decoded_percent_encoded(text: str) -> None:
    wanted = urllib.parse.quote(text.encode("utf-8", "replace"), safe="-._~:/?#[]@!$&'()*+,;=%")
    assert address(escape.tex_url(text)) == wanted


@pytest.mark.parametrize(
    ("text", "latex"),
    [
        (r"\input{/etc/passwd}", r"\textbackslash{}input\{/etc/passwd\}"),
        ("100 % of $x_1^2$ & #1~", r"100 \% of \$x\_1\textasciicircum{}2\$ \& \#1\textasciitilde{}"),
        ("^^5cinput", r"\textasciicircum{}\textasciicircum{}5cinput"),
        ("a\n\nb", "a b"),
        ("bell\a and \u202eevil", "bell‹U+0007› and ‹U+202E›evil"),
    ],
)
def test_special_characters_are_escaped_for_latex(text: str, latex: str) -> None:
    assert escape.tex_text(text) == latex


@pytest.mark.parametrize(
    "latex",
    [r"\input{x}", "a%b", "$x$", "{", "}", "a~b", "^^5c", "#1", "a_b", r"\write18{x}", "\n% part: text\n\\def", r"\'e"],
)
def test_the_reader_of_latex_refuses_foreign_commands(latex: str) -> None:
    """All tests below use this reader, so it is tested first."""
    with pytest.raises(AssertionError):
        shown(latex)


def test_only_words_that_are_longer_than_their_line_can_be_broken_anywhere() -> None:
    assert escape.tex_text("xx yy", ["axxb"]) == r"x\CardBreak{}x yy"
    assert escape.tex_text(
        "👩‍👩‍👧e\u0301👍🏽", ["👩‍👩‍👧e\u0301👍🏽"]
    ) == r"👩‍👩‍👧\CardBreak{}é\CardBreak{}👍🏽".replace("é", "e\u0301")
    long = r"\CardBreak{}".join("x" * 100)
    assert render(_titled(f"short {'x' * 100}")).count(f"short {long}") == 1


def _titled(title: str) -> Document:
    loaded = shipped("calc")
    layout = layouts.find("karta-5b").arranged("latex")
    return compose(replace(loaded.card, title=title), loaded.identity, layout, {})


# -- shipped cards -------------------------------------------------------------------------------------------------


def test_sheets_parts_and_bookmarks_are_those_of_the_card(made: tuple[Document, str]) -> None:
    document, tex = made
    found = read(tex)
    assert found.sheets == len(document.sheets)
    wanted = [(part.kind, part.key) for sheet in document.sheets for part in sheet.parts]
    assert [(box.kind, box.key) for box in found.boxes if box.kind not in ("header", "footer")] == wanted
    items = [item for item in Catalog(document.card).items if item.level not in ("card", "snapshot")]
    assert [(level, key) for level, key, _ in found.bookmarks] == [(item.key.count("/"), item.key) for item in items]
    for item, (_, _, title) in zip(items, found.bookmarks, strict=True):
        number, _, said = title.partition(" ")
        assert number.count(".") == item.key.count("/")
        assert said == item.title


def test_every_position_is_an_anchor_and_every_link_has_one(made: tuple[Document, str]) -> None:
    document, tex = made
    found = read(tex)
    keys = [item.key or CARD for item in Catalog(document.card).items]
    assert sorted(found.anchors) == sorted(keys)
    assert set(found.goals) <= set(keys)


def test_every_sheet_names_its_card(made: tuple[Document, str]) -> None:
    document, tex = made
    found = read(tex)
    heads, feet = ([box.text for box in found.boxes if box.kind == kind] for kind in ("header", "footer"))
    assert len(heads) == len(feet) == len(document.sheets)
    short = document.identity.source_sha256[:12]
    for number, (head, foot) in enumerate(zip(heads, feet, strict=True), 1):
        assert squeezed(document.card.title) in squeezed(head)
        named = f"{document.identity.id}{document.identity.version}source{short}sheet{number}of{len(feet)}"
        assert named == squeezed(foot)
    for kept in document.layout.limitations.values():
        assert all(squeezed(sentence) in found.said("colophon") for sentence in kept)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_each_sheet_and_the_colophon_say_whether_the_card_was_proved(layout: str) -> None:
    loaded, said = shipped("calc"), "Proved 2026-11-25 at 3f2a1c4+"
    document = compose(loaded.card, loaded.identity, layouts.find(layout).arranged("latex"), {}, said)
    found = read(render(document))
    feet = [squeezed(box.text) for box in found.boxes if box.kind == "footer"]
    assert len(feet) == len(document.sheets)
    assert all(squeezed(said) in foot for foot in feet)
    assert squeezed(f". {said}.") in found.said("colophon")


def test_an_error_names_its_part(made: tuple[Document, str]) -> None:
    document, tex = made
    lines = tex.split("\n")
    part = document.sheets[-1].parts[0]
    line = max(place for place, line in enumerate(lines, 1) if line.startswith(rf"\begin{{CardPart}}{{{part.kind} "))
    assert place_of(tex, line) == f"{part.kind} {part.key}"
    assert place_of(tex, line + 1) == f"{part.kind} {part.key}"
    assert place_of(tex, 3) == ""


def test_the_tokens_of_the_layout_reach_the_file(made: tuple[Document, str]) -> None:
    document, tex = made
    page = document.layout.page
    assert rf"\paperwidth={page.width:g}mm \paperheight={page.height:g}mm" in tex
    for name, value in document.layout.colors.items():
        assert rf"\definecolor{{card-{name}}}{{HTML}}{{{value[1:].upper()}}}" in tex
    for component in document.layout.components.values():
        points = document.layout.typography.sizes_pt[component.size]
        assert rf"\CardType{{{points:g}}}" in tex, component.name


def test_a_missing_font_family_is_reported_and_replaced_by_noto() -> None:
    document = composed("calc", "karta-classic")
    families = {"text": ("Comic Sans MS",), "code": ("Odd Mono", "St. Mono")}
    typography = replace(document.layout.typography, families=families)
    tex = render(replace(document, layout=replace(document.layout, typography=typography)))
    (text,) = re.findall(r"^\\IfFontExistsTF\{Comic Sans MS\}.*", tex, re.MULTILINE)
    (code,) = re.findall(r"^\\IfFontExistsTF\{Odd Mono\}.*", tex, re.MULTILINE)
    warning = r"\PackageWarningNoLine{card}{no font family "
    assert text.index(warning + "Comic Sans MS}") < text.index(r"\setmainfont{NotoSans}")
    assert (
        code.index(warning + "Odd Mono}")
        < code.index(warning + "St. Mono}")
        < code.index(r"\setmonofont{NotoSansMono}")
    )


def test_the_same_card_gives_the_same_bytes() -> None:
    command = [sys.executable, "-P", "-m", "cardapp", "emit", str(ROOT / "etc/cards/calc"), "--format", "latex"]
    made = {
        subprocess.run(
            command, cwd=ROOT, env=os.environ | {"PYTHONHASHSEED": seed}, capture_output=True, timeout=60, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(made) == 1


# -- hostile and long texts ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS)
def test_hostile_texts_survive_and_command_nothing(layout: str, loops: Callable[..., int]) -> None:
    arranged = layouts.find(layout).arranged("latex")

    @settings(
        max_examples=loops(quick=25, full=300),
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        phases=(Phase.explicit, Phase.reuse, Phase.generate),
    )
    @given(hostile_cards())
    def check(made_up: tuple[Card, dict[str, list[str]]]) -> None:
        card, sources = made_up
        tex = render(compose(card, IDENTITY, arranged, sources))
        found = read(tex)
        _everything_survives(found, card, sources[FILE], tells_values=arranged.components["machine"].values)
        assert rf"pdftitle={{{escape.tex_line(card.title)}}}" in tex

    check()


def _everything_survives(found: Read, card: Card, source: list[str], *, tells_values: bool) -> None:
    task = card.tasks[0]
    block = task.blocks[0]
    phase = block.phases[0]
    step = phase.steps[0]
    snapshot = step.snapshots[0]
    for kind, title in (("card", card), ("task", task), ("block", block), ("phase", phase), ("step", step)):
        assert found.said(f"{kind}_title") == squeezed(visible(title.title))
    for text in (card.text, task.text, block.text, phase.text):
        assert _plain(text) in found.said("intro")
    assert found.said("goal") == _plain(block.goal)
    assert found.said("text") == _plain(step.text)
    assert found.said("question") == _plain(step.question)
    assert found.said("code") == squeezed("".join(map(visible, source)))
    for each in snapshot.expect:
        assert squeezed(visible(each.expression) + (visible(each.value) if tells_values else "")) in found.said(
            "machine"
        )
    for said in (snapshot.stop.text or "", *snapshot.watch):
        assert squeezed(visible(said)) in found.said("notes")
    goals = {item.key for item in Catalog(card).items}
    assert set(found.goals) <= goals


def _plain(markdown: str) -> str:
    return squeezed(text_of(parse(markdown)))


def test_ten_thousand_characters_in_a_line_are_all_there() -> None:
    loaded = shipped("arena")
    step = Catalog(loaded.card).steps["bump/anatomy/empty/fields"]
    assert step.code is not None
    long = "".join(chr(97 + number % 26) for number in range(10_000))
    sources = {step.code.file: [long] * step.code.last}
    document = compose(loaded.card, loaded.identity, layouts.find("karta-5b").arranged("latex"), sources)
    assert long in read(render(document)).said("code")
