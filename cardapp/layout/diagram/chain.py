"""A flow that goes one way, laid out downward: it wraps into columns, and goes on in further diagrams.

The fewest columns are taken that hold the flow, each as wide as it may be, and their heights are evened out. Arrows
from column to column run in the gutters between them and above and below all shapes, so nothing is crossed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from cardapp.layout.diagram import motion
from cardapp.layout.diagram.lettering import NAME, SMALL, below, broken, centred, height, plain
from cardapp.layout.diagram.model import Box, Diagram, Edge, Node, Partition, Point, Room, Text

GUTTER = 7.0
LEAST_COLUMN, MOST_COLUMN = 44.0, 72.0
EDGE = 0.4
"""Free at each side of a diagram, so that no line is cut by its border."""

_TURN = 2.2
"""From the last shape of a column down to the arrow that leaves it, and down from the arrow that enters the next."""
_ENTRY = 3.4
"""How far a column that is entered from another one begins below the top."""
_CIRCLE, _DISC = 5.0, 4.0
"""Diameters of a connector and of the initial and the final node."""
_LEG = 3.4
"""An arrow to or from a connector."""
_FOOT, _BETWEEN = 2.2, 2.6
"""Below the last shape of a lane, and between two lanes."""
_HEAD_PADDING = 1.2


@dataclass(frozen=True)
class Lane:
    """The partition that links belong to; ``key`` is also where its name leads."""

    key: str
    title: str


@dataclass(frozen=True)
class Link:
    """One piece of the flow, never divided: nodes below each other on the line x = 0, from y = 0 down. The first node
    is entered, the last one left; ``entry`` and ``leave`` are what stands at these arrows."""

    nodes: tuple[Node, ...]
    height: float
    edges: tuple[Edge, ...] = ()
    entry: tuple[Text, ...] = ()
    leave: tuple[Text, ...] = ()
    lane: Lane | None = None


@dataclass(frozen=True)
class Chain:
    """A flow: ``links`` makes its pieces for shapes of a given width; ``left`` and ``right`` is room that a column
    needs beside the shapes."""

    id: str
    title: str
    description: str
    links: Callable[[float], Sequence[Link]]
    left: float = EDGE
    right: float = EDGE


def laid_out(chain: Chain, room: Room) -> tuple[Diagram, ...]:
    """The flow between its initial and its final node, in one diagram if it fits the room, else in several that name
    each other by connectors."""
    most = max(1, int((room.width + GUTTER) / (LEAST_COLUMN + GUTTER)))
    for count in range(1, most + 1):
        form = _Form(chain, min(MOST_COLUMN, (room.width - (count - 1) * GUTTER) / count))
        columns = form.packed(count, room.height)
        if len(columns) <= count:
            return (form.page(form.evened(count, room.height) if count > 1 else columns, 1, last=True),)
    pages = [columns[start : start + most] for start in range(0, len(columns), most)]
    return tuple(form.page(page, number, last=number == len(pages)) for number, page in enumerate(pages, 1))


@dataclass(frozen=True)
class _Band:
    lane: Lane
    top: float
    head: tuple[str, ...]
    bottom: float


@dataclass
class _Column:
    """What has been put into a column so far; ``end`` is the height that it takes."""

    form: _Form
    end: float
    placed: list[tuple[Link, float]] = field(default_factory=list)
    bands: list[_Band] = field(default_factory=list)

    def takes(self, link: Link, limit: float) -> bool:
        return not self.placed or self._top(link)[0] + link.height + (_FOOT if link.lane else 0) <= limit

    def add(self, link: Link, *, again: bool) -> None:
        """``again``: the lane of the link has begun in another column."""
        top, band_top = self._top(link)
        bottom = top + link.height
        if link.lane:
            if self._lane is link.lane:
                open_band = self.bands.pop()
                band_top, head = open_band.top, open_band.head
            else:
                head = self.form.head(link.lane, again=again)
            bottom += _FOOT
            self.bands.append(_Band(link.lane, band_top, head, bottom))
        self.placed.append((link, top))
        self.end = bottom

    @property
    def _lane(self) -> Lane | None:
        return self.placed[-1][0].lane if self.placed else None

    def _top(self, link: Link) -> tuple[float, float]:
        """Where the link would begin, and where its lane would if it opened one."""
        if link.lane is None:
            return self.end, self.end
        if self._lane is link.lane:
            return self.end - _FOOT, self.end
        start = self.end + (_BETWEEN if self.placed else 0)
        head = height(len(self.form.head(link.lane, again=True)), NAME) + _HEAD_PADDING
        return start + max(0.0, head - link.nodes[0].box.y + 1), start


class _Form:
    """A chain at one width of its columns."""

    def __init__(self, chain: Chain, column: float) -> None:
        self._chain = chain
        self._column = column
        self._shape = column - chain.left - chain.right
        self._heads: dict[tuple[str, bool], tuple[str, ...]] = {}
        self._links = (_initial(), *chain.links(self._shape), _final())

    def head(self, lane: Lane, *, again: bool) -> tuple[str, ...]:
        """The name of a lane in lines that stay left of the arrow that enters it."""
        if (lane.key, again) not in self._heads:
            title = f"{plain(lane.title)} (continued)" if again else plain(lane.title)
            room = self._head_width - 2 * _HEAD_PADDING
            self._heads[lane.key, again] = broken(title, room, NAME, "strong")
        return self._heads[lane.key, again]

    @property
    def _head_width(self) -> float:
        return self._chain.left + self._shape / 2 - 1.6

    def packed(self, count: int, limit: float) -> list[_Column]:
        """The columns if ``count`` of them stand on a page of the height ``limit``: one page's worth if they fit, else
        with room left for the connectors between pages."""
        columns = self._filled(lambda index: (_ENTRY if index else EDGE, limit - EDGE - (_TURN if count > 1 else 0)))
        if len(columns) <= count:
            return columns
        joint = _CIRCLE + _LEG + EDGE

        def bounds(index: int) -> tuple[float, float]:
            first, last = index % count == 0 and index > 0, index % count == count - 1
            top = joint if first else _ENTRY if index else EDGE
            return top, limit - EDGE - (joint if last else _TURN)

        return self._filled(bounds)

    def evened(self, count: int, limit: float) -> list[_Column]:
        """The same number of columns at the least height."""
        low, high = limit / (2 * count), limit
        for _halving in range(10):
            middle = (low + high) / 2
            columns = self.packed(count, middle)
            fits = len(columns) <= count and all(column.end <= middle for column in columns)
            low, high = (low, middle) if fits else (middle, high)
        return self.packed(count, high)

    def _filled(self, bounds: Callable[[int], tuple[float, float]]) -> list[_Column]:
        columns: list[_Column] = []
        known: set[str] = set()
        limit = 0.0
        for link in self._links:
            if not columns or not columns[-1].takes(link, limit):
                top, limit = bounds(len(columns))
                columns.append(_Column(self, top))
            columns[-1].add(link, again=link.lane is not None and link.lane.key in known)
            if link.lane:
                known.add(link.lane.key)
        return columns

    def page(self, columns: Sequence[_Column], number: int, *, last: bool) -> Diagram:
        return _Page(self._chain, self._column, self._head_width, columns, number, last).diagram()


@dataclass(frozen=True)
class _Page:
    """The columns of one diagram; ``number`` counts the diagrams of the chain from 1."""

    chain: Chain
    column: float
    head_width: float
    columns: Sequence[_Column]
    number: int
    last: bool

    def diagram(self) -> Diagram:
        nodes, edges = self._flow()
        bottoms = [*(column.end for column in self.columns), *(node.box.bottom for node in nodes)]
        turns = [point.y for edge in edges for point in edge.points]
        suffix, title = (f".{self.number}", f" ({self.number})") if self.number > 1 else ("", "")
        return Diagram(
            id=self.chain.id + suffix,
            title=self.chain.title + title,
            description=self.chain.description,
            width=len(self.columns) * self.column + (len(self.columns) - 1) * GUTTER,
            height=max(*bottoms, *turns) + EDGE,
            nodes=tuple(nodes),
            edges=tuple(edges),
            partitions=tuple(self._partitions()),
        )

    def _left(self, column: int) -> float:
        return column * (self.column + GUTTER)

    def _axis(self, column: int) -> float:
        return self._left(column) + self.chain.left + (self.column - self.chain.left - self.chain.right) / 2

    def _partitions(self) -> list[Partition]:
        found = []
        for index, column in enumerate(self.columns):
            left = self._left(index) + EDGE
            for band in column.bands:
                box = Box(left, band.top, self.column - 2 * EDGE, band.bottom - band.top)
                name = height(len(band.head), NAME) + _HEAD_PADDING
                lines = below(
                    band.head, left + _HEAD_PADDING, band.top + _HEAD_PADDING / 2, NAME, "strong", tone="accent"
                )
                widest = max((line.width for line in lines), default=0.0) + 2 * _HEAD_PADDING
                head = Box(left, band.top, min(widest, self.head_width), name)
                found.append(Partition(band.lane.key, box, head, plain(band.lane.title), lines, band.lane.key))
        return found

    def _flow(self) -> tuple[list[Node], list[Edge]]:
        nodes: list[Node] = []
        edges: list[Edge] = []
        before: _Left | None = None
        if self.number > 1:
            before = self._joint(nodes, 0, EDGE, self.number - 1, "from")
        for index, column in enumerate(self.columns):
            axis = self._axis(index)
            for link, top in column.placed:
                entered = len(nodes)
                nodes += (motion.node(node, axis, top) for node in link.nodes)
                if before:
                    entry = motion.texts(link.entry, axis, top)
                    edges.append(self._joined(before, _Left(nodes[entered], (), index, column.end), entry))
                edges += (motion.edge(edge, axis, top) for edge in link.edges)
                before = _Left(nodes[-1], motion.texts(link.leave, axis, top), index, column.end)
        if not self.last and before:
            end = self.columns[-1].end
            edges.append(self._joined(before, self._joint(nodes, before.column, end + _LEG, self.number, "to"), ()))
        return nodes, edges

    def _joint(self, nodes: list[Node], column: int, top: float, number: int, way: str) -> _Left:
        """A connector: the same number stands where the flow breaks off and where it goes on."""
        axis = self._axis(column)
        box = Box(axis - _CIRCLE / 2, top, _CIRCLE, _CIRCLE)
        said = (
            f"Goes on at {number} of the next diagram" if way == "to" else f"Comes from {number} of the diagram before"
        )
        lines = centred((str(number),), axis, box.centre.y, SMALL)
        nodes.append(Node(f":{way}-{number}", "connector", box, said, lines))
        return _Left(nodes[-1], (), column, 0)

    def _joined(self, source: _Left, target: _Left, entry: tuple[Text, ...]) -> Edge:
        start = Point(source.node.box.centre.x, source.node.box.bottom)
        end = Point(target.node.box.centre.x, target.node.box.y)
        path = [start, end]
        if source.column != target.column:
            gutter, low = self._left(target.column) - GUTTER / 2, source.column_end + _TURN
            path = [start, Point(start.x, low), Point(gutter, low), Point(gutter, EDGE), Point(end.x, EDGE), end]
        return Edge(source.node.id, target.node.id, tuple(path), (*source.leave, *entry))


@dataclass(frozen=True)
class _Left:
    """A node with what stands at the arrow that leaves it, and the column it is in."""

    node: Node
    leave: tuple[Text, ...]
    column: int
    column_end: float


def _initial() -> Link:
    return Link((Node(":initial", "initial", Box(-_DISC / 2, 0, _DISC, _DISC), "Begin"),), _DISC)


def _final() -> Link:
    return Link((Node(":final", "final", Box(-_DISC / 2, _LEG, _DISC, _DISC), "End"),), _LEG + _DISC)
