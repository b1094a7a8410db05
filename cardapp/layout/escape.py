"""Escapes text for each output context, and replaces invisible characters by visible marks.

Texts come from card authors, users and programs, so they may contain any character. The functions for LaTeX add no line
break, so their result may be an argument, and TeX finds no command in it. ``fonts.tex`` handles characters without a
glyph when the document is typeset.
"""

from __future__ import annotations

import html as _html
import re
import unicodedata
from collections.abc import Collection

_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # controls except tab and line feed
    "\u200b\u2028\u2029\u2060-\u2064\ufeff\ufff9-\ufffb"  # no width, or an unexpected line break
    "\u202a-\u202e\u2066-\u2069"  # change the text direction; right-to-left scripts do not need them
    "\ud800-\udfff\ufdd0-\ufdef"  # surrogates and noncharacters
    + "".join(f"{chr(plane << 16 | 0xFFFE)}{chr(plane << 16 | 0xFFFF)}" for plane in range(17))
    + "]"
)
_PLAIN = re.compile("[ !#-%(-;=?-~]*")
"""Text without characters to mark or to escape in HTML. Nearly all texts match, so this is checked first."""
_SAFE = re.compile("(?:https?://|mailto:)[!-~]+|#[a-z0-9/-]+", re.IGNORECASE)
_KEY = re.compile("[a-z0-9/-]+")
_FRAGMENT = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/")
_MARKDOWN = re.compile(r"[\\`*_\[\]|~]")
_BLANKS = re.compile(r"[ \t\r\n]+")
_LINE_START = re.compile(r"^(#+|[-+]|\d+[.)])(?=\s|$)")


def visible(text: str) -> str:
    """Replace each character that is invisible, changes the text direction or is invalid by a mark like ``‹U+0007›``.
    Tabs and line feeds are kept."""
    if text.isascii() and text.isprintable():
        return text
    return _UNSEEN.sub(lambda found: f"‹U+{ord(found[0]):04X}›", text)


def html(text: object) -> str:
    """Escape a text for element content and quoted attributes of HTML."""
    text = str(text)
    return text if _PLAIN.fullmatch(text) else _html.escape(visible(text))


def safe_url(url: str) -> str | None:
    """Return the URL if it may be a link target: an absolute http, https or mailto URL, or ``#`` and a key of the card.
    Otherwise return None; the caller then shows the URL as text. The result still has to be escaped for its output."""
    return url if _SAFE.fullmatch(url) else None


def markdown(text: object) -> str:
    """Escape a text for one line of Markdown, also in a table cell. Line breaks become spaces."""
    line = visible(_BLANKS.sub(" ", str(text)).strip(" "))
    plain = _MARKDOWN.sub(r"\\\g<0>", line).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _LINE_START.sub(lambda start: start[1][:-1] + "\\" + start[1][-1], plain)


def percent_encoded(key: str) -> str:
    """Encode a position's key for the fragment of a URL. Slashes are kept."""
    if _KEY.fullmatch(key):
        return key
    return "".join(chr(byte) if byte in _FRAGMENT else f"%{byte:02X}" for byte in visible(key).encode())


def position_url(base_url: str, key: str) -> str:
    """Return the URL that opens a position in the running application. It still has to be escaped for its output."""
    return f"{base_url.rstrip('/')}/#{percent_encoded(key)}"


# -- LaTeX ------------------------------------------------------------------------------------------------------------

_TEX_SPECIAL = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
}
_TEX_TABLE = str.maketrans(_TEX_SPECIAL)
_JOINER, _ATTACHED, _SKINS = "\u200d", ("Mn", "Me", "Mc", "Cf"), "🏻🏼🏽🏾🏿"
"""A word is broken neither after the joiner of emoji, nor before a skin tone or a character of these categories."""
_URL_CHARACTERS = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~:/?#[]@!$&'()*+,;=%")
_URL_SPECIAL = {"%": r"\%", "#": r"\#", "&": r"\&", "$": r"\$", "_": r"\_", "~": r"\string~"}


def tex_line(text: str) -> str:
    """Escape a text without line breaks: a bookmark, a document property, or a text in a diagram."""
    return " ".join(visible(text).split()).translate(_TEX_TABLE)


def tex_text(text: str, long_words: Collection[str] = ()) -> str:
    """Escape running text. White space becomes one space, as in TeX. ``long_words`` are the words that are wider than
    their line. A word that is one of them, or a part of one, may be broken at any character (``\\CardBreak``)."""
    words = re.sub(r"\s+", " ", visible(text)).split(" ")
    return " ".join(
        _breakable(word) if any(word in each for each in long_words) else word.translate(_TEX_TABLE) for word in words
    )


def tex_inline_code(text: str, long_words: Collection[str] = ()) -> str:
    """Escape code within running text like ``tex_text``, but keep all spaces. A line may end at each of them."""
    return r"\ ".join(tex_text(word, long_words) for word in re.split(r"\s", visible(text)))


def tex_code(text: str) -> str:
    """Escape one line of code. All spaces are kept."""
    return visible(text).expandtabs().replace("\n", " ").translate(_TEX_TABLE | {ord(" "): r"\ "})


def tex_url(url: str) -> str:
    """Escape the URL of ``\\href``: percent-encode invalid characters, and escape TeX's special characters."""
    encoded = "".join(
        chr(byte) if byte in _URL_CHARACTERS else f"%{byte:02X}" for byte in url.encode("utf-8", "replace")
    )
    return "".join(_URL_SPECIAL.get(char, char) for char in encoded)


def _breakable(word: str) -> str:
    before = ""
    pieces = []
    for char in word:
        if before and before != _JOINER and unicodedata.category(char) not in _ATTACHED and char not in _SKINS:
            pieces.append(r"\CardBreak{}")
        pieces.append(_TEX_SPECIAL.get(char, char))
        before = char
    return "".join(pieces)
