"""The LaTeX file of a card, without LaTeX: complete, its links resolve, and its only commands are ours."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import urllib.parse
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
from cardapp.layout.layout_model import Layout
from cardapp.layout.sheets import Document
from cardapp.publish import layouts
from tests.cardapp.layout.hostile import (
    FILE,
    IDENTITY,
    ROOT,
    SHIPPED,
    assert_all_survives,
    hostile_cards,
    shipped,
    squeezed,
    with_long_line,
)
from tests.cardapp.layout.tex import Read, address, read, shown

LAYOUTS = layouts.known_ids()
ANYTHING = st.text(st.characters(codec=None))


def arranged(name: str) -> Layout:
    return layouts.find(name).arranged("latex")


def composed(card: str, layout: str, proved: str = "Not proved") -> Document:
    loaded = shipped(card)
    return compose(loaded.card, loaded.identity, arranged(layout), loaded.sources(), proved)


# -- escaping for each context -------------------------------------------------------------------------------------


@given(ANYTHING)
def test_escaped_text_is_decoded_as_its_context_shows_it(text: str) -> None:
    escaped = escape.tex_text(text)
    assert "\n" not in escaped
    assert shown(escaped).split() == visible(text).split()
    assert shown(escape.tex_line(text)) == " ".join(visible(text).split())
    wanted = urllib.parse.quote(text.encode("utf-8", "replace"), safe="-._~:/?#[]@!$&'()*+,;=%")
    assert address(escape.tex_url(text)) == wanted
    code = text.replace("\t", "").replace("\n", "")
    assert shown(escape.tex_code(code)) == visible(code)
    assert shown(escape.tex_inline_code(code)) == re.sub(r"\s", " ", visible(code))


def test_special_characters_are_escaped_for_latex() -> None:
    for text, latex in (
        (r"\input{/etc/passwd}", r"\textbackslash{}input\{/etc/passwd\}"),
        ("100 % of $x_1^2$ & #1~", r"100 \% of \$x\_1\textasciicircum{}2\$ \& \#1\textasciitilde{}"),
        ("^^5cinput", r"\textasciicircum{}\textasciicircum{}5cinput"),
        ("a\n\nb", "a b"),
        ("bell\a and \u202eevil", "bell‹U+0007› and ‹U+202E›evil"),
    ):
        assert escape.tex_text(text) == latex
    assert escape.tex_inline_code("a  b{", ["b{"]) == r"a\ \ b\CardBreak{}\{"


def test_the_reader_of_latex_refuses_foreign_commands() -> None:
    """The other tests use this reader."""
    for latex in (
        r"\input{x}", "a%b", "$x$", "{", "}", "a~b", "^^5c", "#1", "a_b", r"\write18{x}", "\n% part: text\n\\def",
        r"\'e",
    ):  # fmt: skip
        with pytest.raises(AssertionError):
            shown(latex)


def test_only_words_that_are_longer_than_their_line_can_be_broken_anywhere() -> None:
    assert escape.tex_text("xx yy", ["axxb"]) == r"x\CardBreak{}x yy"
    clusters = ("👩‍👩‍👧", "e\u0301", "👍🏽")
    assert escape.tex_text("".join(clusters), ["".join(clusters)]) == r"\CardBreak{}".join(clusters)
    document = composed("calc", "karta-5b")
    titled = compose(replace(document.card, title=f"short {'x' * 100}"), IDENTITY, document.layout, {})
    long = r"\CardBreak{}".join("x" * 100)
    assert render(titled).count(f"short {long}") == 1


# -- shipped cards -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_shipped_card_is_complete_in_every_layout(layout: str) -> None:
    said = "Proved 2026-11-25 at 3f2a1c4+"
    document = composed(SHIPPED[LAYOUTS.index(layout) % len(SHIPPED)], layout, said)
    tex = render(document)
    found = read(tex)
    assert_parts_and_links_are_those_of_the_card(document, found)
    heads, feet = ([squeezed(box.text) for box in found.boxes if box.kind == kind] for kind in ("header", "footer"))
    assert len(heads) == len(feet) == len(document.sheets)
    identity = document.identity
    for number, (head, foot) in enumerate(zip(heads, feet, strict=True), 1):
        assert squeezed(document.card.title) in head
        for named in (f"{identity.id}{identity.version}source{identity.source_sha256[:12]}", squeezed(said)):
            assert named in foot
        assert foot.endswith(f"sheet{number}of{len(feet)}")
    for sentence in (f". {said}.", *(each for kept in document.layout.limitations.values() for each in kept)):
        assert squeezed(sentence) in found.said("colophon")
    page = document.layout.page
    assert rf"\paperwidth={page.width:g}mm \paperheight={page.height:g}mm" in tex
    for name, value in document.layout.colors.items():
        assert rf"\definecolor{{card-{name}}}{{HTML}}{{{value[1:].upper()}}}" in tex
    for component in document.layout.components.values():
        points = document.layout.typography.sizes_pt[component.size]
        assert rf"\CardType{{{points:g}}}" in tex, component.name


def assert_parts_and_links_are_those_of_the_card(document: Document, found: Read) -> None:
    assert found.sheets == len(document.sheets)
    wanted = [(part.kind, part.key) for sheet in document.sheets for part in sheet.parts]
    assert [(box.kind, box.key) for box in found.boxes if box.kind not in ("header", "footer")] == wanted
    items = Catalog(document.card).items
    marked = [item for item in items if item.level not in ("card", "snapshot")]
    assert [(level, key) for level, key, _ in found.bookmarks] == [(item.key.count("/"), item.key) for item in marked]
    for item, (_, _, title) in zip(marked, found.bookmarks, strict=True):
        number, _, said = title.partition(" ")
        assert number.count(".") == item.key.count("/")
        assert said == item.title
    keys = [item.key or CARD for item in items]
    assert sorted(found.anchors) == sorted(keys)
    assert set(found.goals) <= set(keys)


def test_an_error_names_its_part() -> None:
    document = composed("calc", "karta-mixed")
    tex = render(document)
    part = document.sheets[-1].parts[0]
    begin = rf"\begin{{CardPart}}{{{part.kind} "
    line = max(place for place, line in enumerate(tex.split("\n"), 1) if line.startswith(begin))
    assert place_of(tex, line) == place_of(tex, line + 1) == f"{part.kind} {part.key}"
    assert place_of(tex, 3) == ""


def test_a_missing_font_family_is_reported_and_replaced_by_noto() -> None:
    document = composed("calc", "karta-classic")
    families = {"text": ("Comic Sans MS",), "code": ("Odd Mono", "St. Mono")}
    typography = replace(document.layout.typography, families=families)
    tex = render(replace(document, layout=replace(document.layout, typography=typography)))
    warning = r"\PackageWarningNoLine{card}{no font family "
    for first, *steps in (
        ("Comic Sans MS", warning + "Comic Sans MS}", r"\setmainfont{NotoSans}"),
        ("Odd Mono", warning + "Odd Mono}", warning + "St. Mono}", r"\setmonofont{NotoSansMono}"),
    ):
        (line,) = re.findall(rf"^\\IfFontExistsTF\{{{first}\}}.*", tex, re.MULTILINE)
        places = [line.index(step) for step in steps]
        assert places == sorted(places)


def test_the_same_card_gives_the_same_bytes() -> None:
    command = [sys.executable, "-P", "-m", "cardapp", "emit", str(ROOT / "etc/cards/calc"), "--format", "latex"]
    made = {
        subprocess.run(
            command, cwd=ROOT, env=os.environ | {"PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(made) == 1


# -- hostile and long texts ----------------------------------------------------------------------------------------


@settings(
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], phases=(Phase.explicit, Phase.generate)
)
@given(hostile_cards(), st.sampled_from(LAYOUTS))
def test_hostile_texts_survive_and_command_nothing(made_up: tuple[Card, dict[str, list[str]]], name: str) -> None:
    card, sources = made_up
    layout = arranged(name)
    tex = render(compose(card, IDENTITY, layout, sources))
    found = read(tex)
    _, snapshot = assert_all_survives(found.said, card, sources[FILE])
    assert found.said("code") == squeezed("".join(map(visible, sources[FILE])))
    for each in snapshot.expect:
        value = visible(each.value) if layout.components["machine"].values else ""
        assert squeezed(visible(each.expression) + value) in found.said("machine")
    assert set(found.goals) <= {item.key for item in Catalog(card).items}
    assert rf"pdftitle={{{escape.tex_line(card.title)}}}" in tex


def test_ten_thousand_characters_in_a_line_are_all_there() -> None:
    document, long = with_long_line(arranged("karta-5b"))
    assert long in read(render(document)).said("code")
