"""Fitting a text into a height: it is split between lines, and both pieces together are the text."""

from __future__ import annotations

from cardapp.layout.font_metrics import CELL
from cardapp.layout.sheets import INDENT, TEXT_TABLE_GAP
from cardapp.layout.text import Break, Bullets, CodeBlock, Paragraph, Run, Table, parse
from cardapp.layout.text_fitting import Setting, fitted, take

SETTING = Setting(width=60, em=3, line=4, code_em=3, code_line=4)
TEXTS = (
    "words " * 60, "- one\n- two\n- three", "1. first\n2. second", "> quoted", "```c\nint a;\n```", "# Heading", "---",
    "| a | b |\n|---|---|\n| c | d |",
)  # fmt: skip


def test_nothing_fits_a_height_of_zero() -> None:
    for blocks in map(parse, TEXTS):
        for room in (-20.0, -0.1, 0.0, 0.2):
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


# -- tables --------------------------------------------------------------------------------------------------------


def table(markdown: str) -> Table:
    (block,) = parse(markdown)
    assert isinstance(block, Table)
    return block


def test_a_table_is_cut_between_rows_and_repeats_its_head_and_widths() -> None:
    whole = table("| n | word |\n|--:|---|\n" + "".join(f"| {n} | {'long ' * n}|\n" for n in range(1, 40)))
    left, rows = (whole,), []
    while left:
        taken = take(left, 60.0, SETTING)
        (kept,) = taken.blocks
        assert isinstance(kept, Table)
        assert (kept.head, kept.widths) == (whole.head, fitted(whole, SETTING).widths)
        assert 0 < taken.height <= 60
        rows += kept.rows
        left = taken.rest
    assert tuple(rows) == whole.rows


def test_a_row_higher_than_the_room_is_cut_between_lines() -> None:
    whole = table(f"| a | b |\n|---|---|\n| {'x ' * 400}| {'y ' * 100}|\n")
    left, text = (whole,), ["", ""]
    for _ in range(20):
        taken = take(left, 40.0, SETTING)
        for kept in taken.blocks:
            for row in kept.rows:
                text = [before + "".join(run.text for run in cell) for before, cell in zip(text, row, strict=True)]
        left = taken.rest
    assert (left, text) == ((), [("x " * 400).strip(), ("y " * 100).strip()])


def test_the_columns_of_a_table_fit_its_text() -> None:
    for count in (1, 2, 5):
        cells = [f"{'word ' * (3 * place)}x" for place in range(count)]
        made = fitted(table(f"|{'|'.join(cells)}|\n|{'---|' * count}\n|{'|'.join(cells)}|"), SETTING)
        assert sum(made.widths) + TEXT_TABLE_GAP * (count - 1) <= SETTING.width + 1e-6
        assert min(made.widths) >= 3 * SETTING.em - 1e-6
        assert len(made.aligns) == len(made.widths) == count


def test_a_table_with_too_many_columns_has_its_cells_one_below_the_other() -> None:
    made = fitted(table(f"|{'a|' * 20}\n|{'---|' * 20}\n|{'b|' * 20}"), SETTING)
    assert (made.head, made.aligns) == ((), ("left",))
    assert made.rows == (*[((Run("a"),),)] * 20, *[((Run("b"),),)] * 20)
    # A high head is a row like any other.
    made = fitted(table(f"| {'head ' * 100}|\n|---|\n| b |"), SETTING)
    assert (made.head, len(made.rows)) == ((), 2)
