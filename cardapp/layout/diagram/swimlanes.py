"""Lays out a sequential flow in swimlanes, from left to right and line by line, with the lanes' names at the left.

An arrow back to the left runs between two lines or lanes, where there is no shape.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from cardapp.layout.diagram.flow_nodes import CIRCLE, EDGE, LEG, Lane, final, incoming, initial, outgoing
from cardapp.layout.diagram.shapes import Box, Diagram, Edge, Node, Partition, Point, Room
from cardapp.layout.diagram.text_lines import NAME, broken, centred, height, plain

MIN_WIDTH = 100.0
"""Minimum width in mm. For a smaller width, ``column_flow`` gives a better layout."""

_MIN_CELL, _MAX_CELL = 26.0, 46.0
_HEAD_SHARE, _MAX_HEAD = 0.19, 36.0
"""A lane's name gets this share of the width, but at max_cells this many mm."""
_INSET = 3.6
"""Distance between a lane's name and its first cell, and between its last cell and the lane's right edge. It is also
the padding around the name."""
_ACROSS = 6.4
"""Length of the arrow between cells."""
_PADDING, _BETWEEN, _LINE = 2.6, 4.8, 6.0
"""Space above and below the cells of a lane, between lanes, and between the lines of a lane."""
_TURN = 2.2
"""Distance from a lane or line to the arrow back below it."""


@dataclass(frozen=True)
class Cell:
    """A shape of the flow: its minimum height, and the function that draws the shape in a box."""

    height: float
    draw: Callable[[Box], Node]


@dataclass(frozen=True)
class Swimlanes:
    """A flow. ``lanes`` makes the lanes and their cells for a cell width. ``max_cells`` is the maximum number of cells
    in a lane."""

    id: str
    title: str
    description: str
    lanes: Callable[[float], Iterable[tuple[Lane, Sequence[Cell]]]]
    max_cells: int


@dataclass(frozen=True)
class _Line:
    """Cells side by side. ``continued`` is true for the second and further lines of a lane."""

    lane: Lane
    continued: bool
    cells: Sequence[Cell]
    head: tuple[str, ...]
    height: float


def laid_out(flow: Swimlanes, room: Room) -> tuple[Diagram, ...]:
    """Lay out the flow with its initial and final node, in as many diagrams as the room requires."""
    sized = _SizedFlow(flow, room.width)
    pages = list(sized.pages(room.height))
    return tuple(_Page(sized, lines, number, number == len(pages)).diagram() for number, lines in enumerate(pages, 1))


class _SizedFlow:
    """The flow at one width, divided into lines."""

    def __init__(self, flow: Swimlanes, width: float) -> None:
        self.flow = flow
        self.width = width
        self.head = min(_MAX_HEAD, _HEAD_SHARE * width)
        self.left = EDGE + self.head + _INSET
        inner = width - EDGE - _INSET - self.left
        count = max(1, min(flow.max_cells, int((inner + _ACROSS) / (_MIN_CELL + _ACROSS))))
        self.cell = min(_MAX_CELL, (inner - (count - 1) * _ACROSS) / count)
        self.lines = tuple(line for lane, cells in flow.lanes(self.cell) for line in self._lines(lane, cells, count))

    def _lines(self, lane: Lane, cells: Sequence[Cell], count: int) -> Iterator[_Line]:
        for start in range(0, len(cells), count):
            title = f"{plain(lane.title)} (continued)" if start else plain(lane.title)
            head = broken(title, self.head - _INSET, NAME, "strong", max_lines=4)
            some = cells[start : start + count]
            least = height(len(head), NAME) + 1 - 2 * _PADDING
            yield _Line(lane, start > 0, some, head, max(least, *(cell.height for cell in some)))

    def pages(self, limit: float) -> Iterator[list[_Line]]:
        """Yield the lines of each diagram, and leave space for a connector above and below."""
        page: list[_Line] = []
        end = top = EDGE + CIRCLE
        for line in self.lines:
            continued = bool(page) and line.continued
            taken = _LINE + line.height if continued else _BETWEEN + 2 * _PADDING + line.height
            if page and end + taken > limit - EDGE - LEG - CIRCLE:
                yield page
                page, end, taken = [], top, _BETWEEN + 2 * _PADDING + line.height
            page.append(line)
            end += taken
        yield page


