"""Font metrics: computes the width of a text, and breaks it into lines.

The sheet model must know the size of a text before the text is typeset. Widths are those of Noto Sans and Noto Sans
Mono in thousandths of an em. Each ASCII character has its exact width; other characters have the width of their class,
rounded up. So a line is never wider than computed, and a frame is never too small. A point is 1/72 inch, as in CSS and
PDF (``bp`` in TeX).

Code within a text has the text's size and the code family. A heading within a text is bold and has the text's size. A
code block has the size "code", and its lines break at the column's edge (``chop``). Text is set ragged right without
hyphenation. Source lines, expressions and values break after blanks or between names (``fold``), before the emitters
get them.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from typing import Literal, get_args

Face = Literal["regular", "strong", "code"]

MM_PER_POINT = 25.4 / 72

SLACK = 0.98
"""Words may fill this share of a line, because renderers round, kern and break slightly differently."""
TAB = 4
"""Columns between tab stops."""

_REGULAR = (
    260, 269, 408, 646, 572, 831, 732, 225, 300, 300, 551, 572, 268, 322, 268, 372, 572, 572, 572, 572, 572, 572, 572,
    572, 572, 572, 268, 268, 572, 572, 572, 434, 899, 639, 650, 632, 730, 556, 519, 728, 741, 339, 273, 619, 524, 907,
    760, 781, 605, 781, 622, 549, 556, 731, 600, 930, 586, 566, 572, 329, 372, 329, 572, 444, 281, 561, 615, 480, 615,
    564, 344, 615, 618, 258, 258, 534, 258, 935, 618, 605, 615, 615, 413, 479, 361, 618, 508, 786, 529, 510, 470, 380,
    551, 380, 572,
)  # fmt: skip
_STRONG = (
    260, 286, 472, 646, 572, 901, 750, 266, 339, 339, 545, 572, 285, 322, 285, 413, 572, 572, 572, 572, 572, 572, 572,
    572, 572, 572, 285, 285, 572, 572, 572, 477, 897, 690, 672, 637, 740, 560, 549, 724, 765, 389, 331, 664, 565, 943,
    813, 796, 628, 796, 660, 551, 579, 756, 650, 967, 667, 624, 579, 331, 413, 331, 572, 411, 362, 604, 633, 514, 633,
    591, 387, 633, 657, 305, 305, 620, 305, 982, 657, 619, 633, 633, 454, 497, 434, 657, 569, 856, 578, 569, 488, 394,
    551, 394, 572,
)  # fmt: skip
_PUNCTUATION = {
    "…": (791, 855), "–": (500, 500), "—": (1000, 1000), "“": (359, 445), "”": (359, 445), "‘": (175, 217),
    "’": (175, 217), "·": (268, 285), "×": (572, 572), "ß": (631, 711),
}  # fmt: skip
_CELL = 600
CELL = _CELL / 1000
"""The advance width of a code character, in ems."""
_WIDE, _OTHER = 1300, 1050
"""Widths of characters outside the tables: full-width characters and emoji, and all others."""


def _advance(char: str, face: Face) -> int:
    """Return the advance width of a character in thousandths of an em. An accented letter is as wide as its base
    letter. A combining mark has no width."""
    if face == "code":
        return _CELL * _cells_of(char)
    place = ord(char) - 32
    if 0 <= place < len(_REGULAR):
        return (_STRONG if face == "strong" else _REGULAR)[place]
    if char in _PUNCTUATION:
        return _PUNCTUATION[char][face == "strong"]
    if unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    base = unicodedata.normalize("NFD", char)[0]
    if base != char:
        return _advance(base, face)
    return max(_WIDE if unicodedata.east_asian_width(char) in "WF" else _OTHER, _CELL * _letter_count(char))


def _letter_count(char: str) -> int:
    """Return the number of letters in a character. An Arabic ligature may consist of a whole phrase."""
    return len(unicodedata.normalize("NFKD", char)) if "\ufbea" <= char <= "\ufdff" else 1


class _Advances(dict[str, int]):
    """Caches the advance widths of one face, because measuring takes most of a layout's time."""

    def __init__(self, face: Face) -> None:
        self._face = face

    def __missing__(self, char: str) -> int:
        self[char] = _advance(char, self._face)
        return self[char]

    def of(self, text: str) -> int:
        return sum(map(self.__getitem__, text))


_IN_CODE_FONTS = re.compile(
    "[\x00-\u052f\u1e00-\u1fff\u2010-\u206f\u20a0-\u20bf\u2190-\u2195\u2500-\u25ff\u2260-\u2265]"
)
"""Characters that code fonts have: Latin, Greek, Cyrillic, punctuation, arrows and box drawing."""
_WORDS = re.compile(r"[^ \t\n]+")
_WIDE_FACES: tuple[Face, ...] = ("strong", "code")
_ADVANCES = {face: _Advances(face) for face in get_args(Face)}


def spaced(text: str) -> str:
    """Replace tabs and line feeds by spaces."""
    return text.replace("\t", " ").replace("\n", " ")


