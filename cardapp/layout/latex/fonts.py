"""Selects the fonts of a document: files of the layout's families, and Noto fonts for other scripts that occur.

Fonts are given as file names, which lualatex finds without its font name database (creating that takes half a minute).
``fonts.tex`` finds out which of them are installed, and which characters they lack, when the document is typeset.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence

FILES = {
    "Noto Sans": "NotoSans",
    "Noto Serif": "NotoSerif",
    "Noto Sans Mono": "NotoSansMono",
    "sans-serif": "NotoSans",
    "serif": "NotoSerif",
    "monospace": "NotoSansMono",
}
"""Families with known file names; lualatex looks up others by the family name."""

_STYLES = {100: "Thin", 200: "ExtraLight", 300: "Light", 400: "Regular", 500: "Medium", 600: "SemiBold", 700: "Bold",
           800: "ExtraBold", 900: "Black"}  # fmt: skip
_PLAIN, _SHAPED = "mode=node;", "mode=harf;"
_ALWAYS = (
    ("NotoSans-Regular.ttf", _PLAIN),
    ("NotoSansMono-Regular.ttf", _PLAIN),
    ("NotoSansMath-Regular.ttf", _PLAIN),
    ("NotoSansSymbols-Regular.ttf", _PLAIN),
    ("NotoSansSymbols2-Regular.ttf", _PLAIN),
    ("NotoColorEmoji.ttf", _SHAPED),
)
_HAN = ("CJK", "KANGXI", "HIRAGANA", "KATAKANA", "HANGUL", "BOPOMOFO", "IDEOGRAPHIC", "HALFWIDTH", "FULLWIDTH")
_IN_THE_FAMILY = ("LATIN", "GREEK", "CYRILLIC", "COMBINING", "MODIFIER")
_LAST_BASIC = 0x17F
_SCRIPT = re.compile("(.+?) (?:LETTER|CHARACTER|VOWEL|SIGN|DIGIT|SYLLABLE|CONSONANT|LIGATURE|POINT|MARK|ACCENT|SYMBOL)")
_JOINED = "+init;+medi;+fina;+isol;+rlig;+calt;"
_FEATURES = {
    # babel reorders right-to-left words before a font in the other mode could shape them.
    "Arabic": f"{_PLAIN}script=arab;{_JOINED}",
    "Syriac": f"{_PLAIN}script=syrc;{_JOINED}",
    "Hebrew": f"{_PLAIN}script=hebr;",
    **{
        script: f"{_SHAPED}script={tag};"
        for script, tag in {
            "Devanagari": "dev2", "Bengali": "bng2", "Gurmukhi": "gur2", "Gujarati": "gjr2", "Oriya": "ory2",
            "Tamil": "tml2", "Telugu": "tel2", "Kannada": "knd2", "Malayalam": "mlm2", "Sinhala": "sinh",
            "Myanmar": "mym2", "Khmer": "khmr", "Thai": "thai", "Tibetan": "tibt",
        }.items()
    },
}  # fmt: skip
"""Font features of scripts whose letters depend on their context."""


def styles(weight: int) -> Sequence[str]:
    """The styles as in file names ("Regular" is 400), ordered by their difference to a weight."""
    return tuple(_STYLES[each] for each in sorted(_STYLES, key=lambda each: abs(each - weight)))


def fallbacks(characters: Iterable[str]) -> Sequence[tuple[str, str]]:
    """Font files with their features, for characters that a text family may lack; fonts for scripts come first."""
    beyond = {char for char in characters if ord(char) > _LAST_BASIC}
    scripts = sorted({script for char in beyond if (script := _script(char))})
    found = [
        (f"{family}{script}-Regular.ttf", _FEATURES.get(script, _SHAPED))
        for script in scripts
        for family in ("NotoSans", "NotoSerif")
    ]
    if any(unicodedata.name(char, "").startswith(_HAN) for char in beyond):
        found.append(("NotoSansCJK-Regular.ttc", _SHAPED))
    return (*found, *_ALWAYS) if beyond else ()


def _script(char: str) -> str:
    """The script of a letter, mark or digit as in Noto's file names, from the character's name; "" if none is
    needed."""
    name = unicodedata.name(char, "")
    if unicodedata.category(char)[0] not in "LMN" or name.startswith(_IN_THE_FAMILY + _HAN):
        return ""
    found = _SCRIPT.match(name)
    return found[1].title().replace(" ", "").replace("-", "") if found else ""
