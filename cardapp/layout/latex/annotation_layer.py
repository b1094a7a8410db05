"""Renders the annotations of a part as a TikZ picture over the part."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from cardapp.layout import font_metrics
from cardapp.layout.annotations import Drawn
from cardapp.layout.diagram.shapes import Point
from cardapp.layout.escape import tex_line
from cardapp.layout.latex.parts import numbers
from cardapp.layout.layout_model import Frame
from cardapp.layout.part_names import Piece

_SIZE_PT, _LINE_PT = 8.0, 10.4
_EM = _SIZE_PT * 25.4 / 72
_MAX_TEXT = 60.0
"""Maximum width in mm of a text; a longer one is wrapped."""
_MAX_SHARE = 0.9
"""Maximum width of a text as a share of its part's width, so that it stays on the sheet."""
_DOT = 0.8


def layer(key: str, frame: Frame, piece: Piece, drawn: Sequence[Drawn], colors: Mapping[str, str]) -> Iterator[str]:
    """Yield the LaTeX source lines of the annotations that ``piece``, the part in ``frame``, shows. ``key`` is its
    position."""
    yield rf"\begin{{CardPart}}{{annotations {key}}}{numbers(frame)}{{ink}}"
    yield r"\hbox{\begin{tikzpicture}[x=1mm, y=-1mm, line join=round, line cap=round, >=stealth]"
    yield rf"\useasboundingbox (0,0) rectangle ({frame.width:.3f},{frame.height:.3f});"
    pens = [_rgb(colors.get(each.color, each.color)) for each in drawn]
    yield r"\begin{scope}"
    if piece.is_split:
        yield rf"\clip (-1,{piece.heights[0] * frame.height:.3f}) rectangle {_at(Point(1, piece.heights[-1]), frame)};"
    for each, pen in zip(drawn, pens, strict=True):
        yield from _shape(each, frame, pen)
    yield r"\end{scope}"
    yield from (_text(each, frame, pen) for each, pen in zip(drawn, pens, strict=True) if each.text)
    yield r"\end{tikzpicture}}\nointerlineskip"
    yield r"\end{CardPart}"


def _shape(drawn: Drawn, frame: Frame, pen: str) -> Iterator[str]:
    points = [_at(point, frame) for point in drawn.points]
    first, last, line = points[0], points[-1], f"line width={drawn.width:.2f}mm, draw={pen}"
    match drawn.kind:
        case "box":
            yield rf"\path[{line}] {first} rectangle {last};"
        case "marker":
            yield rf"\path[fill={pen}, fill opacity=.22] {first} rectangle {last};"
        case "arrow":
            yield rf"\path[{line}, ->] {first} -- {last};"
        case "callout" if first != last:
            yield rf"\path[{line}] {first} -- {last};"
            yield rf"\path[fill={pen}] {last} circle[radius={_DOT}mm];"
        case "underline" | "freehand":
            yield rf"\path[{line}] {' -- '.join(points)};"


def _text(drawn: Drawn, frame: Frame, pen: str) -> str:
    lines = drawn.text.splitlines()
    width = max(font_metrics.width(each, _EM) for each in lines)
    most = min(_MAX_TEXT, _MAX_SHARE * frame.width)
    room = f"text width={most:.3f}mm, " if width > most else ""
    side = "north east" if drawn.leftward else "north west"
    look = f"{room}anchor={side}, align=flush left, inner sep=.7mm, line width=.2mm, draw={pen}, fill=card-paper"
    written = r"\\".join(tex_line(each) for each in lines)
    font = rf"font=\fontsize{{{_SIZE_PT}bp}}{{{_LINE_PT}bp}}\selectfont\color{{card-ink}}"
    return rf"\node[{look}, rounded corners=.6mm, {font}] at {_at(drawn.place, frame)} {{{written}}};"


def _at(point: Point, frame: Frame) -> str:
    return f"({point.x * frame.width:.3f},{point.y * frame.height:.3f})"


def _rgb(color: str) -> str:
    """``#rrggbb`` as an expression of the package xcolor."""
    red, green, blue = (int(color[at : at + 2], 16) for at in (1, 3, 5))
    return f"{{rgb,255:red,{red};green,{green};blue,{blue}}}"
