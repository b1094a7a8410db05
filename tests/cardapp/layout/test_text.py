"""Parsed texts: CommonMark, HTML as text, no lost character, and no unsafe link target."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cardapp.layout.escape import safe_url, visible
from cardapp.layout.text import (
    Block,
    Break,
    Bullets,
    CodeBlock,
    Heading,
    Link,
    Paragraph,
    Quote,
    Rule,
    Run,
    Span,
    Table,
    parse,
)
from tests.cardapp.layout.hostile import text_of


def spans(markdown: str) -> list[Span]:
    (block,) = parse(markdown)
    assert isinstance(block, Paragraph)
    return list(block.spans)


def test_every_kind_of_block_is_parsed() -> None:
    text = (
        "# One\n\nTwo\n\n- three\n- four\n\n7. five\n\n   six\n\n> seven\n\n```c x\nint a;\n\n```\n\n    eight\n\n---\n"
    )
    assert parse(text) == (
        Heading(1, (Run("One"),)),
        Paragraph((Run("Two"),)),
        Bullets(((Paragraph((Run("three"),), tight=True),), (Paragraph((Run("four"),), tight=True),))),
        Bullets(((Paragraph((Run("five"),)), Paragraph((Run("six"),))),), start=7),
        Quote((Paragraph((Run("seven"),)),)),
        CodeBlock("int a;\n", "c x"),
        CodeBlock("eight"),
        Rule(),
    )


def test_a_table_has_a_head_rows_and_alignments() -> None:
    table = "| a | *b* |  |\n|---|:-:|--:|\n| `x\\|y` | 2 |\n| <b> | [l](javascript:x) | 5 | left out |\n"
    assert parse(f"Before.\n{table}\nAfter.") == (
        Paragraph((Run("Before."),)),
        Table(
            head=((Run("a"),), (Run("b", emphasis=True),), ()),
            rows=(
                ((Run("x|y", code=True),), (Run("2"),), ()),
                ((Run("<b>"),), (Run("l (javascript:x)"),), (Run("5"),)),
            ),
            aligns=("left", "center", "right"),
        ),
        Paragraph((Run("After."),)),
    )


def test_bars_without_a_head_and_its_line_are_no_table() -> None:
    for text in ("a | b", "a | b\n--", "a | b\n| c", "| a |\n|---|---|"):
        assert not any(isinstance(block, Table) for block in parse(text)), text


def test_styles_are_flags_and_neighbours_of_one_style_are_one_run() -> None:
    assert spans("a *b **c** `d`* e\nf  \ng **x****y**") == [
        Run("a "),
        Run("b ", emphasis=True),
        Run("c", emphasis=True, strong=True),
        Run(" ", emphasis=True),
        Run("d", code=True, emphasis=True),
        Run(" e\nf"),
        Break(),
        Run("g "),
        Run("x****y", strong=True),
    ]
    link = Link("https://a.b/?c=%22d&e", "t")
    assert spans('[a *b*](<https://a.b/?c="d&e> "t")') == [Run("a ", link=link), Run("b", emphasis=True, link=link)]


def test_unsupported_content_is_shown_as_text() -> None:
    for markdown, shown in (
        ("[a](javascript:alert(1)) b", "a (javascript:alert(1)) b"),
        ('[a](file:///x "t")', "a (file:///x t)"),
        ("<javascript:x>", "javascript:x (javascript:x)"),
        ("[a]()", "a"),
        ("![a *b*](c.png)", "[image: a b (c.png)]"),
        ('![](c.png "t")', "[image:  (c.png t)]"),
        ("<script>alert(1)</script>", "<script>alert(1)</script>"),
        ("<div onclick='x'>\n<b>\n</div>", "<div onclick='x'>\n<b>\n</div>"),
        ("&lt;b&gt; &#x202e; &#7;", "<b> ‹U+202E› �"),
        ("a\x00b\x1f\u2028", "a‹U+0000›b‹U+001F›‹U+2028›"),
    ):
        assert spans(markdown) == [Run(shown)]


def test_text_nested_too_deeply_is_shown_as_written() -> None:
    for deep in ("> " * 200 + "x", "- " * 200 + "x", "> " * 5000 + "x", "1. " * 30 + "x"):
        assert parse(deep) == (CodeBlock(deep),)
    assert text_of(parse("> " * 30 + "x")) == text_of(parse("- " * 18 + "x")) == "x"


@given(st.text(st.characters(codec=None, exclude_characters=" \t\r\n!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")))
def test_a_text_without_markup_keeps_every_character(plain: str) -> None:
    assert text_of(parse(f"a{plain}z")) == visible(f"a{plain}z")


@given(st.text("ab|*_`[]()<>!#-+.\\&;\"' \n\t>1:~/\x00\u202e", max_size=80))
def test_any_markup_gives_safe_addresses_and_visible_characters(markdown: str) -> None:
    def check(blocks: tuple[Block, ...]) -> None:
        for block in blocks:
            match block:
                case Paragraph(spans=inner) | Heading(spans=inner):
                    for span in inner:
                        assert isinstance(span, Break) or span.link is None or safe_url(span.link.url)
                case Quote(blocks=inside):
                    check(inside)
                case Bullets(items=items):
                    for item in items:
                        check(item)
                case Table(head=head, rows=rows):
                    check(tuple(Paragraph(cell) for row in (head, *rows) for cell in row))

    blocks = parse(markdown)
    check(blocks)
    assert visible(text_of(blocks)) == text_of(blocks)


@pytest.mark.parametrize("unit", ["*", "[", "[a](", "`", "<", "![", "**a ", "> ", "&", "\\", "a*b_", "- \n", "|"])
def test_ten_thousand_of_anything_are_read(unit: str) -> None:
    """A parser of quadratic time would reach the time limit of a test."""
    assert parse(unit * (10_000 // len(unit)))


PIECES = st.sampled_from([
    "a", "B2", "c d", " ", ", ", "(", ")", "'", "`", "`x`", "`a *b*`", "` a`", "`a `", "*", "**", "**a**", "**b c**",
    "-.",
])  # fmt: skip
PLAIN = r"[A-Za-z0-9 ,.;:'\"()/?%+=@-]"
LINE = r"[^\W\d_][^\n\t]*"


@given(
    st.lists(PIECES, max_size=12).map("".join)
    | st.from_regex(rf"[A-Za-z]{PLAIN}*", fullmatch=True)
    | st.from_regex(rf"{LINE}(?:\n{{1,2}}{LINE})*\n?", fullmatch=True)
    | st.from_regex(r"(?:[ab][ *_`\[\]()<>!&\\:/.=-]{0,6}\n{0,2})+", fullmatch=True)
)
@example("Read `a.b` now.")
@example("**Stop** before (**the** line), then `read` it")
@example("A\xa0")
@example("A\xa0\n\nB \u2003\n")
def test_simple_texts_are_what_the_whole_parser_makes_of_them(text: str) -> None:
    """Simple texts are not given to the whole parser. A quotation always is."""
    shown = visible(text.replace("\r\n", "\n").replace("\r", "\n"))
    quoted = parse("\n".join(f"> {line}" for line in shown.split("\n")))
    assert quoted == (Quote(parse(text)),)
    assert parse(text) == parse(f"{text}\n")
