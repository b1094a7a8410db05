"""The elements that both flow layouts share: initial and final nodes, connectors between diagrams, and lanes."""

from __future__ import annotations

from dataclasses import dataclass

from cardapp.layout.diagram.shapes import Box, Node
from cardapp.layout.diagram.text_lines import SMALL, centred

EDGE = 0.4
"""Space at each side of a diagram, so that its border clips no line."""
CIRCLE, DISC = 5.0, 4.0
"""Diameters of a connector and of the initial and the final node."""
LEG = 3.4
"""Length of an arrow to or from a connector."""
BEGIN = ":initial"
"""The id of the initial node."""


@dataclass(frozen=True)
class Lane:
    """The partition of a shape. The partition's name links to ``key``."""

    key: str
    title: str


def initial(x: float, top: float) -> Node:
    return Node(BEGIN, "initial", _circle_box(x, top, DISC), "Begin")


def final(x: float, top: float) -> Node:
    return Node(":final", "final", _circle_box(x, top, DISC), "End")


def outgoing(x: float, top: float, number: int) -> Node:
    """Make the connector at the end of a diagram. The flow continues at the connector with the same number."""
    return _connector(f":to-{number}", x, top, number, f"Continues at connector {number} of the next diagram")


def incoming(x: float, top: float, number: int) -> Node:
    """Make the connector at the beginning of a diagram that continues the previous one."""
    return _connector(f":from-{number}", x, top, number, f"Continues from connector {number} of the previous diagram")


def _connector(name: str, x: float, top: float, number: int, title: str) -> Node:
    box = _circle_box(x, top, CIRCLE)
    return Node(name, "connector", box, title, centred((str(number),), x, box.centre.y, SMALL))


def _circle_box(x: float, top: float, diameter: float) -> Box:
    return Box(x - diameter / 2, top, diameter, diameter)
