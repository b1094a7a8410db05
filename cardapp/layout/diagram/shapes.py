"""The shapes, lines of text and arrows of a diagram with their positions, and the styles of shapes, for all renderers.

All lengths are millimetres. The origin is the top left corner, and y grows downward. Texts are single lines of plain
text, already broken to fit. Ids are keys of the card (``task/block/phase/step/snapshot``), with a suffix ``:…`` if a
key has several shapes in a diagram. Link targets are keys.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from cardapp.errors import InvalidValue
from cardapp.layout.font_metrics import Face

Anchor = Literal["start", "middle", "end"]
Tone = Literal["ink", "soft", "accent"]
Shape = Literal[
    "initial", "final", "connector", "action", "call", "decision", "state", "used", "padding", "free", "folded",
]  # fmt: skip
"""``initial``, ``final`` and ``connector`` (the flow continues elsewhere) are circles. ``call`` is an action that has
its own diagram. ``used``, ``padding``, ``free`` and ``folded`` (several blocks in one) are memory regions."""
MarkKind = Literal["pointer", "water"]

HEAD_LENGTH, HEAD_BREADTH = 1.6, 1.5
"""Length and breadth of an arrow head."""
MIN_WIDTH, MIN_HEIGHT = 40.0, 60.0


@dataclass(frozen=True)
class Room:
    """The maximum size of a diagram in mm. Raises ``InvalidValue`` if it is too small for any diagram."""

    width: float
    height: float

    def __post_init__(self) -> None:
        if not (self.width >= MIN_WIDTH and self.height >= MIN_HEIGHT):
            raise InvalidValue(
                f"A diagram does not fit {self.width:g} x {self.height:g} mm; it needs at least "
                f"{MIN_WIDTH:g} x {MIN_HEIGHT:g} mm. Make its column wider, or give it a row of its own."
            )


class Point(NamedTuple):
    """A point. Points, boxes and texts are tuples, because a big card has tens of thousands of them."""

    x: float
    y: float


class Box(NamedTuple):
    """A rectangle, given by its top left corner and its size."""

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
    """One line of text. ``x`` is the position of ``anchor``, ``y`` of the baseline. ``em`` is the type size, ``width``
    the estimated length."""

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
        """The area of the line, including ascenders and descenders."""
        left = self.x - {"start": 0.0, "middle": self.width / 2, "end": self.width}[self.anchor]
        return Box(left, self.y - 0.8 * self.em, self.width, 1.05 * self.em)


class Node(NamedTuple):
    """A shape that fills ``box``. ``title`` is its complete text, for tooltips and assistive technology. ``href`` is
    the key of the position to which the shape links, or None. ``strokes`` are lines inside the shape."""

    id: str
    shape: Shape
    box: Box
    title: str
    lines: tuple[Text, ...] = ()
    href: str | None = None
    strokes: tuple[tuple[Point, ...], ...] = ()


class Edge(NamedTuple):
    """An arrow from the border of the node ``source`` to the border of the node ``target``. Its segments are horizontal
    or vertical."""

    source: str
    target: str
    points: tuple[Point, ...]
    lines: tuple[Text, ...] = ()

    @property
    def head(self) -> tuple[Point, Point, Point]:
        """The open arrow head: the end of the first stroke, the tip, the end of the second stroke."""
        (from_x, from_y), (x, y) = self.points[-2:]
        length = abs(x - from_x) + abs(y - from_y)
        along_x, along_y = (x - from_x) / length, (y - from_y) / length
        back_x, back_y = x - along_x * HEAD_LENGTH, y - along_y * HEAD_LENGTH
        aside_x, aside_y = -along_y * HEAD_BREADTH / 2, along_x * HEAD_BREADTH / 2
        return Point(back_x + aside_x, back_y + aside_y), Point(x, y), Point(back_x - aside_x, back_y - aside_y)


class Partition(NamedTuple):
    """A swimlane that fills ``box``. ``head`` is the area with the lane's name."""

    id: str
    box: Box
    head: Box
    title: str
    lines: tuple[Text, ...]
    href: str | None = None


class Mark(NamedTuple):
    """A line across the memory. ``pointer`` marks the next free byte, ``water`` the high-water mark."""

    kind: MarkKind
    start: Point
    end: Point
    title: str
    lines: tuple[Text, ...]


@dataclass(frozen=True)
class Diagram:
    """A diagram of ``width`` x ``height`` mm. ``id`` is unique in a document. It consists of the kind of diagram, the
    key, and, except for the first diagram of a sequence, a number. ``description`` says in a sentence what the diagram
    shows. ``notes`` are texts outside the shapes."""

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


# -- styles ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ShapeStyle:
    """``fill`` and ``stroke`` are names of the layout's colours, or None. Line ``width`` and corner ``radius`` are in
    mm."""

    fill: str | None
    stroke: str | None
    width: float = 0.3
    radius: float = 0.0
    dashes: tuple[float, float] | None = None


SHAPE_STYLES: dict[Shape, ShapeStyle] = {
    "initial": ShapeStyle("ink", None),
    "final": ShapeStyle("paper", "ink", 0.4),
    "connector": ShapeStyle("paper", "ink_soft"),
    "action": ShapeStyle("paper", "ink_soft", radius=1.6),
    "call": ShapeStyle("paper", "ink_soft", radius=1.6),
    "decision": ShapeStyle("accent_soft", "accent"),
    "state": ShapeStyle("panel", "ink_soft", radius=2.2),
    "used": ShapeStyle("arena_used", "ink_soft", 0.2),
    "padding": ShapeStyle("arena_padding", "ink_soft", 0.2),
    "free": ShapeStyle("arena_free", "ink_soft", 0.2),
    "folded": ShapeStyle("paper", "ink_soft", 0.2, dashes=(0.8, 0.8)),
}
CURRENT_STYLE = ShapeStyle("current_soft", "current", 0.7)
"""This style replaces the style of the shape at the current position."""

LANE_STYLE = ShapeStyle("panel", "rule", 0.25, 0.8)
LANE_HEAD_STYLE = ShapeStyle("accent_soft", None, radius=0.8)
EDGE_STYLE = ShapeStyle(None, "ink_soft", 0.3, 1.2)
STROKE_STYLE = ShapeStyle(None, "ink_soft", 0.25)
"""For lines inside a shape."""
MARK_STYLES = {
    "pointer": ShapeStyle(None, "current", 0.6),
    "water": ShapeStyle(None, "ink_soft", 0.35, dashes=(1.2, 0.8)),
}
TONE_COLORS: dict[Tone, str] = {"ink": "ink", "soft": "ink_soft", "accent": "accent"}

FINAL_DISC = 0.55
"""The diameter of the disc inside a final node, as a factor of the node's diameter."""

_STYLES = (
    *SHAPE_STYLES.values(),
    CURRENT_STYLE,
    LANE_STYLE,
    LANE_HEAD_STYLE,
    EDGE_STYLE,
    STROKE_STYLE,
    *MARK_STYLES.values(),
)
USED_COLORS = {name for style in _STYLES for name in (style.fill, style.stroke) if name} | {*TONE_COLORS.values()}
"""The names of the colours that diagrams use."""
