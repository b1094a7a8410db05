from __future__ import annotations

import html as standard

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cardapp.reports import escape


@given(st.text())
def test_html_comes_back_as_it_was_but_for_what_html_cannot_hold(text: str) -> None:
    escaped = escape.html(text)
    assert not set("<>\"'\0\x0b\x1f") & set(escaped)
    if escaped.count("�") == text.count("�"):
        assert standard.unescape(escaped) == text


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("a|b", "a\\|b"),
        ("*x* _y_ `z` ~q~ [a](b)", "\\*x\\* \\_y\\_ \\`z\\` \\~q\\~ \\[a\\](b)"),
        ("<b>&amp;", "&lt;b&gt;&amp;amp;"),
        ("two\r\nlines\tand  more ", "two lines and more"),
        ("# no heading", "\\# no heading"),
        ("## none", "#\\# none"),
        ("- none", "\\- none"),
        ("12. none", "12\\. none"),
        ("1) none", "1\\) none"),
        ("-5 and 3.14", "-5 and 3.14"),
        ("a\\b", "a\\\\b"),
        ("bell\a", "bell�"),
    ],
)
def test_markdown_characters_mean_themselves(text: str, escaped: str) -> None:
    assert escape.markdown(text) == escaped


def test_a_position_has_an_address() -> None:
    assert escape.position_url("http://h:1/", "t1/b1") == "http://h:1/#t1/b1"
    assert escape.position_url("http://h:1", "") == "http://h:1/#"
    assert escape.position_url("http://h:1", 'a"b c#') == "http://h:1/#a%22b%20c%23"
