"""Breaking lines of code: no character is lost, no segment is too wide, words stay whole where possible."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cardapp.layout.font_metrics import TAB, chop, fold, width

LINES = st.one_of(st.text(st.sampled_from("ab  (日\u0301"), max_size=80), st.text(max_size=40))


@given(LINES, st.integers(8, 40))
def test_pieces_make_up_the_line_and_fit(line: str, limit: int) -> None:
    for segments in (chop(line, limit), fold(line, limit)):
        assert "".join(segments) == line.expandtabs(TAB)
        assert all(width(segment, 1, "code") <= limit * 0.6 + 1e-9 for segment in segments)
        assert all(segments[1:])


@pytest.mark.parametrize(
    ("line", "segments"),
    [
        ("", ("",)),
        ("short", ("short",)),
        ("int a; /* why */", ("int a; /* ", "why */")),
        ("        x = wordwordword;", ("        x = ", "wordwordword", ";")),
        ("a.size - a.high_water", ("a.size - ", "a.high_water")),
        ("(unsigned)admin->id", ("(unsigned)", "admin->id")),
        ("demo_room.c:120", ("demo_room.c:", "120")),
        ("lexer->text[lexer->cursor]", ("lexer->text[", "lexer->", "cursor]")),
        ("TOKEN_UNKNOWN", ("TOKEN_", "UNKNOWN")),
        ("STATUS_OPERAND_EXPECTED", ("STATUS_", "OPERAND_", "EXPECTED")),
        ("a wordthatislongerthanthat", ("a wordthatis", "longerthanth", "at")),
        ("one two three", ("one two ", "three")),
    ],
)
def test_words_stay_whole_where_a_blank_is_near(line: str, segments: tuple[str, ...]) -> None:
    assert fold(line, 12) == segments


def test_a_very_long_line_is_broken_into_lines_of_the_limit() -> None:
    assert len(fold("word " * 40_000, 60)) == 200_000 // 60 + 1
