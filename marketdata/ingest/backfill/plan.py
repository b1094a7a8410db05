"""Which blocks are left to read, and for which pools; pure."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

Blocks = tuple[int, int]
"""The first and the last block of a range."""


class Span(NamedTuple):
    """Blocks to read for some pools; ``symbols`` are theirs."""

    first: int
    last: int
    symbols: tuple[str, ...]

    @property
    def blocks(self) -> int:
        return self.last - self.first + 1


def gaps(first: int, last: int, done: Iterable[Blocks]) -> list[Blocks]:
    """What ``done``, in order and without overlaps, leaves of the blocks ``first`` to ``last``."""
    found = []
    for done_first, done_last in done:
        if first < done_first and first <= last:
            found.append((first, min(last, done_first - 1)))
        first = max(first, done_last + 1)
    return [*found, (first, last)] if first <= last else found


def spans(of: Mapping[str, Sequence[Blocks]]) -> list[Span]:
    """The ranges of all symbols, in the order of blocks; those that several symbols share are one."""
    cuts = sorted({cut for ranges in of.values() for first, last in ranges for cut in (first, last + 1)})
    found = []
    for first, after in pairwise(cuts):
        symbols = tuple(
            symbol for symbol, ranges in of.items() if any(low <= first and after - 1 <= high for low, high in ranges)
        )
        if symbols:
            found.append(Span(first, after - 1, symbols))
    return found


class Plan:
    """Hands out the spans in parts, lowest blocks first."""

    def __init__(self, left: Iterable[Span]) -> None:
        self._left = sorted(left)
        self.blocks = sum(span.blocks for span in self._left)

    def take(self, most: int) -> Span | None:
        """The next part, of at most so many blocks; None when nothing is left."""
        if not self._left:
            return None
        span = self._left[0]
        taken = span._replace(last=min(span.last, span.first + most - 1))
        if taken == span:
            del self._left[0]
        else:
            self._left[0] = span._replace(first=taken.last + 1)
        return taken

    def give_back(self, span: Span) -> None:
        """A part that was not read."""
        insort(self._left, span)

    def first(self) -> int | None:
        """The lowest block that is left and not handed out."""
        return self._left[0].first if self._left else None
