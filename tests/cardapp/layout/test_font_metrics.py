"""The computed width of a text is never less than its width in any of the fonts."""

from __future__ import annotations

from typing import get_args

import pytest

from cardapp.layout.font_metrics import CELL, Face, chop, width


@pytest.mark.parametrize("face", get_args(Face))
@pytest.mark.parametrize(("char", "letters"), [("ﷵ", 4), ("ﷺ", 18), ("ﳓ", 2), ("ا", 1)])
def test_an_arabic_ligature_is_as_wide_as_its_letters(face: Face, char: str, letters: int) -> None:
    assert width(char, 10, face) >= 10 * CELL * letters


def test_a_line_of_code_breaks_before_a_phrase_that_is_one_character() -> None:
    assert chop("ab ﷺ", 10) == ("ab ", "ﷺ")
    assert chop("ab ﷵ", 10) == ("ab ﷵ",)
