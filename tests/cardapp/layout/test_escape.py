from __future__ import annotations

import html as standard
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from cardapp.layout import escape

ANYTHING = st.text(st.characters(codec=None))
SAFE = ("http://a.b", "HTTPS://a.b/c?d=e&f#g", "mailto:a@b.c", "#task/block-1", "https://a.b/%C3%A4")
UNSAFE = (
    "javascript:alert(1)", "JaVaScRiPt:x", "java\tscript:x", " javascript:x", "data:text/html,x", "vbscript:x",
    "file:///etc/passwd", "//a.b", "a.html", "", "#", "#é", "http:a", "https://a b", "http://a\nb", "https://ä.b",
)  # fmt: skip


@given(ANYTHING)
def test_visible_characters_stay_and_invisible_ones_get_a_mark(text: str) -> None:
    shown = escape.visible(text)
    assert not any(unicodedata.category(char) in ("Cc", "Cs") for char in shown if char not in "\t\n")
    assert not set(shown) & set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufeff\uffff")
    assert escape.visible(shown) == shown
    shown.encode()
    escaped = escape.html(text)
    assert not set("<>\"'") & set(escaped)
    assert standard.unescape(escaped) == shown


def test_only_control_characters_are_shown_as_marks() -> None:
    for text, shown in (
        ("\x00\x07\x1b[0m", "‹U+0000›‹U+0007›‹U+001B›[0m"),
        ("a\r\nb\tc\x85", "a‹U+000D›\nb\tc‹U+0085›"),
        ("if (a\u202e} /* \u2066", "if (a‹U+202E›} /* ‹U+2066›"),
        ("\ud800\U0010ffff", "‹U+D800›‹U+10FFFF›"),
        ("שלום مرحبا 👩‍👩‍👧 e\u0301 🏴󠁧󠁢󠁳󠁣󠁴󠁿", "שלום مرحبا 👩‍👩‍👧 e\u0301 🏴󠁧󠁢󠁳󠁣󠁴󠁿"),
    ):
        assert escape.visible(text) == shown


def test_only_an_address_of_the_web_of_mail_or_of_the_card_is_safe() -> None:
    assert [url for url in SAFE if escape.safe_url(url) != url] == []
    assert [url for url in UNSAFE if escape.safe_url(url) is not None] == []


def test_markdown_characters_mean_themselves() -> None:
    for text, escaped in (
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
        ("bell\a", "bell‹U+0007›"),
    ):
        assert escape.markdown(text) == escaped


def test_a_position_has_an_address() -> None:
    assert escape.position_url("http://h:1/", "t1/b1") == "http://h:1/#t1/b1"
    assert escape.position_url("http://h:1", "") == "http://h:1/#"
    assert escape.position_url("http://h:1", 'a"b c#') == "http://h:1/#a%22b%20c%23"
