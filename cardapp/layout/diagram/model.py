"""What a diagram is: shapes, lines of text and arrows with their places, the same for every renderer.

All lengths are millimetres; the origin is the top left corner, y grows downward. Text is plain, one line each, already
broken to fit. Ids are keys of the card (``task/block/phase/step/snapshot``), with a suffix ``:…`` where a key has more
than one shape in a diagram; a place that can be reached by a link is a key.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from cardapp.errors import InvalidValue
from cardapp.layout.metrics import Face

Anchor = Literal["start", "middle", "end"]
Tone = Literal["ink", "soft", "accent"]
Shape = Literal[
    "initial", "final", "connector", "action", "call", "decision", "state", "used", "padding", "free", "folded",
]  # fmt: skip
"""``initial``, ``final`` and ``connector`` (the flow goes on elsewhere) are circles; ``call`` is an action with an
activity of its own; ``used``, ``padding``, ``free`` and ``folded`` (several in one) are stretches of memory."""
MarkKind = Literal["pointer", "water"]

HEAD_LENGTH, HEAD_BREADTH = 1.6, 1.5
"""Of an arrow head."""
LEAST_WIDTH, LEAST_HEIGHT = 40.0, 60.0


@dataclass(frozen=True)
class Room:
    """What a diagram may take at most, in mm. Raises ``InvalidValue`` for less than a diagram can be drawn in."""

    width: float
    height: float

    def __post_init__(self) -> None:
        if not (self.width >= LEAST_WIDTH and self.height >= LEAST_HEIGHT):
            raise InvalidValue(
                f"A diagram cannot be drawn in {self.width:g} x {self.height:g} mm. "
                f"Give it at least {LEAST_WIDTH:g} x {LEAST_HEIGHT:g} mm: a wider column, or a row of its own."
            )


class Point(NamedTuple):
    """A big card has tens of thousands of points, boxes and lines of text; as tuples they are made in no time."""

    x: float
    y: float


class Box(NamedTuple):
    """A rectangle by its top left corner."""

    x: float
    y: float
    width: float
    height: float

    @property
    def right(self) -> float:
        return self.x + self.width

    @property
    def bottom(self) -> float:
        return self.y + self.height

    @property
    def centre(self) -> Point:
        return Point(self.x + self.width / 2, self.y + self.height / 2)


class Text(NamedTuple):
    """One line. ``x`` is where ``anchor`` says, ``y`` the baseline; ``em`` is the size of the type, ``width`` the
    length of the line, estimated."""

    text: str
    x: float
    y: float
    em: float
    width: float
    face: Face = "regular"
    anchor: Anchor = "middle"
    tone: Tone = "ink"

    @property
    def box(self) -> Box:
        """What the line covers, from the top of its ascenders to the foot of its descenders."""
        left = self.x - {"start": 0.0, "middle": self.width / 2, "end": self.width}[self.anchor]
        return Box(left, self.y - 0.8 * self.em, self.width, 1.05 * self.em)


class Node(NamedTuple):
    """A shape that fills ``box``. ``title`` is its whole text, unbroken, for a tooltip and for who cannot see; ``href``
    is the key it leads to, None where there is nothing to go to; ``strokes`` are lines inside the shape."""

    id: str
    shape: Shape
    box: Box
    title: str
    lines: tuple[Text, ...] = ()
    href: str | None = None
    strokes: tuple[tuple[Point, ...], ...] = ()


class Edge(NamedTuple):
    """A line from the border of the node ``source`` to that of the node ``target``, where its arrow head is; each of
    its parts is horizontal or vertical."""

    source: str
    target: str
    points: tuple[Point, ...]
    lines: tuple[Text, ...] = ()

    @property
    def head(self) -> tuple[Point, Point, Point]:
        """The open arrow head: the end of one stroke, the tip, the end of the other."""
        (from_x, from_y), (x, y) = self.points[-2:]
        length = abs(x - from_x) + abs(y - from_y)
        along_x, along_y = (x - from_x) / length, (y - from_y) / length
        back_x, back_y = x - along_x * HEAD_LENGTH, y - along_y * HEAD_LENGTH
        aside_x, aside_y = -along_y * HEAD_BREADTH / 2, along_x * HEAD_BREADTH / 2
        return Point(back_x + aside_x, back_y + aside_y), Point(x, y), Point(back_x - aside_x, back_y - aside_y)


class Partition(NamedTuple):
    """A swimlane: what belongs together lies in ``box``, its name in the part ``head`` of it."""

    id: str
    box: Box
    head: Box
    title: str
    lines: tuple[Text, ...]
    href: str | None = None


class Mark(NamedTuple):
    """A line across the memory with what it marks: ``pointer`` (the next free byte) or ``water`` (the greatest use)."""

    kind: MarkKind
    start: Point
    end: Point
    title: str
    lines: tuple[Text, ...]


@dataclass(frozen=True)
class Diagram:
    """A picture of ``width`` x ``height`` mm. ``id`` is unique in a document: the kind of diagram, the key, and a
    number for each after the first of several that belong together. ``title`` names it, ``description`` says in a
    sentence what it shows; ``notes`` are text that belongs to no shape."""

    id: str
    title: str
    description: str
    width: float
    height: float
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...] = ()
    partitions: tuple[Partition, ...] = ()
    marks: tuple[Mark, ...] = ()
    notes: tuple[Text, ...] = ()
