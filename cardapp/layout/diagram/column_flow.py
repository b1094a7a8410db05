"""Lays out a sequential flow in columns from top to bottom, in several diagrams if necessary.

The layout uses as few columns as possible without making the diagram too high, and balances their heights. Arrows from
column to column run in the gutters and above and below all shapes, so that they cross nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from cardapp.layout.diagram.flow_nodes import CIRCLE, DISC, EDGE, LEG, Lane, final, incoming, initial, outgoing
from cardapp.layout.diagram.shapes import MIN_HEIGHT, Box, Diagram, Edge, Node, Partition, Point, Room, Text
from cardapp.layout.diagram.text_lines import NAME, below, broken, height, plain

GUTTER = 7.0
MIN_COLUMN, MAX_COLUMN = 44.0, 72.0
_MAX_ASPECT = 0.8
"""A diagram gets another column if it would be higher than this factor of the available width."""
_TURN = 2.2
"""Vertical distance from the last shape of a column to the horizontal part of the arrow that leaves it."""
_ENTRY = 3.4
"""Distance from the top to the first shape of a column, except in the first column."""
_FOOT, _BETWEEN = 2.2, 2.6
"""Space below the last shape of a lane, and between two lanes."""
_HEAD_PADDING = 1.2


class ItemShapes(NamedTuple):
    """The shapes of an item. The flow enters the first node and leaves the last one. ``entry`` and ``leave`` are the
    texts beside these two arrows."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...] = ()
    entry: tuple[Text, ...] = ()
    leave: tuple[Text, ...] = ()


class FlowItem(NamedTuple):
    """An indivisible item of the flow. ``height`` includes ``gap``, the length of the arrow that enters the item.
    ``draw`` makes the shapes, from the point (x, y) downward."""

    gap: float
    height: float
    draw: Callable[[float, float], ItemShapes]
    lane: Lane | None = None


@dataclass(frozen=True)
class ColumnFlow:
    """A flow. ``items`` makes the items for a given width of the shapes. ``left`` and ``right`` are the spaces that a
    column needs beside the shapes."""

    id: str
    title: str
    description: str
    items: Callable[[float], Iterable[FlowItem]]
    left: float = EDGE
    right: float = EDGE


def laid_out(flow: ColumnFlow, room: Room) -> tuple[Diagram, ...]:
    """Lay out the flow with its initial and final node: in one diagram if it fits the room, otherwise in several
    diagrams with connectors."""
    max_columns = max(1, int((room.width + GUTTER) / (MIN_COLUMN + GUTTER)))
    preferred_height = min(room.height, max(MIN_HEIGHT, _MAX_ASPECT * room.width))
    sized = _SizedFlow(flow, min(MAX_COLUMN, room.width))
    for count in range(min(sized.least_count(preferred_height), max_columns), max_columns + 1):
        sized = sized.narrowed(min(MAX_COLUMN, (room.width - (count - 1) * GUTTER) / count))
        limit = room.height if count == max_columns else preferred_height
        columns = sized.packed(count, limit)
        if len(columns) <= count:
            return (_Page(sized, sized.balanced(count, limit), 1, last=True).diagram(),)
    pages = [columns[start : start + max_columns] for start in range(0, len(columns), max_columns)]
    return tuple(_Page(sized, page, number, number == len(pages)).diagram() for number, page in enumerate(pages, 1))


class _Column(NamedTuple):
    """The items from number ``start`` up to ``stop``. They are placed from the y position ``top`` to ``end``."""

    start: int
    stop: int
    top: float
    end: float


