"""Escapes text for LaTeX, with one function per context: text, code, URL. TeX finds no command in the result.

The functions accept any string and add no line break, so the result may be an argument. Invisible characters become
visible marks (``visible``); ``fonts.tex`` handles characters without a glyph when the document is typeset.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection

from cardapp.layout.escape import visible

_SPECIAL = {
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
_TABLE = str.maketrans(_SPECIAL)
_JOINER, _ATTACHED, _SKINS = "\u200d", ("Mn", "Me", "Mc", "Cf"), "🏻🏼🏽🏾🏿"
"""Characters that join two emoji, or combine with the previous character."""
_URL_CHARACTERS = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~:/?#[]@!$&'()*+,;=%")
_URL_SPECIAL = {"%": r"\%", "#": r"\#", "&": r"\&", "$": r"\$", "_": r"\_", "~": r"\string~"}


def line(text: str) -> str:
    """For text without line breaks: a bookmark, a document property, a text in a diagram."""
    return " ".join(visible(text).split()).translate(_TABLE)


def text(text: str, longer: Collection[str] = ()) -> str:
    """For running text. White space becomes one space, as in TeX. A word that is contained in one of ``longer``, the
    words longer than their line, may be broken at any character (``\\CardBreak``)."""
    words = re.sub(r"\s+", " ", visible(text)).split(" ")
    return " ".join(
        _breakable(word) if any(word in each for each in longer) else word.translate(_TABLE) for word in words
    )


def code(text: str) -> str:
    """For one line of code; all spaces are kept."""
    return visible(text).expandtabs().replace("\n", " ").translate(_TABLE | {ord(" "): r"\ "})


def url(url: str) -> str:
    """For the URL of ``\\href``: invalid characters are percent-encoded, TeX's special characters are escaped."""
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
        pieces.append(_SPECIAL.get(char, char))
        before = char
    return "".join(pieces)