@dataclass(frozen=True)
class _Band:
    """The part of a lane in a diagram. ``first`` is the lane's first line in this diagram."""

    first: _Line
    top: float
    bottom: float


@dataclass(frozen=True)
class _Page:
    """The lines of one diagram; ``number`` counts the diagrams of the flow from 1."""

    sized: _SizedFlow
    lines: Sequence[_Line]
    number: int
    last: bool

    def diagram(self) -> Diagram:
        flow = self.sized.flow
        nodes, edges, bands = [self._start_node()], list[Edge](), list[_Band]()
        for line in self.lines:
            end = bands[-1].bottom if bands else nodes[0].box.bottom
            continued = line.continued and bool(bands)
            low = end - _PADDING if continued else end
            top = low + _LINE if continued else low + _BETWEEN + _PADDING
            for node in self._placed(line, top):
                edges.append(_joined(nodes[-1], node, low + _TURN))
                nodes.append(node)
            start = bands.pop() if continued else _Band(line, top - _PADDING, 0)
            bands.append(replace(start, bottom=top + line.height + _PADDING))
        nodes.append(self._end_node(nodes[-1], bands[-1].bottom if bands else nodes[0].box.bottom))
        edges.append(_joined(nodes[-2], nodes[-1], nodes[-1].box.y))
        suffix, title = (f".{self.number}", f" ({self.number})") if self.number > 1 else ("", "")
        return Diagram(
            id=flow.id + suffix,
            title=flow.title + title,
            description=flow.description,
            width=self.sized.width,
            height=nodes[-1].box.bottom + EDGE,
            nodes=tuple(nodes),
            edges=tuple(edges),
            partitions=tuple(self._lane(band) for band in bands),
        )

    def _start_node(self) -> Node:
        axis = self.sized.left + self.sized.cell / 2
        return initial(axis, EDGE) if self.number == 1 else incoming(axis, EDGE, self.number - 1)

    def _end_node(self, before: Node, bottom: float) -> Node:
        axis = before.box.x + before.box.width / 2
        return final(axis, bottom + LEG) if self.last else outgoing(axis, bottom + LEG, self.number)

    def _placed(self, line: _Line, top: float) -> Iterator[Node]:
        for place, cell in enumerate(line.cells):
            x = self.sized.left + place * (self.sized.cell + _ACROSS)
            yield cell.draw(Box(x, top, self.sized.cell, line.height))

    def _lane(self, band: _Band) -> Partition:
        lane, tall = band.first.lane, band.bottom - band.top
        box = Box(EDGE, band.top, self.sized.width - 2 * EDGE, tall)
        head = Box(EDGE, band.top, self.sized.head, tall)
        lines = centred(band.first.head, EDGE + _INSET / 2, head.centre.y, NAME, "strong", "start", "accent")
        return Partition(lane.key, box, head, plain(lane.title), lines, lane.key)


def _joined(source: Node, target: Node, turn: float) -> Edge:
    """Draw an arrow to the right, straight down, or back to the left at the y position ``turn``."""
    start, end = source.box.centre, target.box.centre
    if start.y == end.y:
        path: tuple[Point, ...] = (Point(source.box.right, start.y), Point(target.box.x, end.y))
    elif start.x == end.x:
        path = (Point(start.x, source.box.bottom), Point(end.x, target.box.y))
    else:
        down, back = Point(start.x, turn), Point(end.x, turn)
        path = (Point(start.x, source.box.bottom), down, back, Point(end.x, target.box.y))
    return Edge(source.id, target.id, path)
