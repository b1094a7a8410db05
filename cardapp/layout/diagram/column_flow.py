"""Lays out a sequential flow in columns from top to bottom, in several diagrams if necessary.

It uses as few columns as possible without making the diagram too high, and balances their heights. Arrows from column
to column run in the gutters and above and below all shapes, so that they cross nothing.
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
_LOOK = 0.8
"""A diagram gets another column when it would be higher than this factor of the available width."""
_TURN = 2.2
"""Vertical distance from the last shape of a column to the horizontal part of the arrow that leaves it."""
_ENTRY = 3.4
"""Distance from the top to the first shape of a column that follows another one."""
_FOOT, _BETWEEN = 2.2, 2.6
"""Space below the last shape of a lane, and between two lanes."""
_HEAD_PADDING = 1.2


class ItemShapes(NamedTuple):
    """The shapes of an item. The flow enters its first node and leaves its last one; ``entry`` and ``leave`` are the
    texts at these arrows."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...] = ()
    entry: tuple[Text, ...] = ()
    leave: tuple[Text, ...] = ()


class FlowItem(NamedTuple):
    """An indivisible item of the flow. Its ``height`` includes ``gap``, the length of the arrow that enters it;
    ``draw`` makes its shapes, from the point (x, y) downward."""

    gap: float
    height: float
    draw: Callable[[float, float], ItemShapes]
    lane: Lane | None = None


@dataclass(frozen=True)
class ColumnFlow:
    """A flow. ``items`` makes its items for a given width of the shapes; ``left`` and ``right`` are the spaces that a
    column needs beside them."""

    id: str
    title: str
    description: str
    items: Callable[[float], Iterable[FlowItem]]
    left: float = EDGE
    right: float = EDGE


def laid_out(flow: ColumnFlow, room: Room) -> tuple[Diagram, ...]:
    """The flow with its initial and final node, in one diagram if it fits the room, else in several with connectors."""
    most = max(1, int((room.width + GUTTER) / (MIN_COLUMN + GUTTER)))
    wanted = min(room.height, max(MIN_HEIGHT, _LOOK * room.width))
    form = _Form(flow, min(MAX_COLUMN, room.width))
    for count in range(min(form.least_count(wanted), most), most + 1):
        form = form.narrowed(min(MAX_COLUMN, (room.width - (count - 1) * GUTTER) / count))
        limit = room.height if count == most else wanted
        columns = form.packed(count, limit)
        if len(columns) <= count:
            return (_Page(form, form.balanced(count, limit), 1, last=True).diagram(),)
    pages = [columns[start : start + most] for start in range(0, len(columns), most)]
    return tuple(_Page(form, page, number, number == len(pages)).diagram() for number, page in enumerate(pages, 1))


class _Column(NamedTuple):
    """The items with the numbers from ``start`` up to ``stop``, placed from the height ``top`` to ``end``."""

    start: int
    stop: int
    top: float
    end: float


class _Form:
    """The flow at one column width: the height of each item, and its distance to the previous one."""

    def __init__(self, flow: ColumnFlow, column: float) -> None:
        self.flow = flow
        self.column = column
        shape = column - flow.left - flow.right
        self.axis = flow.left + shape / 2
        self.head_width = self.axis - 1.6
        self.items = (_initial(), *flow.items(shape), _final())
        self._heads: dict[tuple[str, bool], tuple[str, ...]] = {}
        before = (None, *(item.lane for item in self.items))
        self._again = [lane is not None and item.lane is lane for item, lane in zip(self.items, before, strict=False)]
        self.shift = [self._shift(number) for number in range(len(self.items))]
        """The extra space above an item that begins a lane or a column, for the lane's name."""
        foot = [_FOOT if item.lane else 0.0 for item in self.items]
        self._height = [item.height + below for item, below in zip(self.items, foot, strict=True)]
        self._drop = [
            -_FOOT if again else _BETWEEN + shift if item.lane else 0.0
            for item, again, shift in zip(self.items, self._again, self.shift, strict=True)
        ]

    def narrowed(self, column: float) -> _Form:
        return self if column == self.column else _Form(self.flow, column)

    def least_count(self, limit: float) -> int:
        """A lower bound of the number of columns, at this or a smaller width."""
        return int(sum(item.height for item in self.items) / limit) + 1

    def head(self, number: int) -> tuple[str, ...]:
        """The lines of a lane's name, left of the arrow, above an item that begins the lane or a column."""
        lane, again = self.items[number].lane, self._again[number]
        if lane is None:
            return ()
        if (lane.key, again) not in self._heads:
            title = f"{plain(lane.title)} (continued)" if again else plain(lane.title)
            self._heads[lane.key, again] = broken(title, self.head_width - 2 * _HEAD_PADDING, NAME, "strong")
        return self._heads[lane.key, again]

    def _shift(self, number: int) -> float:
        head = self.head(number)
        return max(0.0, height(len(head), NAME) + _HEAD_PADDING + 1 - self.items[number].gap) if head else 0.0

    def packed(self, count: int, limit: float) -> list[_Column]:
        """The columns for diagrams of ``count`` columns and the height ``limit``; if one diagram is not enough, with
        space for the connectors."""
        columns = self._filled(lambda index: (_ENTRY if index else EDGE, limit - EDGE - (_TURN if count > 1 else 0)))
        if len(columns) <= count:
            return columns
        joint = CIRCLE + LEG + EDGE

        def bounds(index: int) -> tuple[float, float]:
            first, last = index % count == 0 and index > 0, index % count == count - 1
            top = joint if first else _ENTRY if index else EDGE
            return top, limit - EDGE - (joint if last else _TURN)

        return self._filled(bounds)

    def balanced(self, count: int, limit: float) -> list[_Column]:
        """The same number of columns at about the minimum height."""
        low, high = limit / (2 * count), limit
        for _halving in range(7 if count > 1 else 0):
            middle = (low + high) / 2
            columns = self.packed(count, middle)
            fits = len(columns) <= count and all(column.end <= middle for column in columns)
            low, high = (low, middle) if fits else (middle, high)
        return self.packed(count, high)

    def _filled(self, bounds: Callable[[int], tuple[float, float]]) -> list[_Column]:
        columns: list[_Column] = []
        start, (top, limit) = 0, bounds(0)
        end = top + self.shift[0] + self._height[0]
        for number in range(1, len(self.items)):
            lower = end + self._drop[number] + self._height[number]
            if lower > limit:
                columns.append(_Column(start, number, top, end))
                start, (top, limit) = number, bounds(len(columns))
                lower = top + self.shift[number] + self._height[number]
            end = lower
        return [*columns, _Column(start, len(self.items), top, end)]

    def tops(self, column: _Column) -> Iterator[tuple[int, float]]:
        """The number of each item of a column, and the height at which it begins."""
        end = column.top
        for number in range(column.start, column.stop):
            top = end + (self.shift[number] if number == column.start else self._drop[number])
            yield number, top
            end = top + self._height[number]

    def bands(self, column: _Column) -> Iterator[tuple[int, float, float]]:
        """The part of each lane in a column: the number of its first item, its top and its bottom."""
        first, begin, end = column.start, column.top, column.top
        for number, top in self.tops(column):
            if number > column.start and not self._again[number]:
                yield first, begin, end
                first, begin = number, top - self.shift[number]
            end = top + self._height[number]
        yield first, begin, end


