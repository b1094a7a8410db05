"""Fitting a text into a height: it is split between lines, and both pieces together are the text."""

from __future__ import annotations

import pytest

from cardapp.layout.font_metrics import CELL
from cardapp.layout.sheets import INDENT
from cardapp.layout.text import Break, Bullets, CodeBlock, Paragraph, Run, parse
from cardapp.layout.text_fitting import Setting, take

SETTING = Setting(width=60, em=3, line=4, code_em=3, code_line=4)
TEXTS = (
    "words " * 60,
    "- one\n- two\n- three",
    "1. first\n2. second",
    "> quoted",
    "```c\nint a;\n```",
    "# Heading",
    "---",
)


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("room", [-20.0, -0.1, 0.0, 0.2])
def test_nothing_fits_a_height_of_zero(text: str, room: float) -> None:
    blocks = parse(text)
    taken = take(blocks, room, SETTING)
    assert (taken.blocks, taken.height, taken.rest) == ((), 0.0, blocks)


def test_code_is_cut_between_its_lines() -> None:
    (code,) = parse("```c\na\nb\nc\n```")
    taken = take((code,), 9.0, SETTING)
    assert taken.blocks == (CodeBlock("a\nb", "c"),)
    assert taken.height == 8.0
    assert taken.rest == (CodeBlock("c", "c"),)


def test_a_long_line_of_code_is_cut_at_the_edge_of_its_column() -> None:
    (code,) = parse("```\n" + "x" * 100 + "\n```")
    taken = take((code,), 9.0, SETTING)
    columns = int((60 - INDENT) / (3 * CELL))
    assert taken.blocks == (CodeBlock("x" * 2 * columns),)
    assert taken.rest == (CodeBlock("x" * (100 - 2 * columns)),)


def test_a_paragraph_leaves_no_single_line() -> None:
    (paragraph,) = parse("word " * 60)
    assert take((paragraph,), 7.9, SETTING).blocks == ()
    taken = take((paragraph,), 8.0, SETTING)
    assert taken.height == 8.0
    assert (len(taken.blocks), len(taken.rest)) == (1, 1)


def test_a_hard_line_break_starts_a_new_line() -> None:
    paragraph = Paragraph((Run("a"), Break(), Run("b"), Break(), Run("c")))
    assert take((paragraph,), 100.0, SETTING).height == 12.0


def test_a_numbered_list_goes_on_with_its_numbers() -> None:
    (numbered,) = parse("\n".join(f"{number}. item" for number in range(7, 12)))
    assert isinstance(numbered, Bullets)
    assert take((numbered,), 13.0, SETTING).rest == (Bullets(numbered.items[2:], start=9),)
