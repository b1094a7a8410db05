"""The widths of characters, and lines of code broken by them: no character is lost, and no segment is too wide."""

from __future__ import annotations

from typing import get_args

from hypothesis import given
from hypothesis import strategies as st

from cardapp.layout.font_metrics import CELL, TAB, Face, chop, fold, width

LINES = st.one_of(st.text(st.sampled_from("ab  (日\u0301"), max_size=80), st.text(max_size=40))


@given(LINES, st.integers(8, 40))
def test_pieces_make_up_the_line_and_fit(line: str, limit: int) -> None:
    for segments in (chop(line, limit), fold(line, limit)):
        assert "".join(segments) == line.expandtabs(TAB)
        assert all(width(segment, 1, "code") <= limit * 0.6 + 1e-9 for segment in segments)
        assert all(segments[1:])


def test_words_stay_whole_where_a_blank_is_near() -> None:
    for line, *segments in (
        ("", ""),
        ("short", "short"),
        ("int a; /* why */", "int a; /* ", "why */"),
        ("        x = wordwordword;", "        x = ", "wordwordword", ";"),
        ("a.size - a.high_water", "a.size - ", "a.high_water"),
        ("(unsigned)admin->id", "(unsigned)", "admin->id"),
        ("demo_room.c:120", "demo_room.c:", "120"),
        ("lexer->text[lexer->cursor]", "lexer->text[", "lexer->", "cursor]"),
        ("TOKEN_UNKNOWN", "TOKEN_", "UNKNOWN"),
        ("STATUS_OPERAND_EXPECTED", "STATUS_", "OPERAND_", "EXPECTED"),
        ("a wordthatislongerthanthat", "a wordthatis", "longerthanth", "at"),
        ("one two three", "one two ", "three"),
    ):
        assert list(fold(line, 12)) == segments
    assert len(fold("word " * 40_000, 60)) == 200_000 // 60 + 1


def test_an_arabic_ligature_is_as_wide_as_its_letters() -> None:
    for char, letters in (("ﷵ", 4), ("ﷺ", 18), ("ﳓ", 2), ("ا", 1)):
        assert all(width(char, 10, face) >= 10 * CELL * letters for face in get_args(Face)), char
    assert chop("ab ﷺ", 10) == ("ab ", "ﷺ")
    assert chop("ab ﷵ", 10) == ("ab ﷵ",)
