"""Shortens long values for a terminal to what tells them apart."""

from __future__ import annotations

from itertools import takewhile

WIDTH = 100
"""A value up to this number of characters is shown as a whole."""
_CONTEXT = 30


def shortened(value: str) -> str:
    """The beginning of a long value."""
    return value if len(value) <= WIDTH else f"{value[:WIDTH]}…"


def difference(one: str, other: str) -> tuple[str, str]:
    """Two values without most of what they have in common at their beginnings and ends, if one of them is long."""
    if max(len(one), len(other)) <= WIDTH:
        return one, other
    begin = _shared(one, other)
    tail = min(_shared(one[::-1], other[::-1]), len(one) - begin, len(other) - begin)
    return _part(one, begin, len(one) - tail), _part(other, begin, len(other) - tail)


def _shared(one: str, other: str) -> int:
    """How many characters two texts have in common at their beginnings."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _part(value: str, begin: int, end: int) -> str:
    begin, end = max(begin - _CONTEXT, 0), min(end + _CONTEXT, len(value))
    return f"{'…' * (begin > 0)}{shortened(value[begin:end])}{'…' * (end < len(value) and end - begin <= WIDTH)}"
