"""The styles of diagram shapes: colours by their names in the layout, line widths, and corner radii."""

from __future__ import annotations

from dataclasses import dataclass

from cardapp.layout.diagram.model import Shape, Tone


@dataclass(frozen=True)
class ShapeStyle:
    """``fill`` and ``stroke`` are names of the layout's colours or None; line ``width`` and corner ``radius`` are in
    mm."""

    fill: str | None
    stroke: str | None
    width: float = 0.3
    radius: float = 0.0
    dashes: tuple[float, float] | None = None


SHAPES: dict[Shape, ShapeStyle] = {
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
CURRENT = ShapeStyle("current_soft", "current", 0.7)
"""Replaces the style of the shape at the current position."""

LANE = ShapeStyle("panel", "rule", 0.25, 0.8)
HEAD = ShapeStyle("accent_soft", None, radius=0.8)
EDGE = ShapeStyle(None, "ink_soft", 0.3, 1.2)
STROKE = ShapeStyle(None, "ink_soft", 0.25)
"""For lines inside a shape."""
MARKS = {"pointer": ShapeStyle(None, "current", 0.6), "water": ShapeStyle(None, "ink_soft", 0.35, dashes=(1.2, 0.8))}
TONES: dict[Tone, str] = {"ink": "ink", "soft": "ink_soft", "accent": "accent"}

DOT = 0.55
"""The diameter of the disc inside a final node, as a factor of the node's."""

_LOOKS = (*SHAPES.values(), CURRENT, LANE, HEAD, EDGE, STROKE, *MARKS.values())
USED = {name for look in _LOOKS for name in (look.fill, look.stroke) if name} | {*TONES.values()}
"""The names of the colours that diagrams use."""
