"""Renders the annotations of a part of an exported file. ``static/annotation_layer.js`` draws the same on the page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from cardapp.layout.annotations import Drawn
from cardapp.layout.diagram.shapes import Point
from cardapp.layout.escape import html
from cardapp.layout.part_names import Piece


def layer(piece: Piece, drawn: Sequence[Drawn], colors: Mapping[str, str]) -> str:
    """Render the layer of annotations that ``piece`` shows. It is the last element of the piece. ``colors`` has all
    colours by name."""
    part = f"{piece.name}.{piece.shares[0]:g}" if piece.is_split else piece.name
    shapes = "".join(
        f'<g class="annotation {each.kind}" style="{_pen(each, colors)}">{"".join(_shapes(part, number, each))}</g>'
        for number, each in enumerate(drawn, 1)
    )
    texts = "".join(_text(each, colors) for each in drawn if each.text)
    return f'<div class="annotations"><svg aria-hidden="true"{_clip(piece)}>{shapes}</svg>{texts}</div>'


def _clip(piece: Piece) -> str:
    """The attribute that hides the drawings that belong to the other pieces of the part."""
    if not piece.is_split:
        return ""
    return f' style="clip-path:inset({_percent(piece.heights[0])} -3px {_percent(1 - piece.heights[-1])})"'


def _pen(drawn: Drawn, colors: Mapping[str, str]) -> str:
    name = drawn.color
    color = name if name.startswith("#") else f"var(--{name},{colors[name]})"
    return f"--pen:{color};--pen-width:{10 * drawn.width:g}"


def _shapes(part: str, number: int, drawn: Drawn) -> Iterator[str]:
    first, last = drawn.points[0], drawn.points[-1]
    match drawn.kind:
        case "box" | "marker":
            x, y = min(first.x, last.x), min(first.y, last.y)
            size = f'width="{_percent(abs(last.x - first.x))}" height="{_percent(abs(last.y - first.y))}"'
            yield f'<rect x="{_percent(x)}" y="{_percent(y)}" {size}/>'
        case "freehand":
            points = " ".join(f"{x:.4f},{y:.4f}" for x, y in drawn.points)
            room = 'viewBox="0 0 1 1" preserveAspectRatio="none" overflow="visible"'
            yield f'<svg {room}><polyline points="{points}"/></svg>'
        case "arrow":
            name = html(f"head.{part}.{number}")  # a key of the card has no colon
            size = 'viewBox="0 0 10 10" refX="8" refY="5" markerWidth="5" markerHeight="5" orient="auto"'
            yield f'<marker id="{name}" {size}><path class="head" d="M0 0 10 5 0 10z"/></marker>'
            yield _line(first, last, name)
        case "callout" if first != last:
            yield _line(first, last)
            yield f'<circle class="head" cx="{_percent(last.x)}" cy="{_percent(last.y)}" r="3"/>'
        case "underline":
            yield _line(first, last)


def _line(first: Point, last: Point, head: str = "") -> str:
    end = f' marker-end="url(#{head})"' if head else ""
    place = f'x1="{_percent(first.x)}" y1="{_percent(first.y)}" x2="{_percent(last.x)}" y2="{_percent(last.y)}"'
    return f"<line {place}{end}/>"


def _text(drawn: Drawn, colors: Mapping[str, str]) -> str:
    x, y = drawn.place
    side = f"right:{_percent(1 - x)}" if drawn.leftward else f"left:{_percent(x)}"
    return f'<p class="said" dir="auto" style="{_pen(drawn, colors)};{side};top:{_percent(y)}">{html(drawn.text)}</p>'


def _percent(share: float) -> str:
    return f"{100 * share:.3f}%"
