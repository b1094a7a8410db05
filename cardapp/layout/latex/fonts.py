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
_ALWAYS = ("NotoSans-Regular.ttf", "NotoSansMono-Regular.ttf", "NotoSansMath-Regular.ttf",
           "NotoSansSymbols-Regular.ttf", "NotoSansSymbols2-Regular.ttf", "NotoColorEmoji.ttf")  # fmt: skip
_HAN = ("CJK", "KANGXI", "HIRAGANA", "KATAKANA", "HANGUL", "BOPOMOFO", "IDEOGRAPHIC", "HALFWIDTH", "FULLWIDTH")
_IN_THE_FAMILY = ("LATIN", "GREEK", "CYRILLIC", "COMBINING", "MODIFIER")
_LAST_BASIC = 0x17F
_SCRIPT = re.compile("(.+?) (?:LETTER|CHARACTER|VOWEL|SIGN|DIGIT|SYLLABLE|CONSONANT|LIGATURE|POINT|MARK|ACCENT|SYMBOL)")


def styles(weight: int) -> Sequence[str]:
    """The styles by their nearness to a weight, as the names of files have them: "Regular" is 400."""
    return tuple(_STYLES[each] for each in sorted(_STYLES, key=lambda each: abs(each - weight)))


def fallbacks(characters: Iterable[str]) -> Sequence[str]:
    """Files of fonts for the characters that a text family may lack, each once, those of scripts first."""
    beyond = {char for char in characters if ord(char) > _LAST_BASIC}
    scripts = sorted({script for char in beyond if (script := _script(char))})
    files = [f"{family}{script}-Regular.ttf" for script in scripts for family in ("NotoSans", "NotoSerif")]
    if any(unicodedata.name(char, "").startswith(_HAN) for char in beyond):
        files.append("NotoSansCJK-Regular.ttc")
    return (*files, *_ALWAYS) if beyond else ()


def _script(char: str) -> str:
    """The script of a letter, mark or digit as Noto writes it, from the character's name; "" where it needs none."""
    name = unicodedata.name(char, "")
    if unicodedata.category(char)[0] not in "LMN" or name.startswith(_IN_THE_FAMILY + _HAN):
        return ""
    found = _SCRIPT.match(name)
    return found[1].title().replace(" ", "").replace("-", "") if found else ""