def advances(text: str, face: Face) -> Iterator[int]:
    """Yield the advance width of each character in thousandths of an em. Tabs and line feeds count as spaces."""
    return map(_ADVANCES[face].__getitem__, spaced(text))


@lru_cache(maxsize=4096)
def width(text: str, em: float, face: Face = "regular") -> float:
    """Return the width of ``text`` on one line, in the unit of ``em``. The result is cached, because lines are measured
    when they are broken and again when they are placed, and words recur."""
    return _ADVANCES[face].of(text) * em / 1000


def wrap(text: str, room: float, em: float, face: Face = "regular") -> Iterator[str]:
    """Yield the lines of ``text``, each at most ``room`` wide (in the unit of ``em``). Lines break at spaces. A word
    breaks only if it is wider than a line. A text without words is one empty line."""
    limit = room * 1000 / em
    line, taken = "", 0
    advances = _ADVANCES[face]
    space = advances[" "]
    for word in _WORDS.findall(text):
        long = advances.of(word)
        if line and taken + space + long > limit:
            yield line
            line, taken = "", 0
        if line:
            line, taken = f"{line} {word}", taken + space + long
            continue
        *full, word = broken(word, room, em, face) if long > limit else [word]
        yield from full
        line, taken = word, advances.of(word)
    yield line


def longer_than_a_line(text: str, room: float, em: float) -> frozenset[str]:
    """Return the words that are wider than ``room`` in any face. Only these words may be broken, because renderers do
    not agree on break points within words. They may be broken at any character."""
    limit = room * SLACK
    most = limit * 1000 / (em * _WIDE)
    if len(text) <= most:
        return frozenset()
    long = {word for word in _WORDS.findall(text) if len(word) > most}
    return frozenset(word for word in long if any(width(word, em, face) > limit for face in _WIDE_FACES))


def broken(word: str, room: float, em: float, face: Face = "regular") -> Iterator[str]:
    """Yield ``word`` in segments that are at most ``room`` wide. A segment has at least one character, even if that is
    wider."""
    limit = room * 1000 / em
    start, taken, advances = 0, 0, _ADVANCES[face]
    for place, char in enumerate(word):
        wide = advances[char]
        if taken + wide > limit and place > start:
            yield word[start:place]
            start, taken = place, 0
        taken += wide
    yield word[start:]


# -- code ----------------------------------------------------------------------------------------------------------


def _cells_of(char: str) -> int:
    """Return the number of columns of a character: 0 for a combining mark, 1 if code fonts have the character. Any
    other character comes from another font and gets 2 columns. A ligature of more than 2 letters gets one column for
    each letter."""
    if unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 1 if _IN_CODE_FONTS.match(char) else max(2, _letter_count(char))


def columns(room: float, em: float) -> int:
    """Return how many columns of code fit the width ``room`` (in the unit of ``em``). The result is at least 8, so that
    breaking always progresses."""
    return max(8, int(room * 1000 / em / _CELL + 1e-6))


def chop(line: str, limit: int) -> tuple[str, ...]:
    """Split a line of code into segments of at most ``limit`` columns. Tabs are expanded."""
    line = line.expandtabs(TAB)
    if len(line) <= limit and line.isascii():
        return (line,)
    segments, start, taken = [], 0, 0
    for place, char in enumerate(line):
        wide = _cells_of(char)
        if taken + wide > limit:
            segments.append(line[start:place])
            start, taken = place, 0
        taken += wide
    return (*segments, line[start:])


def fold(line: str, limit: int) -> tuple[str, ...]:
    """Split a line like ``chop``, but between two words where one of these places is in the second half of the segment:
    after the last blank, else at the last border of a name, else after the last underscore."""
    line = line.expandtabs(TAB)
    if len(line) <= limit and line.isascii():
        return (line,)
    segments, start, taken = [], 0, 0
    for place, char in enumerate(line):
        wide = _cells_of(char)
        if taken + wide > limit:
            end = _fold_place(line, start, place)
            segments.append(line[start:end])
            start, taken = end, sum(map(_cells_of, line[end:place]))
        taken += wide
    return (*segments, line[start:])


def _fold_place(line: str, start: int, place: int) -> int:
    """Return where to end a segment that begins at ``start`` and has room up to ``place``."""
    second_half = range(place, (start + place - 1) // 2, -1)
    for is_border in (_is_behind_blank, _is_border_of_name, _is_behind_underscore):
        for end in second_half:
            if is_border(line[end - 1], line[end]) and _cells_of(line[end]):
                return end
    return place


def _is_behind_blank(before: str, _after: str) -> bool:
    return before == " "


def _is_border_of_name(before: str, after: str) -> bool:
    return " " not in (before, after) and _may_be_in_name(before) != _may_be_in_name(after)


def _is_behind_underscore(before: str, _after: str) -> bool:
    return before == "_"


def _may_be_in_name(char: str) -> bool:
    return char == "_" or unicodedata.category(char)[0] in "LNM"
