"""Writes a prediction and the value that there is in one notation: the card's format or, without one, the learner's.

Both stay comparable by eye: 0x40 beside 0x40, not beside 64. What is written differently elsewhere, by gdb or by the
learner, is the title of the value.
"""

from __future__ import annotations

import re
from typing import TypedDict

MINUS_SIGNS = "\u2212\u2010\u2011\u2012\u2013"
"""What is pasted from a text in place of ``-``: the minus sign, hyphens and dashes."""

NOTATIONS = ("x", "o", "t", "d", "u", "c")
"""The letters of gdb's print formats that are notations of an integer."""
_BASES = {"z": 16, "o": 8, "t": 2}
"""Of what gdb prints without a prefix that says it."""

_FORMS = {
    "x": r"0[xX][0-9a-fA-F'_]+",
    "t": r"0[bB][01'_]+",
    "o": r"0o[0-7_]+|0[0-7]+",
    "c": r"b?'.*'",
    "d": r"[0-9'_]+",
}
"""How a number is typed in each notation, without sign and suffix."""


class Shown(TypedDict):
    """Both values in one notation. A title is the same value in the other notation; None if there is none."""

    said: str | None
    said_title: str | None
    seen: str | None
    seen_title: str | None


def integer(text: str, letter: str | None = None) -> int | None:
    """The integer that gdb printed, in the card's format ``letter``; None if it is none. For ``97 'a'`` it is 97."""
    match = re.match(r"(-?)(0[xX])?([0-9a-fA-F]+)(?= |$)", text)
    if match is None:
        return None
    base = 16 if match[2] else _BASES.get(letter or "", 10)
    try:
        return int(match[1] + match[3], base)
    except ValueError:
        return None


def typed_in(text: str) -> str | None:
    """The letter of the notation in which the learner typed one number; None if it is no single number."""
    plain = text.strip().lstrip(f"-+{MINUS_SIGNS}")
    for letter, form in _FORMS.items():
        if re.fullmatch(rf"(?:{form})_?(?:[uUlLzZ]*|[iu](?:8|16|32|64|128|size))", plain):
            return letter
    return None


def written(number: int, letter: str, octal: str = "0") -> str | None:
    """The number in a notation. None if it is not written in it: a negative one, except in decimal."""
    if letter in ("d", "u"):
        return str(number)
    if number < 0:
        return None
    match letter:
        case "x" | "z":
            return hex(number)
        case "t":
            return bin(number)
        case "o":
            return f"{octal}{number:o}" if number else "0"
        case "c" if 32 <= number < 127:
            return f"'{chr(number)}'"
    return None


def in_format(text: str, letter: str | None) -> str:
    """A value of the card in the card's format: ``64`` with ``x`` is ``0x40``, and ``101`` with ``t`` is ``0b101``."""
    number = integer(text, letter)
    if number is None or letter not in ("x", "t", "d", "u") or " " in text:
        return text
    return written(number, letter) or text


_NUMBER = re.compile(r"""("(?:\\.|[^"\\])*"|'[^']*')|(?<![\w.'-])(\d+)(?![\w.'])""")


def read_in(reads: str, letter: str | None) -> str:
    """What a learner meant, in the card's format: 64 with ``x`` is ``0x40``, also inside of a structure or an array."""
    if letter not in NOTATIONS or re.match(r"-?\d+ '", reads):  # 97 'a' is a character
        return reads
    return _NUMBER.sub(lambda match: match[1] or written(int(match[2]), letter) or match[2], reads)


def shown(typed: str | None, reads: str | None, seen: str | None, letter: str | None) -> Shown:
    """How to show what the learner ``typed``, which is read as ``reads``, and the value ``seen``; ``letter`` is the
    card's format of the value."""
    mine = typed_in(typed or "")
    there = None if seen is None else integer(seen, letter)
    said = None if reads is None else integer(reads)
    chosen = letter if letter in NOTATIONS else mine or "d"
    other = mine if chosen != mine and mine is not None else "d"
    is_pointer = letter is None and seen is not None and seen.startswith("0x")
    octal = "0o" if "0o" in f"{typed} {seen}" else "0"

    def both(number: int | None, text: str | None, original: str | None) -> tuple[str | None, str | None]:
        """The text to show, and its title."""
        if number is None or text is None or " " in text or is_pointer:
            return text, original if original not in (None, text) else None
        first = written(number, chosen, octal) or text
        titles = (original, text, written(number, other, octal), written(number, "d"))
        return first, next((each for each in titles if each is not None and each != first), None)

    meant = typed if reads is None else read_in(reads, letter) if said is None else reads
    said_text, said_title = both(said, meant, typed.strip() if typed else None)
    seen_text, seen_title = both(there, seen, None)
    return {"said": said_text, "said_title": said_title, "seen": seen_text, "seen_title": seen_title}
