"""Plans which blocks are left to read for which pools; pure."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Literal, NamedTuple

Blocks = tuple[int, int]
"""The first and the last block of a range, both inclusive."""


class Span(NamedTuple):
    """A range of blocks to read, for the pools with these symbols."""

    first: int
    last: int
    symbols: tuple[str, ...]

    @property
    def blocks(self) -> int:
        return self.last - self.first + 1


class Bounds(NamedTuple):
    """The blocks of a pool to read. ``last`` is lower than ``first`` if there are none. ``end`` says what ends them."""

    first: int
    last: int
    end: Literal["to_block", "final", "ingestor"]


def gaps(first: int, last: int, done: Iterable[Blocks]) -> list[Blocks]:
    """The parts of ``first`` to ``last`` that ``done`` does not cover. ``done`` is sorted and has no overlaps."""
    found = []
    for done_first, done_last in done:
        if first < done_first and first <= last:
            found.append((first, min(last, done_first - 1)))
        first = max(first, done_last + 1)
    return [*found, (first, last)] if first <= last else found


def spans(ranges_of: Mapping[str, Sequence[Blocks]]) -> list[Span]:
    """The ranges of all symbols as spans, sorted by block. Blocks that several symbols need become one span."""
    cuts = sorted({cut for ranges in ranges_of.values() for first, last in ranges for cut in (first, last + 1)})
    found = []
    for first, after in pairwise(cuts):
        symbols = tuple(
            symbol
            for symbol, ranges in ranges_of.items()
            if any(low <= first and after - 1 <= high for low, high in ranges)
        )
        if symbols:
            found.append(Span(first, after - 1, symbols))
    return found


def merged(done: Iterable[Span]) -> list[Span]:
    """The spans, of which adjacent ones of the same symbols are merged."""
    found: list[Span] = []
    for span in sorted(done, key=lambda each: (each.symbols, each.first)):
        if found and found[-1].symbols == span.symbols and found[-1].last == span.first - 1:
            found[-1] = found[-1]._replace(last=span.last)
        else:
            found.append(span)
    return found


class Plan:
    """Hands out the spans in parts, from the lowest block on."""

    def __init__(self, left: Iterable[Span]) -> None:
        self._left = sorted(left)
        self.blocks = sum(span.blocks for span in self._left)

    def take(self, max_blocks: int) -> Span | None:
        """Hand out the next part, of at most ``max_blocks`` blocks; None if nothing is left."""
        if not self._left:
            return None
        span = self._left[0]
        taken = span._replace(last=min(span.last, span.first + max_blocks - 1))
        if taken == span:
            del self._left[0]
        else:
            self._left[0] = span._replace(first=taken.last + 1)
        return taken

    def give_back(self, span: Span) -> None:
        """Return a part that was not read."""
        insort(self._left, span)

    def first(self) -> int | None:
        """The lowest block that is not handed out; None when nothing is left."""
        return self._left[0].first if self._left else None
