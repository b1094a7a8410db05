"""Widths of type, and the distances that sheet model and emitters share.

The model must know how much room a text takes before anybody sets it. Widths are those of Noto Sans and Noto Sans Mono
in thousandths of the em, by character for ASCII and by class, rounded up, for all else; so lines are never longer than
reckoned, and a part's frame is never too small. A point is 1/72 inch, as in CSS and PDF (TeX calls it ``bp``).

Within a text, code has the text's size in the code family, a heading is a strong line of the text's size, a block of
code has the size "code" and breaks at the column's edge (``chop``), text is set ragged right without hyphens. Lines of
a source file, expressions and values break behind blanks (``fold``), and emitters get their pieces.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from typing import Literal, get_args

Face = Literal["regular", "strong", "code"]

MM_PER_POINT = 25.4 / 72

PADDING = 1.6
"""Between the frame of a part that has a background and what it holds, on all four sides, in mm."""
RULE, RULE_GAP = 0.6, 1.8
"""A component's rule: how thick the line at the left edge is, and its distance from what it marks, in mm."""
CAPTION_GAP = 0.6
"""Below a part's caption and above its mark, in mm."""
PARAGRAPH_GAP = 0.5
"""Between two paragraphs or other blocks of one text, as a factor of the line's height."""
ITEM_GAP = 0.15
"""Between two items of a list whose paragraphs are tight, likewise."""
INDENT, INDENTED_LEVELS = 4.0, 4
"""Of a list, a quotation and a block of code, in mm; what stands deeper is not indented further."""
ANSWER_LINE = 7.5
"""Height of an empty line to write on, in mm."""
BLANK = 6.0
"""Height of a box to write a value in, in mm."""
TABLE_SHARE = 0.6
"""Of a table's width that the expressions of a machine part take; their values take the rest."""
TABLE_GAP = 1.2
"""Between the two columns of a table and between any of its rows' text and rule, in mm."""
SLACK = 0.98
"""Of a line of words that is filled at most: renderers round, kern and break a little differently."""
TAB = 4
"""Columns between the tab stops of a source file."""

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
"""The advance of code, in ems."""
_WIDE, _OTHER = 1300, 1050
"""Beyond the tables: a full-width character or an emoji in whatever font has it, and any other character."""


def _unit(char: str, face: Face) -> int:
    """The advance of one character in thousandths of the em. A letter with an accent is as wide as without; what only
    marks another character takes no room."""
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
        return _unit(base, face)
    return max(_WIDE if unicodedata.east_asian_width(char) in "WF" else _OTHER, _CELL * _letters(char))


def _letters(char: str) -> int:
    """How many letters are drawn as this one: of Arabic's ligatures, some of which are whole phrases, those that they
    are made of."""
    return len(unicodedata.normalize("NFKD", char)) if "\ufbea" <= char <= "\ufdff" else 1


class _Advances(dict[str, int]):
    """The advances of one face, reckoned once for each character that comes: most of a layout's time is spent here."""

    def __init__(self, face: Face) -> None:
        self._face = face

    def __missing__(self, char: str) -> int:
        self[char] = _unit(char, self._face)
        return self[char]

    def of(self, text: str) -> int:
        return sum(map(self.__getitem__, text))


_OF_CODE = re.compile("[\x00-\u052f\u1e00-\u1fff\u2010-\u206f\u20a0-\u20bf\u2190-\u2195\u2500-\u25ff\u2260-\u2265]")
"""Latin, Greek, Cyrillic, punctuation and what boxes and arrows are drawn with."""
_WORDS = re.compile(r"[^ \t\n]+")
_WIDE_FACES: tuple[Face, ...] = ("strong", "code")
_ADVANCES = {face: _Advances(face) for face in get_args(Face)}


def spaced(text: str) -> str:
    """With a space for every blank."""
    return text.replace("\t", " ").replace("\n", " ")


def advances(text: str, face: Face) -> Iterator[int]:
    """Those of its characters in thousandths of the em; any blank is a space."""
    return map(_ADVANCES[face].__getitem__, spaced(text))


@lru_cache(maxsize=4096)
def width(text: str, em: float, face: Face = "regular") -> float:
    """How long ``text`` is on one line, in the unit of ``em``. Kept, as lines are measured to be broken and again to be
    placed, and the words of a card recur."""
    return _ADVANCES[face].of(text) * em / 1000


def wrap(text: str, room: float, em: float, face: Face = "regular") -> Iterator[str]:
    """The lines of ``text`` where each may be ``room`` long (in the unit of ``em``): broken at spaces, and within a
    word where that alone is longer than a line. A text without a word is one empty line."""
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
    """The words that may be longer than ``room`` in one of the faces: only these may be broken, and anywhere, for no
    renderer breaks them where another does."""
    limit = room * SLACK
    most = limit * 1000 / (em * _WIDE)
    if len(text) <= most:
        return frozenset()
    long = {word for word in _WORDS.findall(text) if len(word) > most}
    return frozenset(word for word in long if any(width(word, em, face) > limit for face in _WIDE_FACES))


def broken(word: str, room: float, em: float, face: Face = "regular") -> Iterator[str]:
    """``word`` in pieces that are at most ``room`` long, yet at least one character."""
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
    """One for what fonts for code have; any other character is as wide as its own font makes it: at most two, if it is
    one letter."""
    if unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 1 if _OF_CODE.match(char) else max(2, _letters(char))


def columns(room: float, em: float) -> int:
    """How many columns of code fit in ``room`` (in the unit of ``em``); at least 8, so that a line always goes on."""
    return max(8, int(room * 1000 / em / _CELL + 1e-6))


def chop(line: str, limit: int) -> tuple[str, ...]:
    """A line of code in pieces of at most ``limit`` columns, its tabs turned to spaces; nothing else is changed."""
    line = line.expandtabs(TAB)
    if len(line) <= limit and line.isascii():
        return (line,)
    pieces, start, taken = [], 0, 0
    for place, char in enumerate(line):
        wide = _cells_of(char)
        if taken + wide > limit:
            pieces.append(line[start:place])
            start, taken = place, 0
        taken += wide
    return (*pieces, line[start:])


def fold(line: str, limit: int) -> tuple[str, ...]:
    """As ``chop``, yet behind the last blank of a piece where that is in its second half: most words stay whole."""
    line = line.expandtabs(TAB)
    if len(line) <= limit and line.isascii():
        return (line,)
    pieces, start, taken, blank = [], 0, 0, 0
    for place, char in enumerate(line):
        wide = _cells_of(char)
        if taken + wide > limit:
            end = blank if 2 * (blank - start) > place - start else place
            pieces.append(line[start:end])
            start, taken = end, sum(map(_cells_of, line[end:place]))
        taken += wide
        blank = place + 1 if char == " " else blank
    return (*pieces, line[start:])