class _SizedFlow:
    """The flow at one column width: the height of each item, and its distance to the previous item."""

    def __init__(self, flow: ColumnFlow, column: float) -> None:
        self.flow = flow
        self.column = column
        shape_width = column - flow.left - flow.right
        self.axis = flow.left + shape_width / 2
        self.head_width = self.axis - 1.6
        self.items = (_initial(), *flow.items(shape_width), _final())
        self._heads: dict[tuple[str, bool], tuple[str, ...]] = {}
        previous = (None, *(item.lane for item in self.items))
        self._same_lane = [
            lane is not None and item.lane is lane for item, lane in zip(self.items, previous, strict=False)
        ]
        self.shift = [self._shift(number) for number in range(len(self.items))]
        """The extra space above an item that begins a lane or a column, for the lane's name. One number per item."""
        foot = [_FOOT if item.lane else 0.0 for item in self.items]
        self._height = [item.height + below for item, below in zip(self.items, foot, strict=True)]
        self._drop = [
            -_FOOT if same_lane else _BETWEEN + shift if item.lane else 0.0
            for item, same_lane, shift in zip(self.items, self._same_lane, self.shift, strict=True)
        ]

    def narrowed(self, column: float) -> _SizedFlow:
        return self if column == self.column else _SizedFlow(self.flow, column)

    def least_count(self, limit: float) -> int:
        """Return a lower bound of the number of columns, at this or a smaller width."""
        return int(sum(item.height for item in self.items) / limit) + 1

    def head(self, number: int) -> tuple[str, ...]:
        """Return the lines of the name of an item's lane, left of the arrow. They are shown if the item begins the lane
        or a column."""
        lane, same_lane = self.items[number].lane, self._same_lane[number]
        if lane is None:
            return ()
        if (lane.key, same_lane) not in self._heads:
            title = f"{plain(lane.title)} (continued)" if same_lane else plain(lane.title)
            self._heads[lane.key, same_lane] = broken(title, self.head_width - 2 * _HEAD_PADDING, NAME, "strong")
        return self._heads[lane.key, same_lane]

    def _shift(self, number: int) -> float:
        head = self.head(number)
        return max(0.0, height(len(head), NAME) + _HEAD_PADDING + 1 - self.items[number].gap) if head else 0.0

    def packed(self, count: int, limit: float) -> list[_Column]:
        """Divide the items into columns, for diagrams of ``count`` columns and the height ``limit``. If one diagram is
        not enough, leave space for the connectors."""
        columns = self._filled(limit, lambda index: (_ENTRY if index else EDGE, _TURN if count > 1 else 0.0))
        if len(columns) <= count:
            return columns
        connector_space = CIRCLE + LEG + EDGE

        def bounds(index: int) -> tuple[float, float]:
            first, last = index % count == 0 and index > 0, index % count == count - 1
            top = connector_space if first else _ENTRY if index else EDGE
            return top, connector_space if last else _TURN

        return self._filled(limit, bounds)

    def balanced(self, count: int, limit: float) -> list[_Column]:
        """Divide the items into at most ``count`` columns of about the minimum height."""
        low, high = limit / (2 * count), limit
        for _halving in range(7 if count > 1 else 0):
            middle = (low + high) / 2
            columns = self.packed(count, middle)
            fits = len(columns) <= count and all(column.end <= middle for column in columns)
            low, high = (low, middle) if fits else (middle, high)
        return self.packed(count, high)

    def _filled(self, limit: float, bounds: Callable[[int], tuple[float, float]]) -> list[_Column]:
        """Fill columns of the height ``limit``. ``bounds`` returns where a column begins, and the space that an arrow
        to the next column needs below it. No arrow leaves the final node."""
        columns: list[_Column] = []
        start, (top, arrow) = 0, bounds(0)
        end = top + self.shift[0] + self._height[0]
        for number in range(1, len(self.items)):
            lower = end + self._drop[number] + self._height[number]
            if lower > limit - EDGE - (arrow if number < len(self.items) - 1 else 0.0):
                columns.append(_Column(start, number, top, end))
                start, (top, arrow) = number, bounds(len(columns))
                lower = top + self.shift[number] + self._height[number]
            end = lower
        return [*columns, _Column(start, len(self.items), top, end)]

    def tops(self, column: _Column) -> Iterator[tuple[int, float]]:
        """Yield the number of each item of a column, and the y position at which the item begins."""
        end = column.top
        for number in range(column.start, column.stop):
            top = end + (self.shift[number] if number == column.start else self._drop[number])
            yield number, top
            end = top + self._height[number]

    def bands(self, column: _Column) -> Iterator[tuple[int, float, float]]:
        """Yield the part of each lane in a column: the number of its first item, its top and its bottom."""
        first, begin, end = column.start, column.top, column.top
        for number, top in self.tops(column):
            if number > column.start and not self._same_lane[number]:
                yield first, begin, end
                first, begin = number, top - self.shift[number]
            end = top + self._height[number]
        yield first, begin, end