class _Exit(NamedTuple):
    """A node that the flow leaves, the texts at its arrow, and the index and end of its column in the diagram."""

    node: Node
    leave: tuple[Text, ...]
    column: int
    end: float


@dataclass(frozen=True)
class _Page:
    """The columns of one diagram; ``number`` counts the diagrams of the flow from 1."""

    form: _Form
    columns: Sequence[_Column]
    number: int
    last: bool

    def diagram(self) -> Diagram:
        flow = self.form.flow
        nodes, edges = self._flow()
        bottoms = [*(column.end for column in self.columns), nodes[-1].box.bottom]
        turns = [point.y for edge in edges for point in edge.points]
        suffix, title = (f".{self.number}", f" ({self.number})") if self.number > 1 else ("", "")
        return Diagram(
            id=flow.id + suffix,
            title=flow.title + title,
            description=flow.description,
            width=len(self.columns) * self.form.column + (len(self.columns) - 1) * GUTTER,
            height=max(*bottoms, *turns) + EDGE,
            nodes=tuple(nodes),
            edges=tuple(edges),
            partitions=tuple(self._partitions()),
        )

    def _left(self, index: int) -> float:
        return index * (self.form.column + GUTTER)

    def _axis(self, index: int) -> float:
        return self._left(index) + self.form.axis

    def _partitions(self) -> Iterator[Partition]:
        for index, column in enumerate(self.columns):
            left = self._left(index) + EDGE
            for number, top, bottom in self.form.bands(column):
                lane, name = self.form.items[number].lane, self.form.head(number)
                if lane:
                    box = Box(left, top, self.form.column - 2 * EDGE, bottom - top)
                    inset = top + _HEAD_PADDING / 2
                    lines = below(name, left + _HEAD_PADDING, inset, NAME, "strong", tone="accent")
                    widest = max((line.width for line in lines), default=0.0)
                    head = Box(left, top, widest + 2 * _HEAD_PADDING, height(len(name), NAME) + _HEAD_PADDING)
                    yield Partition(lane.key, box, head, plain(lane.title), lines, lane.key)

    def _flow(self) -> tuple[list[Node], list[Edge]]:
        nodes: list[Node] = []
        edges: list[Edge] = []
        before = None
        if self.number > 1:
            nodes.append(incoming(self._axis(0), EDGE, self.number - 1))
            before = _Exit(nodes[-1], (), 0, 0)
        for index, column in enumerate(self.columns):
            axis = self._axis(index)
            for number, top in self.form.tops(column):
                drawn = self.form.items[number].draw(axis, top)
                if before:
                    edges.append(self._joined(before, _Exit(drawn.nodes[0], (), index, column.end), drawn.entry))
                nodes += drawn.nodes
                edges += drawn.edges
                before = _Exit(nodes[-1], drawn.leave, index, column.end)
        if not self.last and before:
            nodes.append(outgoing(self._axis(before.column), before.end + LEG, self.number))
            edges.append(self._joined(before, _Exit(nodes[-1], (), before.column, 0), ()))
        return nodes, edges

    def _joined(self, source: _Exit, target: _Exit, entry: tuple[Text, ...]) -> Edge:
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
