"""CSV in which a spreadsheet program executes no formula."""

from __future__ import annotations

import csv
import io

from hypothesis import given
from hypothesis import strategies as st

from cardapp.reports import csv_text

FORMULAS = (
    "=1+1", "+1+1", "-1+1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", " =1", "  -cmd|' /C calc'!A0", "\uff1d1", "-a", "=",
    '=HYPERLINK("http://example.invalid","x")',
)  # fmt: skip
OTHERS = ("", "-1", "+3", "-0.5", "48", "0x40", "a=b", "a.used = -1", "é", "'x", "{x = 1}", " ")


def test_only_a_formula_is_quoted() -> None:
    assert [csv_text.cell(text) for text in FORMULAS] == [f"'{text}" for text in FORMULAS]
    assert [csv_text.cell(text) for text in OTHERS] == list(OTHERS)
    assert [csv_text.cell(value) for value in (True, False, None, 3)] == ["yes", "no", "", "3"]


@given(st.lists(st.lists(st.text(), min_size=1, max_size=3), max_size=3))
def test_every_cell_is_read_back(rows: list[list[str]]) -> None:
    text = "".join(csv_text.lines(rows))
    assert text.startswith("\ufeff")
    read = list(
        csv.reader(io.StringIO(text.encode("utf-8", "surrogatepass").decode("utf-8-sig", "surrogatepass"), newline=""))
    )
    assert read == [[csv_text.cell(value) for value in row] for row in rows]
