"""Parsed texts: CommonMark, HTML as text, no lost character, and no unsafe link target."""

from __future__ import annotations

import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cardapp.layout.escape import safe_url, visible
from cardapp.layout.text import (
    _PARAGRAPHS,
    _PLAIN_CHARACTER,
    _SIMPLE,
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
    _blocks,
    _parser,
    parse,
)


def spans(markdown: str) -> list[Span]:
    (block,) = parse(markdown)
    assert isinstance(block, Paragraph)
    return list(block.spans)


def text_of(blocks: tuple[Block, ...]) -> str:
    """All characters of the blocks, in their order."""
    found = []
    for block in blocks:
        match block:
            case Paragraph(spans=inner) | Heading(spans=inner):
                found += [span.text for span in inner if isinstance(span, Run)]
            case CodeBlock(text=text):
                found.append(text)
            case Quote(blocks=blocks_inside):
                found.append(text_of(blocks_inside))
            case Bullets(items=items):
                found += [text_of(item) for item in items]
            case Table(head=head, rows=rows):
                cells = (cell for row in (head, *rows) for cell in row)
                found += [span.text for cell in cells for span in cell if isinstance(span, Run)]
    return "".join(found)


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


@pytest.mark.parametrize("text", ["a | b", "a | b\n--", "a | b\n| c", "| a |\n|---|---|"])
def test_bars_without_a_head_and_its_line_are_no_table(text: str) -> None:
    assert not any(isinstance(block, Table) for block in parse(text))


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


def test_a_link_keeps_its_styles() -> None:
    link = Link("https://a.b/?c=%22d&e", "t")
    assert spans('[a *b*](<https://a.b/?c="d&e> "t")') == [Run("a ", link=link), Run("b", emphasis=True, link=link)]


@pytest.mark.parametrize(
    ("markdown", "shown"),
    [
        ("[a](javascript:alert(1)) b", "a (javascript:alert(1)) b"),
        ('[a](file:///x "t")', "a (file:///x t)"),
        ("<javascript:x>", "javascript:x (javascript:x)"),
        ("[a]()", "a"),
        ("![a *b*](c.png)", "[image: a b (c.png)]"),
        ('![](c.png "t")', "[image:  (c.png t)]"),
        ("<script>alert(1)</script>", "<script>alert(1)</script>"),
        ("&lt;b&gt; &#x202e; &#7;", "<b> ‹U+202E› �"),
        ("a\x00b\x1f\u2028", "a‹U+0000›b‹U+001F›‹U+2028›"),
    ],
)
def test_unsupported_content_is_shown_as_text(markdown: str, shown: str) -> None:
    assert spans(markdown) == [Run(shown)]


def test_a_block_of_html_is_shown_as_text() -> None:
    assert parse("<div onclick='x'>\n<b>\n</div>") == (Paragraph((Run("<div onclick='x'>\n<b>\n</div>"),)),)


@pytest.mark.parametrize("deep", ["> " * 200 + "x", "- " * 200 + "x", "> " * 5000 + "x", "1. " * 30 + "x"])
def test_text_nested_too_deeply_is_shown_as_written(deep: str) -> None:
    assert parse(deep) == (CodeBlock(deep),)


def test_realistic_nesting_is_kept() -> None:
    assert text_of(parse("> " * 30 + "x")) == "x"
    assert text_of(parse("- " * 18 + "x")) == "x"


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
def test_ten_thousand_of_anything_are_read_in_time(unit: str) -> None:
    started = time.process_time()
    parse(unit * (10_000 // len(unit)))
    assert time.process_time() - started < 5


PIECES = st.sampled_from(
    [
        "a",
        "B2",
        "c d",
        " ",
        ", ",
        "(",
        ")",
        "'",
        "`",
        "`x`",
        "`a *b*`",
        "` a`",
        "`a `",
        "*",
        "**",
        "**a**",
        "**b c**",
        "-.",
    ]
)


@given(st.lists(PIECES, max_size=12).map("".join) | st.from_regex(f"[A-Za-z]{_PLAIN_CHARACTER}*", fullmatch=True))
def test_a_simple_line_is_what_the_parser_makes_of_it(line: str) -> None:
    assert parse(line) == _blocks(iter(_parser().parse(line)))
    assert parse(line) == parse(f"{line}\n")


@pytest.mark.parametrize("line", ["Read `a.b` now.", "**Stop** before (**the** line), then `read` it", "a", "Why?"])
def test_most_lines_are_simple(line: str) -> None:
    assert _SIMPLE.fullmatch(line)


@given(st.from_regex(_PARAGRAPHS, fullmatch=True) | st.from_regex(r"(?:[ab][ \t*_`\[\]()<>!&\\:/.=-]{0,6}\n{0,2})+"))
@example("A\xa0")
@example("A\xa0\n\nB \u2003\n")
def test_paragraphs_are_what_the_parser_makes_of_them(text: str) -> None:
    source = visible(text.replace("\r\n", "\n").replace("\r", "\n"))
    assert parse(text) == _blocks(iter(_parser().parse(source)))
