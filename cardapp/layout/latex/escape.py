"""One escape per context of LaTeX: text, code, URL. What comes out holds no character that TeX takes for a command.

Each takes any string and adds no line break, so it may stand in an argument. Characters that no output can show have
become visible marks (``visible``); those that only the fonts lack are found when the document is set (``fonts.tex``).
"""

from __future__ import annotations

import re

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
_LONG_WORD = re.compile(r"\S{17,}")
_URL_CHARACTERS = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~:/?#[]@!$&'()*+,;=%")
_URL_SPECIAL = {"%": r"\%", "#": r"\#", "&": r"\&", "$": r"\$", "_": r"\_", "~": r"\string~"}


def line(text: str) -> str:
    """For text that is never broken: a bookmark, a document's property, a word in a picture."""
    return " ".join(visible(text).split()).translate(_TABLE)


def text(text: str) -> str:
    """For running text. White space is one space, as in TeX; a word that may be longer than its column can be broken
    anywhere (``\\CardBreak``)."""
    pieces: list[str] = []
    start = 0
    plain = re.sub(r"\s+", " ", visible(text))
    for word in _LONG_WORD.finditer(plain):
        pieces += [plain[start : word.start()].translate(_TABLE), _breakable(word[0])]
        start = word.end()
    return "".join([*pieces, plain[start:].translate(_TABLE)])


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
    return r"\CardBreak{}".join(_SPECIAL.get(char, char) for char in word)
