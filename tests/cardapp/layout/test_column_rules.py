"""The lines of a row are drawn only in the gutters between columns with content."""

from __future__ import annotations

import pytest

from cardapp.layout.compose import compose
from cardapp.layout.layout_model import Layout, Variant
from cardapp.layout.layout_options import ALL
from cardapp.layout.sheets import BAR, SheetRow, rows_with_rules
from cardapp.publish import layouts
from tests.cardapp.layout.hostile import shipped


def composed(name: str) -> tuple[Layout, list[list[SheetRow]]]:
    loaded, layout = shipped("arena"), layouts.find(name).arranged("latex")
    document = compose(loaded.card, loaded.identity, layout, loaded.sources())
    found = [list(rows_with_rules(sheet.parts, layout.grid, layout.latex)) for sheet in document.sheets]
    for sheet, rows in zip(document.sheets, found, strict=True):
        assert [part for row in rows for part in row.parts] == list(sheet.parts)
    return layout, found


@pytest.mark.parametrize(("name", "variant"), [("karta-5a", "5a"), ("karta-5b", "5b")])
def test_lines_are_drawn_between_columns_with_content(name: str, variant: Variant) -> None:
    layout, sheets = composed(name)
    lined = [row for rows in sheets for row in rows if row.dividers]
    assert lined
    for row in lined:
        held = {part.column for part in row.parts}
        assert ALL not in held
        columns = [column for column in layout.grid.columns if column.name in held]
        for line in row.dividers:
            assert all(line.x + line.width <= column.x or line.x >= column.x + column.width for column in columns)
            assert columns[0].x < line.x < columns[-1].x
            assert all(line.y < part.frame.y < line.y + line.height for part in row.parts)
        shown = [(bar.x, bar.width, bar.height) for bar in row.bars]
        assert shown == ([(column.x, column.width, BAR) for column in columns] if variant == "5b" else [])


def test_other_rows_have_no_lines() -> None:
    assert not any(row.dividers or row.bars for rows in composed("karta-classic")[1] for row in rows)
    for rows in composed("karta-5b")[1]:
        for row in rows:
            assert bool(row.bars) == bool(row.dividers) == (len({part.column for part in row.parts}) > 1)
