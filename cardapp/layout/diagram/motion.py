"""Shapes that were laid out at an origin of their own, put where they belong."""

from __future__ import annotations

from dataclasses import replace

from cardapp.layout.diagram.model import Box, Edge, Node, Point, Text


def texts(lines: tuple[Text, ...], x: float, y: float) -> tuple[Text, ...]:
    return tuple(replace(line, x=line.x + x, y=line.y + y) for line in lines)


def points(path: tuple[Point, ...], x: float, y: float) -> tuple[Point, ...]:
    return tuple(Point(point.x + x, point.y + y) for point in path)


def node(still: Node, x: float, y: float) -> Node:
    box = Box(still.box.x + x, still.box.y + y, still.box.width, still.box.height)
    strokes = tuple(points(stroke, x, y) for stroke in still.strokes)
    return replace(still, box=box, lines=texts(still.lines, x, y), strokes=strokes)


def edge(still: Edge, x: float, y: float) -> Edge:
    return replace(still, points=points(still.points, x, y), lines=texts(still.lines, x, y))
