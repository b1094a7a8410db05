"""What of a long value is shown in a terminal."""

from __future__ import annotations

from cardapp.authoring.shortened import WIDTH, difference, shortened


def test_a_long_value_is_cut_and_a_short_one_is_not() -> None:
    assert shortened("x" * WIDTH) == "x" * WIDTH
    assert shortened("x" * (WIDTH + 1)) == "x" * WIDTH + "…"


def test_two_long_values_are_shown_where_they_differ() -> None:
    head, tail = "{" + "a = 1, " * 50, ", z = 2" * 50 + "}"
    one, other = difference(f"{head}count = 1{tail}", f"{head}count = 0{tail}")
    assert (one[0], one[-1]) == ("…", "…")
    assert "count = 1, z = 2" in one
    assert "count = 0, z = 2" in other
    assert len(one) == len(other) <= WIDTH
    assert difference("{n = 1}", "{n = 2}") == ("{n = 1}", "{n = 2}")
    assert difference("ab" * 60, "ab" * 80) == ("…" + "ab" * 15, "…" + "ab" * 35)
    different = difference("x" * 300, "y" * 300)
    assert different == ("x" * WIDTH + "…", "y" * WIDTH + "…")
