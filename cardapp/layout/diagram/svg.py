"""Renders a diagram as inline SVG. One user unit is one millimetre. The style sheet has the colours.

Lengths have five significant digits: a precision of 0.01 mm below a metre. No element has a ``style`` attribute, so a
page can forbid inline styles. A line of ASCII text has a ``textLength``, so that it fits its shape in another font too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache

from cardapp.layout.diagram import shapes
from cardapp.layout.diagram.flow_nodes import BEGIN
from cardapp.layout.diagram.shapes import Box, Diagram, Edge, Mark, Node, Partition, Point, Text
from cardapp.layout.escape import html, percent_encoded

Address = Callable[[str], str]
HERE = ' aria-current="location"'
"""The attribute of the shape at the current position."""
_ENGLISH = ' lang="en"'
"""The attribute of English words that are not from the card."""
_ROUND = ("initial", "final", "connector")


@lru_cache(maxsize=8192)
def _mm(length: float) -> str:
    """Format a length. The result is cached, because the shapes of a big card have the same few positions and sizes in
    all its diagrams."""
    return f"{length + 0.0:.5g}"  # + 0.0 turns -0.0 into 0.0, which is the same cache key


def on_this_page(key: str) -> str:
    return f"#{percent_encoded(key)}"


def render(diagram: Diagram, current: str | None = None, address: Address = on_this_page) -> str:
    """Render the ``<svg>`` element. Nodes have ``id="DIAGRAM.NODE"`` and ``data-key``, and link to the ``address`` of
    their key. One shape is marked: the shape of the position ``current``, or of its nearest ancestor that has a shape.
    For the card itself ("") the initial node is marked. None marks no shape."""
    name, size = html(diagram.id), f"{diagram.width:.5g} {diagram.height:.5g}"
    width, height = size.split()
    kind = diagram.id.partition(".")[0]
    marked = _nearest(diagram, current)
    decisions = {node.id for node in diagram.nodes if node.shape == "decision"}
    return "".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="diagram {html(kind)}" id="{name}"',
            f"{_ENGLISH if kind in ('memory', 'strip') else ''} ",
            f'viewBox="0 0 {size}" width="{width}mm" height="{height}mm" ',
            f'role="group" aria-labelledby="{name}.title {name}.desc">',
            f'<title id="{name}.title">{html(diagram.title)}</title>',
            f'<desc id="{name}.desc"{_ENGLISH}>{html(diagram.description)}</desc>',
            *(_partition(partition, address, current) for partition in diagram.partitions),
            *(_edge(edge, guarded=edge.source in decisions) for edge in diagram.edges),
            *(_node(node, name, address, current=node.id == marked) for node in diagram.nodes),
            *(_mark(mark) for mark in diagram.marks),
            *_texts(diagram.notes),
            "</svg>\n",
        )
    )


def style(colors: Mapping[str, str]) -> str:
    """Return the style sheet for all diagrams of a page. If the page defines custom properties (``--ink-soft`` for
    ``ink_soft``, ``--text``, ``--code``, ``--strong``), they override ``colors`` and the default fonts."""
    return "".join(_rules(colors))


def _rules(colors: Mapping[str, str]) -> Iterator[str]:
    yield f".diagram{{{_properties(colors)}max-width:100%;height:auto;overflow:visible}}\n"
    yield '.diagram text{font-family:var(--text,"Noto Sans",sans-serif);stroke:none}\n'
    yield ".diagram .strong{font-weight:var(--strong,700)}"
    yield '.diagram .code{font-family:var(--code,"Noto Sans Mono",monospace);white-space:pre}\n'
    yield ".diagram .start{text-anchor:start}.diagram .middle{text-anchor:middle}.diagram .end{text-anchor:end}\n"
    yield "".join(f".diagram .{tone}{{fill:{_color(name)}}}" for tone, name in shapes.TONE_COLORS.items()) + "\n"
    for shape, look in shapes.SHAPE_STYLES.items():
        yield f".diagram .{shape}>.shape{{{_css(look)}}}\n"
    yield f".diagram .final>.dot{{fill:{_color('ink')}}}\n"
    yield f".diagram .lane{{{_css(shapes.LANE_STYLE)}}}.diagram .head{{{_css(shapes.LANE_HEAD_STYLE)}}}\n"
    yield f".diagram .edge path{{{_css(shapes.EDGE_STYLE)};stroke-linejoin:round;stroke-linecap:round}}\n"
    yield f".diagram .stroke{{{_css(shapes.STROKE_STYLE)}}}\n"
    for kind, look in shapes.MARK_STYLES.items():
        yield f".diagram .{kind} path{{{_css(look)}}}\n"
    linked = ":is(.shape,.head)"
    yield f".diagram .current>{linked}{{{_css(shapes.CURRENT_STYLE)}}}"
    yield f".diagram .initial.current>.shape{{fill:{_color('current')}}}\n"
    yield f".diagram a{{cursor:pointer;text-decoration:none}}.diagram a:hover>{linked}{{stroke:{_color('accent')}}}\n"
    yield f".diagram a:focus-visible{{outline:none}}.diagram a:focus-visible>{linked}{{stroke:{_color('current')};"
    yield "stroke-width:.7}\n"


def _properties(colors: Mapping[str, str]) -> str:
    named = ((name.replace("_", "-"), value) for name, value in colors.items() if name in shapes.USED_COLORS)
    return "".join(f"--diagram-{name}:var(--{name},{value});" for name, value in named)


def _color(name: str | None) -> str:
    return "none" if name is None else f"var(--diagram-{name.replace('_', '-')})"


def _css(look: shapes.ShapeStyle) -> str:
    rules = f"fill:{_color(look.fill)};stroke:{_color(look.stroke)};stroke-width:{look.width:.5g}"
    return rules + (f";stroke-dasharray:{look.dashes[0]:.5g} {look.dashes[1]:.5g}" if look.dashes else "")


def _nearest(diagram: Diagram, current: str | None) -> str | None:
    if not current:
        return None if current is None else BEGIN
    keys = (node.href for node in diagram.nodes if node.href and f"{current}/".startswith(f"{node.href}/"))
    return max(keys, key=len, default=None)


def _partition(partition: Partition, address: Address, current: str | None) -> str:
    lane, head = (
        _rectangle(partition.box, "lane", shapes.LANE_STYLE.radius),
        _rectangle(partition.head, "head", shapes.LANE_HEAD_STYLE.radius),
    )
    name = f"<title>{html(partition.title)}</title>{head}{''.join(_texts(partition.lines))}"
    attributes = f' class="current"{HERE}' if current and partition.href == current else ""
    return f'<g class="partition">{lane}{_linked(partition.href, address, name, attributes)}</g>'


def _node(node: Node, diagram: str, address: Address, *, current: bool) -> str:
    strokes = "".join(f'<path class="stroke" d="{_path(stroke, 0)}"/>' for stroke in node.strokes)
    content = f"<title>{html(node.title)}</title>{_shape(node)}{strokes}{''.join(_texts(node.lines))}"
    name, marked = html(node.id), (" current", HERE) if current else ("", "")
    more = marked[1] + (_ENGLISH if node.shape in _ROUND else "")
    attributes = f' class="node {node.shape}{marked[0]}" id="{diagram}.{name}" data-key="{name}"{more}'
    return _linked(node.href, address, content, attributes)


def _linked(href: str | None, address: Address, content: str, attributes: str) -> str:
    if href is None:
        return f"<g{attributes}>{content}</g>"
    return f'<a href="{html(address(href))}"{attributes}>{content}</a>'


def _shape(node: Node) -> str:
    box, centre = node.box, node.box.centre
    if node.shape in _ROUND:
        circle = f'<circle class="shape" cx="{_mm(centre.x)}" cy="{_mm(centre.y)}" r="{_mm(box.width / 2)}"/>'
        radius = shapes.FINAL_DISC * box.width / 2
        dot = f'<circle class="dot" cx="{_mm(centre.x)}" cy="{_mm(centre.y)}" r="{_mm(radius)}"/>'
        return circle + dot if node.shape == "final" else circle
    if node.shape == "decision":
        corners = ((centre.x, box.y), (box.right, centre.y), (centre.x, box.bottom), (box.x, centre.y))
        return f'<polygon class="shape" points="{" ".join(f"{_mm(x)},{_mm(y)}" for x, y in corners)}"/>'
    return _rectangle(box, "shape", shapes.SHAPE_STYLES[node.shape].radius)


def _rectangle(box: Box, name: str, radius: float) -> str:
    corner = f' rx="{_mm(radius)}"' if radius else ""
    place = f'x="{_mm(box.x)}" y="{_mm(box.y)}" width="{_mm(box.width)}" height="{_mm(box.height)}"'
    return f'<rect class="{name}" {place}{corner}/>'


def _edge(edge: Edge, *, guarded: bool) -> str:
    line, head = _path(edge.points, shapes.EDGE_STYLE.radius), _path(edge.head, 0)
    english = _ENGLISH if guarded else ""
    return f'<g class="edge"{english}><path d="{line}"/><path d="{head}"/>{"".join(_texts(edge.lines))}</g>'


def _mark(mark: Mark) -> str:
    line = _path((mark.start, mark.end), 0)
    return (
        f'<g class="{mark.kind}"><title>{html(mark.title)}</title><path d="{line}"/>{"".join(_texts(mark.lines))}</g>'
    )


def _path(points: tuple[Point, ...], radius: float) -> str:
    """Draw lines from point to point with rounded corners."""
    if not radius or len(points) == 2:
        return "M" + "L".join([_at(point) for point in points])
    drawn = [f"M{_at(points[0])}"]
    for before, corner, after in zip(points, points[1:], points[2:], strict=False):
        near, far = _towards(corner, before, radius), _towards(corner, after, radius)
        drawn.append(f"L{_at(near)}Q{_at(corner)} {_at(far)}")
    drawn.append(f"L{_at(points[-1])}")
    return "".join(drawn)


@lru_cache(maxsize=8192)
def _at(point: Point) -> str:
    return f"{_mm(point.x)} {_mm(point.y)}"


def _towards(start: Point, goal: Point, distance: float) -> Point:
    across, down = goal.x - start.x, goal.y - start.y
    length = abs(across) + abs(down)
    share = min(distance / length, 0.5) if length else 0.0
    return Point(start.x + across * share, start.y + down * share)


def _texts(lines: Iterable[Text]) -> Iterator[str]:
    for line in lines:
        length = f' textLength="{_mm(line.width)}" lengthAdjust="spacingAndGlyphs"' if line.text.isascii() else ""
        yield (
            f'<text class="{line.face} {line.anchor} {line.tone}" x="{_mm(line.x)}" y="{_mm(line.y)}" '
            f'font-size="{_mm(line.em)}"{length}>{html(line.text)}</text>'
        )
