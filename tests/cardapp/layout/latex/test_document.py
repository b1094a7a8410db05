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
from tests.cardapp.layout.hostile import IDENTITY, ROOT, SHIPPED, hostile_cards, shipped

LAYOUTS = layouts.known_ids()
ANYTHING = st.text(st.characters(codec=None))
CHARACTERS = {"textbackslash{}": "\\", "textasciicircum{}": "^", "textasciitilde{}": "~", "CardBreak{}": ""}
ESCAPE = re.compile(rf"\\({'|'.join(map(re.escape, CHARACTERS))}|[ {{}}$&#%_])")
COMMANDS = re.compile(
    "Card[A-Za-z]+|Diagram(Link|Text)|begin|end|bookmark|directlua|path|useasboundingbox|[hv]box|hsize|advance|hss|"
    "nointerlineskip|fontsize|color|bfseries|itshape|normalfont|ttfamily|text(bf|it|backslash|asciicircum|asciitilde)|"
    "[ {}$&#%_]"
)


def arranged(name: str) -> Layout:
    return layouts.find(name).arranged("latex")


def composed(card: str, layout: str, proved: str = "Not proved") -> Document:
    loaded = shipped(card)
    return compose(loaded.card, loaded.identity, arranged(layout), loaded.sources(), proved)


def shown(latex: str) -> str:
    """The characters that an escaped text shows. It may contain no character that is special in TeX."""
    assert not set(ESCAPE.sub("", latex)) & set("\\{}$&#%_^~\n")
    return ESCAPE.sub(lambda found: CHARACTERS.get(found[1], found[1]), latex)


# -- escaping for each context -------------------------------------------------------------------------------------


@given(ANYTHING)
def test_escaped_text_is_decoded_as_its_context_shows_it(text: str) -> None:
    assert shown(escape.tex_text(text)).split() == visible(text).split()
    assert shown(escape.tex_line(text)) == " ".join(visible(text).split())
    wanted = urllib.parse.quote(text.encode("utf-8", "replace"), safe="-._~:/?#[]@!$&'()*+,;=%")
    assert re.sub(r"\\(?:string)?(.)", r"\1", escape.tex_url(text)) == wanted
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
    assert_parts_and_links_are_those_of_the_card(document, tex)
    count, identity = len(document.sheets), document.identity
    assert tex.count(rf"\CardHeader{{{escape.tex_line(document.card.title)}}}") == count
    named = rf"{{{identity.id} {identity.version}}}{{source \CardCode{{{identity.source_sha256[:12]}}}}}{{{said}}}"
    for number in range(1, count + 1):
        assert tex.count(rf"\CardFooter{named}{{sheet {number} of {count}}}") == 1
    for sentence in (f". {said}.", *(each for kept in document.layout.limitations.values() for each in kept)):
        assert escape.tex_text(sentence) in tex
    page = document.layout.page
    assert rf"\paperwidth={page.width:g}mm \paperheight={page.height:g}mm" in tex
    for name, value in document.layout.colors.items():
        assert rf"\definecolor{{card-{name}}}{{HTML}}{{{value[1:].upper()}}}" in tex
    for component in document.layout.components.values():
        points = document.layout.typography.sizes_pt[component.size]
        assert rf"\CardType{{{points:g}}}" in tex, component.name


def assert_parts_and_links_are_those_of_the_card(document: Document, tex: str) -> None:
    body = tex[tex.index(r"\begin{document}") :]
    assert body.count(r"\begin{CardSheet}") == len(document.sheets)
    boxes = re.findall(r"\\begin\{CardPart\}\{([a-z_]+) ([a-z0-9/-]*)\}", body)
    assert boxes == [(part.kind, part.key) for sheet in document.sheets for part in sheet.parts]
    items = Catalog(document.card).items
    marks = re.findall(r"\\bookmark\[level=(\d),dest=([a-z0-9/-]+)\]\{([\d.]+) (.*)\}", body)
    assert [(key, int(level), number.count("."), shown(title)) for level, key, number, title in marks] == [
        (item.key, item.key.count("/"), item.key.count("/"), " ".join(visible(item.title).split()))
        for item in items
        if item.level not in ("card", "snapshot")
    ]
    keys = [item.key or CARD for item in items]
    assert sorted(re.findall(r"\\CardAnchor\{([^{}]*)\}", body)) == sorted(keys)
    assert set(re.findall(r"\\CardGo\{([^{}]*)\}", body)) <= set(keys)


def test_an_error_names_its_part() -> None:
    document = composed("calc", "karta-mixed")
    tex = render(document)
    part = document.sheets[-1].parts[0]
    begin = rf"\begin{{CardPart}}{{{part.kind} "
    line = max(place for place, line in enumerate(tex.split("\n"), 1) if line.startswith(begin))
    assert place_of(tex, line) == place_of(tex, line + 1) == f"{part.kind} {part.key}"
    assert place_of(tex, 3) == ""


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
def test_hostile_texts_command_nothing(made_up: tuple[Card, dict[str, list[str]]], name: str) -> None:
    card, sources = made_up
    document = compose(card, IDENTITY, arranged(name), sources)
    tex = render(document)
    assert_parts_and_links_are_those_of_the_card(document, tex)
    body = tex[tex.index(r"\begin{document}") :]
    commands = re.findall(r"\\([A-Za-z]+|.)", body, re.DOTALL)
    assert [command for command in commands if not COMMANDS.fullmatch(command)] == []
    bare = re.sub(r"\\directlua\{.*\}|\\string~|\\.|^% part: .*$", "", body, flags=re.MULTILINE)
    assert not set(bare) & set("%$&#^~")
    assert bare.count("{") == bare.count("}")
    assert rf"pdftitle={{{escape.tex_line(card.title)}}}" in tex
