"""One escape per context of LaTeX: text, code, URL. What comes out holds no character that TeX takes for a command.

Each takes any string and adds no line break, so it may stand in an argument. Characters that no output can show have
become visible marks (``visible``); those that only the fonts lack are found when the document is set (``fonts.tex``).
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
"""What makes one picture of two characters, or changes the one before."""
_URL_CHARACTERS = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~:/?#[]@!$&'()*+,;=%")
_URL_SPECIAL = {"%": r"\%", "#": r"\#", "&": r"\&", "$": r"\$", "_": r"\_", "~": r"\string~"}


def line(text: str) -> str:
    """For text that is never broken: a bookmark, a document's property, a word in a picture."""
    return " ".join(visible(text).split()).translate(_TABLE)


def text(text: str, longer: Collection[str] = ()) -> str:
    """For running text. White space is one space, as in TeX; what is in one of the words that are ``longer`` than their
    line can be broken anywhere (``\\CardBreak``)."""
    words = re.sub(r"\s+", " ", visible(text)).split(" ")
    return " ".join(
        _breakable(word) if any(word in each for each in longer) else word.translate(_TABLE) for word in words
    )


def code(text: str) -> str:
    """For one line of code: every space stays."""
    return visible(text).expandtabs().replace("\n", " ").translate(_TABLE | {ord(" "): r"\ "})


def url(url: str) -> str:
    """For the address of ``\\href``: what a URL cannot hold is percent-encoded, what TeX would read is escaped."""
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
