"""Annotations in the form that all emitters draw: the visible annotations of a card, by the name of their part
(``part_names``).

The coordinates of points are fractions of the part's size, from its top left corner. The API (``explanations.json``)
defines the rules of the fields.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from cardapp.layout.diagram.shapes import Point

OUTCOMES = {"good": "#17794a", "bad": "#b32424"}
"""Colours for annotations that a layout does not have to define."""
DEFAULT_COLOR, DEFAULT_WIDTH = "current", 5
"""The default of ``style.color``, and of ``style.width`` in tenths of a millimetre."""

_RIGHT = 0.6
"""A text that would begin farther right than this share of the part's width extends to the left."""


class Drawn(NamedTuple):
    """An annotation. ``color`` is a name or ``#rrggbb``, ``width`` is in mm. The ``text`` begins below ``place``, and
    extends to the right or, if ``leftward`` is true, to the left."""

    kind: str
    points: tuple[Point, ...]
    color: str
    width: float
    text: str
    place: Point
    leftward: bool


def pens(colors: Mapping[str, str]) -> dict[str, str]:
    """All colours that an annotation may name (``#rrggbb`` by name). ``colors`` are those of the layout."""
    return {**OUTCOMES, **colors}


def by_part(annotations: Iterable[Mapping[str, Any]]) -> dict[str, list[Drawn]]:
    """The visible annotations among these records of the API."""
    found: dict[str, list[Drawn]] = defaultdict(list)
    for each in annotations:
        if each["visible"]:
            found[each["target"]["part"]].append(_drawn(each))
    return dict(found)


def _drawn(annotation: Mapping[str, Any]) -> Drawn:
    style, target = annotation["style"], annotation["target"]
    points = tuple(Point(x, y) for x, y in annotation["geometry"]["points"])
    is_callout = style["kind"] == "callout"
    left = points[0].x if is_callout else target["x"]
    leftward = left > _RIGHT
    right = left if is_callout else left + target["w"]
    return Drawn(
        kind=style["kind"],
        points=points,
        color=style.get("color", DEFAULT_COLOR),
        width=style.get("width", DEFAULT_WIDTH) / 10,
        text=annotation["text"].strip(),
        place=Point(right if leftward else left, points[0].y if is_callout else target["y"] + target["h"]),
        leftward=leftward,
    )
