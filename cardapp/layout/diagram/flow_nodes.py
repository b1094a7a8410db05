"""What every flow is made of, however it is laid out: its ends, the connectors between its diagrams, its lanes."""

from __future__ import annotations

from dataclasses import dataclass

from cardapp.layout.diagram.model import Box, Node
from cardapp.layout.diagram.text_lines import SMALL, centred

EDGE = 0.4
"""Free at each side of a diagram, so that no line is cut by its border."""
CIRCLE, DISC = 5.0, 4.0
"""Diameters of a connector and of the initial and the final node."""
LEG = 3.4
"""An arrow to or from a connector."""
BEGIN = ":initial"
"""The id of the initial node."""


@dataclass(frozen=True)
class Lane:
    """The partition that shapes belong to; ``key`` is also where its name leads."""

    key: str
    title: str


def initial(x: float, top: float) -> Node:
    return Node(BEGIN, "initial", _round(x, top, DISC), "Begin")


def final(x: float, top: float) -> Node:
    return Node(":final", "final", _round(x, top, DISC), "End")


def outgoing(x: float, top: float, number: int) -> Node:
    """The connector at which the flow breaks off; its number stands where the flow goes on."""
    return _connector(f":to-{number}", x, top, number, f"Goes on at {number} of the next diagram")


def incoming(x: float, top: float, number: int) -> Node:
    """The connector at which a flow goes on that broke off in the diagram before."""
    return _connector(f":from-{number}", x, top, number, f"Comes from {number} of the diagram before")


def _connector(name: str, x: float, top: float, number: int, title: str) -> Node:
    box = _round(x, top, CIRCLE)
    return Node(name, "connector", box, title, centred((str(number),), x, box.centre.y, SMALL))


def _round(x: float, top: float, diameter: float) -> Box:
    return Box(x - diameter / 2, top, diameter, diameter)
