"""The fonts of a document: files of the layout's families, and of Noto's other scripts for the characters that occur.

Fonts are named by their files, which lualatex finds without its data base of names (making that takes half a minute).
Which of them the machine has, and which characters they lack, is seen when the document is set (``fonts.tex``).
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
"""Families whose files have names that are known; others are looked for by their own name."""

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
    # Words that run from the right are turned by babel, before a font of the other mode could shape them.
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
"""Of the scripts whose letters change with their neighbours."""


def styles(weight: int) -> Sequence[str]:
    """The styles by their nearness to a weight, as the names of files have them: "Regular" is 400."""
    return tuple(_STYLES[each] for each in sorted(_STYLES, key=lambda each: abs(each - weight)))


def fallbacks(characters: Iterable[str]) -> Sequence[tuple[str, str]]:
    """Files of fonts, each with its features, for the characters that a text family may lack; scripts come first."""
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
    """The script of a letter, mark or digit as Noto writes it, from the character's name; "" where it needs none."""
    name = unicodedata.name(char, "")
    if unicodedata.category(char)[0] not in "LMN" or name.startswith(_IN_THE_FAMILY + _HAN):
        return ""
    found = _SCRIPT.match(name)
    return found[1].title().replace(" ", "").replace("-", "") if found else ""
