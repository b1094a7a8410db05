"""Renders a diagram as a TikZ picture. One unit is one millimetre; y grows downward as in the model.

The picture needs no TikZ library; ``preamble`` defines styles and colours. The document must provide hyperref, a main
font and a monospaced font.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from cardapp.layout.diagram import shapes
from cardapp.layout.diagram.shapes import Box, Diagram, Edge, Mark, Node, Partition, Point, Text
from cardapp.layout.escape import tex_code, tex_line

_POINTS = 72 / 25.4
_ANCHORS = {"start": "left,", "middle": "", "end": "right,"}
_FACES = {"regular": "", "strong": r"\bfseries", "code": r"\ttfamily"}

_COMMANDS = r"""% A node of TikZ would do the same, in several times the time.
\newcommand\DiagramText[5]{\pgftext[#1base,at={\pgfpointxy#2}]{\color{#3}#4\selectfont #5}}
\newcommand\DiagramLink[4]{\pgftext[left,top,at={\pgfpointxy#1}]{\hyperlink{#4}{\makebox[#2mm]{\rule{0pt}{#3mm}}}}}
"""


def preamble(colors: Mapping[str, str]) -> str:
    """Return the definitions for the document's preamble, to be placed after ``tikz`` and ``hyperref`` are loaded:
    colours ``diagram-ink`` and so on from ``colors`` (``#rrggbb`` by name), and styles ``diagram/action`` and so on."""
    named = (f"\\definecolor{{{_color(name)}}}{{HTML}}{{{value[1:].upper()}}}\n" for name, value in colors.items())
    looks = {
        **shapes.SHAPE_STYLES,
        **shapes.MARK_STYLES,
        "lane": shapes.LANE_STYLE,
        "head": shapes.LANE_HEAD_STYLE,
        "edge": shapes.EDGE_STYLE,
        "stroke": shapes.STROKE_STYLE,
    }
    styles = (f"  diagram/{name}/.style={{{_style(look)}}},\n" for name, look in looks.items())
    return "".join(
        (
            *(line for name, line in zip(colors, named, strict=True) if name in shapes.USED_COLORS),
            "\\tikzset{\n",
            *styles,
            "}\n",
            _COMMANDS,
        )
    )


def render(diagram: Diagram) -> str:
    """Render the ``tikzpicture``. Each shape with an ``href`` links to the ``\\hypertarget`` of that key."""
    return "\n".join(
        (
            "\\begin{tikzpicture}[x=1mm, y=-1mm, line join=round, line cap=round]",
            f"\\useasboundingbox (0,0) rectangle ({_n(diagram.width)},{_n(diagram.height)});",
            *(line for partition in diagram.partitions for line in _partition(partition)),
            *(line for edge in diagram.edges for line in _edge(edge)),
            *(line for node in diagram.nodes for line in _node(node)),
            *(line for mark in diagram.marks for line in _mark(mark)),
            *_texts(diagram.notes),
            "\\end{tikzpicture}\n",
        )
    )


def _color(name: str) -> str:
    return f"diagram-{name.replace('_', '-')}"


def _style(look: shapes.ShapeStyle) -> str:
    options = [f"line width={_n(look.width)}mm"]
    options += [f"fill={_color(look.fill)}"] if look.fill else []
    options += [f"draw={_color(look.stroke)}"] if look.stroke else []
    options += [f"rounded corners={_n(look.radius)}mm"] if look.radius else []
    options += (
        [f"dash pattern=on {_n(look.dashes[0])}mm off {_n(look.dashes[1])}mm, line cap=butt"] if look.dashes else []
    )
    return ", ".join(options)


def _partition(partition: Partition) -> Iterator[str]:
    yield f"\\path[diagram/lane] {_rectangle(partition.box)};"
    yield f"\\path[diagram/head] {_rectangle(partition.head)};"
    yield from _texts(partition.lines)
    yield from _link(partition.head, partition.href)


def _node(node: Node) -> Iterator[str]:
    centre = node.box.centre
    if node.shape in ("initial", "final", "connector"):
        yield f"\\path[diagram/{node.shape}] {_point(centre)} circle[radius={_n(node.box.width / 2)}mm];"
        if node.shape == "final":
            radius = shapes.FINAL_DISC * node.box.width / 2
            yield f"\\path[diagram/initial] {_point(centre)} circle[radius={_n(radius)}mm];"
    elif node.shape == "decision":
        corners = (
            Point(centre.x, node.box.y),
            Point(node.box.right, centre.y),
            Point(centre.x, node.box.bottom),
            Point(node.box.x, centre.y),
        )
        yield f"\\path[diagram/decision] {_path(corners)} -- cycle;"
    else:
        yield f"\\path[diagram/{node.shape}] {_rectangle(node.box)};"
    yield from (f"\\path[diagram/stroke] {_path(stroke)};" for stroke in node.strokes)
    yield from _texts(node.lines)
    yield from _link(node.box, node.href)


def _edge(edge: Edge) -> Iterator[str]:
    yield f"\\path[diagram/edge] {_path(edge.points)};"
    yield f"\\path[diagram/edge, sharp corners] {_path(edge.head)};"
    yield from _texts(edge.lines)


def _mark(mark: Mark) -> Iterator[str]:
    yield f"\\path[diagram/{mark.kind}] {_path((mark.start, mark.end))};"
    yield from _texts(mark.lines)


def _texts(lines: Iterable[Text]) -> Iterator[str]:
    for line in lines:
        points = _n(line.em * _POINTS)
        font = f"\\normalfont{_FACES[line.face]}\\fontsize{{{points}bp}}{{{points}bp}}"
        look = f"{{{_ANCHORS[line.anchor]}}}{_at(line.x, line.y)}{{{_color(shapes.TONE_COLORS[line.tone])}}}{{{font}}}"
        yield f"\\DiagramText{look}{{{tex_code(line.text) if line.face == 'code' else tex_line(line.text)}}}"


def _link(box: Box, href: str | None) -> Iterator[str]:
    """Make an empty linked box of the shape's size, so that the whole shape can be clicked."""
    if href is not None:
        yield f"\\DiagramLink{_at(box.x, box.y)}{{{_n(box.width)}}}{{{_n(box.height)}}}{{{href}}}"


def _rectangle(box: Box) -> str:
    return f"{_point(Point(box.x, box.y))} rectangle {_point(Point(box.right, box.bottom))}"


def _path(points: tuple[Point, ...]) -> str:
    return " -- ".join(_point(point) for point in points)


def _point(point: Point) -> str:
    return f"({_n(point.x)},{_n(point.y)})"


def _at(x: float, y: float) -> str:
    return f"{{{{{_n(x)}}}{{{_n(y)}}}}}"


def _n(length: float) -> str:
    return f"{length:.3f}".rstrip("0").rstrip(".")
