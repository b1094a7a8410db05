"""Text in diagrams: type sizes, breaking into lines, and positioning of lines."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from cardapp.layout.diagram.shapes import Anchor, Text, Tone
from cardapp.layout.escape import visible
from cardapp.layout.font_metrics import Face, columns, fold, spaced, width, wrap

NAME, SMALL = 2.5, 2.15
"""Type sizes in mm of names and of other texts: 7.1 and 6.1 points."""

ELLIPSIS = "…"
_LEADING = 1.28
_CAPITAL = 0.714
"""The height of a capital letter in ems. Lines are centred by this height."""


@lru_cache(maxsize=4096)
def plain(text: str) -> str:
    """Return a title as one line of visible characters."""
    return " ".join(visible(text).split())


def broken(text: str, room: float, em: float, face: Face = "regular", max_lines: int = 3) -> tuple[str, ...]:
    """Break ``text`` into at most ``max_lines`` lines of at most ``room`` mm. A shortened text ends with an ellipsis.
    The result for "" is ()."""
    if width(text, em, face) <= room:
        return (text,) if text else ()
    lines: list[str] = []
    for line in wrap(text, room, em, face):
        if len(lines) == max_lines:
            lines[-1] = _shortened(lines[-1], room, em, face)
            break
        lines.append(line)
    return tuple(line for line in lines if line)


def one_line(text: str, room: float, em: float, face: Face = "regular") -> str:
    """Return ``text`` on one line of at most ``room`` mm. A shortened text ends with an ellipsis."""
    return next(iter(broken(text, room, em, face, max_lines=1)), "")


def code_line(code: str, room: float, em: float) -> str:
    """Return code on one line of at most ``room`` mm, with all its blanks. Shortened code ends with an ellipsis."""
    line = spaced(visible(code))
    return line if width(line, em, "code") <= room else _shortened(line[: columns(room, em)], room, em, "code")


def code_lines(code: str, room: float, em: float, max_lines: int) -> tuple[str, ...]:
    """Break code between its words into at most ``max_lines`` lines of at most ``room`` mm. Shortened code ends with an
    ellipsis."""
    *lines, last = fold(code, columns(room, em))[: max_lines + 1]
    if len(lines) < max_lines:
        lines.append(last)
    else:
        lines[-1] = _shortened(lines[-1], room, em, "code")
    return tuple(line.rstrip() for line in lines)


def _shortened(line: str, room: float, em: float, face: Face) -> str:
    while line and width(line + ELLIPSIS, em, face) > room:
        line = line[:-1]
    return line.rstrip() + ELLIPSIS


def height(count: int, em: float) -> float:
    """Return the height of ``count`` lines."""
    return count * em * _LEADING


def below(
    lines: Sequence[str], x: float, top: float, em: float, face: Face = "regular", anchor: Anchor = "start",
    tone: Tone = "ink",
) -> tuple[Text, ...]:  # fmt: skip
    """Place lines one below the other, beginning at the y position ``top``."""
    first = top + em * (_LEADING + _CAPITAL) / 2
    return tuple(
        Text(line, x, first + number * em * _LEADING, em, width(line, em, face), face, anchor, tone)
        for number, line in enumerate(lines)
    )


def centred(
    lines: Sequence[str], x: float, middle: float, em: float, face: Face = "regular", anchor: Anchor = "middle",
    tone: Tone = "ink",
) -> tuple[Text, ...]:  # fmt: skip
    """Place lines one below the other, vertically centred at the y position ``middle``."""
    return below(lines, x, middle - height(len(lines), em) / 2, em, face, anchor, tone)