class _ArrowEnd(NamedTuple):
    """One end of an arrow: its node, the texts at the arrow if the flow leaves this node, and the index and the bottom
    of the node's column."""

    node: Node
    leave: tuple[Text, ...]
    column: int
    end: float


@dataclass(frozen=True)
class _Page:
    """The columns of one diagram; ``number`` counts the diagrams of the flow from 1."""

    sized: _SizedFlow
    columns: Sequence[_Column]
    number: int
    last: bool

    def diagram(self) -> Diagram:
        flow = self.sized.flow
        nodes, edges = self._flow()
        bottoms = [*(column.end for column in self.columns), nodes[-1].box.bottom]
        turns = [point.y for edge in edges for point in edge.points]
        suffix, title = (f".{self.number}", f" ({self.number})") if self.number > 1 else ("", "")
        return Diagram(
            id=flow.id + suffix,
            title=flow.title + title,
            description=flow.description,
            width=len(self.columns) * self.sized.column + (len(self.columns) - 1) * GUTTER,
            height=max(*bottoms, *turns) + EDGE,
            nodes=tuple(nodes),
            edges=tuple(edges),
            partitions=tuple(self._partitions()),
        )

    def _left(self, index: int) -> float:
        return index * (self.sized.column + GUTTER)

    def _axis(self, index: int) -> float:
        return self._left(index) + self.sized.axis

    def _partitions(self) -> Iterator[Partition]:
        for index, column in enumerate(self.columns):
            left = self._left(index) + EDGE
            for number, top, bottom in self.sized.bands(column):
                lane, name = self.sized.items[number].lane, self.sized.head(number)
                if lane:
                    box = Box(left, top, self.sized.column - 2 * EDGE, bottom - top)
                    inset = top + _HEAD_PADDING / 2
                    lines = below(name, left + _HEAD_PADDING, inset, NAME, "strong", tone="accent")
                    widest = max((line.width for line in lines), default=0.0)
                    head = Box(left, top, widest + 2 * _HEAD_PADDING, height(len(name), NAME) + _HEAD_PADDING)
                    yield Partition(lane.key, box, head, plain(lane.title), lines, lane.key)

    def _flow(self) -> tuple[list[Node], list[Edge]]:
        nodes: list[Node] = []
        edges: list[Edge] = []
        previous = None
        if self.number > 1:
            nodes.append(incoming(self._axis(0), EDGE, self.number - 1))
            previous = _ArrowEnd(nodes[-1], (), 0, 0)
        for index, column in enumerate(self.columns):
            axis = self._axis(index)
            for number, top in self.sized.tops(column):
                drawn = self.sized.items[number].draw(axis, top)
                if previous:
                    edges.append(self._joined(previous, _ArrowEnd(drawn.nodes[0], (), index, column.end), drawn.entry))
                nodes += drawn.nodes
                edges += drawn.edges
                previous = _ArrowEnd(nodes[-1], drawn.leave, index, column.end)
        if not self.last and previous:
            nodes.append(outgoing(self._axis(previous.column), previous.end + LEG, self.number))
            edges.append(self._joined(previous, _ArrowEnd(nodes[-1], (), previous.column, 0), ()))
        return nodes, edges

    def _joined(self, source: _ArrowEnd, target: _ArrowEnd, entry: tuple[Text, ...]) -> Edge:
        start = Point(self._axis(source.column), source.node.box.bottom)
        end = Point(self._axis(target.column), target.node.box.y)
        path: tuple[Point, ...] = (start, end)
        if source.column != target.column:
            gutter, low = self._left(target.column) - GUTTER / 2, source.end + _TURN
            path = (start, Point(start.x, low), Point(gutter, low), Point(gutter, EDGE), Point(end.x, EDGE), end)
        return Edge(source.node.id, target.node.id, path, (*source.leave, *entry))


def _initial() -> FlowItem:
    return FlowItem(0, DISC, lambda x, y: ItemShapes((initial(x, y),)))


def _final() -> FlowItem:
    return FlowItem(LEG, LEG + DISC, lambda x, y: ItemShapes((final(x, y + LEG),)))
