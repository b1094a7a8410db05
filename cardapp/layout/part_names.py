"""Gives each part of the sheets a name that is the same in every layout, also after the card's text has changed its
line breaks.

A name is the part's position and kind, ``t1/b1/p1/s1:code``. The second part of the same position and kind is
``t1/b1/p1/s1:code.2``. All pieces of a part that is split between sheets have the same name, and so have the diagrams
into which a large diagram is divided. An annotation names its target by this name. Its vertical positions are fractions
(shares) of the height of the whole part. This height is computed as if the part were not split, and as if all lines of
code and all rows of values had the height of the lowest one. So an annotation stays at its line if the column is
narrower and lines are wrapped.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from math import isclose
from typing import NamedTuple

from cardapp.layout.annotations import Drawn
from cardapp.layout.diagram.shapes import Diagram, Point
from cardapp.layout.measure import Measure
from cardapp.layout.sheets import Code, Document, Machine, Part, Sheet

_DIGITS = 6
"""Shares are rounded to this number of decimal places, as on the page."""


class Piece(NamedTuple):
    """All of the part ``name``, or the piece of it on one sheet, in the coordinates of annotations. Each of ``shares``,
    a fraction of the whole part's height, is at the fraction of the piece's height with the same index in ``heights``.
    Positions in between are interpolated. The caption and the mark of a piece, which the whole part lacks, are above
    and below this range."""

    name: str
    shares: tuple[float, ...] = (0.0, 1.0)
    heights: tuple[float, ...] = (0.0, 1.0)

    @property
    def is_even(self) -> bool:
        """Whether a fraction of the whole part is the same fraction of this piece."""
        return self.shares == self.heights == (0.0, 1.0)

    @property
    def is_split(self) -> bool:
        return self.shares[0] > 0 or self.shares[-1] < 1

    def shown(self, drawn: Drawn) -> Drawn | None:
        """The annotation with its places as fractions of this piece's size, or None if the piece does not show it. Only
        one piece has the text."""
        ends = [y for _, y in drawn.points]
        below = round(drawn.place.y, _DIGITS)
        text = drawn.text if self._has(below, below) else ""
        if not text and not self._has(min(ends), max(ends)):
            return None
        return drawn._replace(points=tuple(map(self._at, drawn.points)), text=text, place=self._at(drawn.place))

    def _has(self, top: float, bottom: float) -> bool:
        """Whether a shape between these shares of the whole part is on this piece. A shape that ends where the piece
        begins is not."""
        first, last = self.shares[0], self.shares[-1]
        return (bottom > first or first == 0) and (top < last or bottom <= last or last == 1)

    def _at(self, point: Point) -> Point:
        upper = min(max(1, bisect_right(self.shares, point.y)), len(self.shares) - 1)
        (start, end), (top, bottom) = self.shares[upper - 1 : upper + 1], self.heights[upper - 1 : upper + 1]
        return Point(point.x, top + (point.y - start) / (end - start) * (bottom - top))


def part_names(document: Document) -> frozenset[str]:
    """The names of all parts."""
    return frozenset(chain.from_iterable(_names(document.sheets)))


def pieces(document: Document) -> list[list[Piece]]:
    """The parts of each sheet, in reading order."""
    names, measure = _names(document.sheets), Measure(document.layout)
    parts: dict[str, list[Part]] = defaultdict(list)
    for sheet, row in zip(document.sheets, names, strict=True):
        for part, name in zip(sheet.parts, row, strict=True):
            parts[name].append(part)
    found = {name: _pieces(name, of_name, measure) for name, of_name in parts.items()}
    return [[next(found[name]) for name in row] for row in names]


def _names(sheets: Iterable[Sheet]) -> list[list[str]]:
    seen: Counter[str] = Counter()
    found = []
    for sheet in sheets:
        row = []
        for part in sheet.parts:
            name = f"{part.key}:{part.kind}"
            seen[name] += not (part.continued or (isinstance(part.content, Diagram) and seen[name]))
            row.append(name if seen[name] == 1 else f"{name}.{seen[name]}")
        found.append(row)
    return found


def _pieces(name: str, parts: Sequence[Part], measure: Measure) -> Iterator[Piece]:
    """Yield the pieces of one part."""
    rows = [_rows(part, measure) for part in parts]
    if len(parts) == 1 and len(set(rows[0])) < 2:
        yield Piece(name)
        return
    above = [measure.padding(part.kind) + measure.label_height(part.kind, part.caption) for part in parts]
    if not all(rows):
        rows = [[_other_height(part, top, measure)] for part, top in zip(parts, above, strict=True)]
        shares = rows
    else:
        shares = [[min(chain(*rows))] * len(each) for each in rows]
    # The whole part has the caption of the first piece, and the space below the content of the last piece.
    below = parts[-1].frame.height - above[-1] - sum(rows[-1])
    at, whole = above[0], above[0] + sum(chain(*shares)) + below
    for place, part in enumerate(parts):
        knots = [(at, above[place])] if place else [(0.0, 0.0), (at, at)]
        for share, height in zip(shares[place], rows[place], strict=True):
            knots.append((knots[-1][0] + share, knots[-1][1] + height))
        at = knots[-1][0]
        if place == len(parts) - 1:
            knots.append((whole, part.frame.height))
        rounded = [(round(x / whole, _DIGITS), round(y / part.frame.height, _DIGITS)) for x, y in knots]
        at_shares, at_heights = zip(*_bends(rounded), strict=True)
        yield Piece(name, at_shares, at_heights)


def _rows(part: Part, measure: Measure) -> list[float]:
    """The heights of the lines of code or rows of values; empty for other parts."""
    match part.content:
        case Code(lines=lines):
            height = measure.line(measure.component("code").size)
            return [len(line.segments) * height for line in lines]
        case Machine(rows=rows):
            return [measure.row_height(row) for row in rows]
        case _:
            return []


def _other_height(part: Part, above: float, measure: Measure) -> float:
    """The height of the content of a part that has neither lines nor rows."""
    return part.frame.height - above - measure.label_height(part.kind, part.mark) - measure.padding(part.kind)


def _bends(knots: Iterable[tuple[float, float]]) -> Iterator[tuple[float, float]]:
    """Yield the first and the last knot, and the knots at which the slope changes. Knots at the same place count
    once."""
    first, *others = dict(knots).items()
    yield first
    for before, knot, after in zip([first, *others], others, others[1:], strict=False):
        if not isclose(_growth(before, knot), _growth(knot, after), rel_tol=1e-3):
            yield knot
    yield others[-1]


def _growth(first: tuple[float, float], last: tuple[float, float]) -> float:
    return (last[1] - first[1]) / (last[0] - first[0])
