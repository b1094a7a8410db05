"""Shows the strategies and the visible annotations of each step in the lesson report, with a picture of the drawings.

The picture shows the part of the sheet in outline, with its code or title. It has no ``style`` attributes, which the
report's policy forbids.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cardapp.card.strategy import Strategy
from cardapp.layout.annotations import Drawn, by_part
from cardapp.layout.escape import html
from cardapp.layout.font_metrics import CELL
from cardapp.layout.highlight import text_of
from cardapp.layout.measure import Measure
from cardapp.layout.part_names import Piece, pieces
from cardapp.layout.sheets import Code, Document, Part, Title
from cardapp.reports.entry import CardContext

_BASELINE = 0.76
"""The share of a line's height above its baseline, as on the sheets."""
_NUMBER_MM = 3.2


@dataclass(frozen=True)
class Explanations:
    """The card's strategies and annotations (records of the API). ``document`` returns its sheets, over which they are
    drawn."""

    strategies: Sequence[Strategy]
    annotations: Sequence[Mapping[str, Any]]
    document: Callable[[], Document]


def section(explanations: Explanations, context: CardContext) -> Iterator[str]:
    """Yield the section: for each step its strategies, then the parts with annotations. Nothing if there is none."""
    shown = [each for each in explanations.annotations if each["visible"]]
    steps = dict.fromkeys(_step(key) for key in (*(each.key for each in explanations.strategies), *map(_key, shown)))
    if not steps:
        return
    places = {key: place for place, key in enumerate(context.catalog.steps)}
    pictures = _Pictures(explanations.document())
    yield '<section class="explained">\n<h2>Annotations and strategies</h2>\n'
    for step in sorted(steps, key=lambda step: places.get(step, len(places))):
        yield f"<h3>{context.link(step)}</h3>\n"
        yield from (_strategy(each) for each in explanations.strategies if _step(each.key) == step)
        yield from pictures.of([each for each in shown if _step(_key(each)) == step])
    yield "</section>\n"


def _key(annotation: Mapping[str, Any]) -> str:
    return str(annotation["key"])


def _step(key: str) -> str:
    return key.rpartition("/")[0]


def _strategy(strategy: Strategy) -> str:
    rows = "".join(
        f'<tr><th scope="row"><code>{html(command)}</code></th><td><code>{html(expected or "–")}</code></td></tr>'
        for command, expected in zip(strategy.commands, strategy.expected_observations, strict=True)
    )
    head = "<tr><th>Command</th><th>Expected to print</th></tr>"
    return (
        f"<p><strong>{html(strategy.label)}</strong></p>\n"
        f'<table class="proof"><thead>{head}</thead>\n<tbody>{rows}</tbody></table>\n'
    )


class _Pictures:
    def __init__(self, document: Document) -> None:
        self._parts: dict[str, list[tuple[Part, Piece]]] = defaultdict(list)
        for sheet, found in zip(document.sheets, pieces(document), strict=True):
            for part, piece in zip(sheet.parts, found, strict=True):
                self._parts[piece.name].append((part, piece))
        self._measure = Measure(document.layout)

    def of(self, annotations: Sequence[Mapping[str, Any]]) -> Iterator[str]:
        """Yield a figure for each part with annotations: pictures of the pieces with an annotation, and the texts. For
        a part that is not on the sheets, only the texts are shown."""
        for name, drawn in by_part(annotations).items():
            texts = "".join(
                f"<li>{html(each.kind)}{f': {html(each.text)}' if each.text else ''}</li>" for each in drawn
            )
            pictures = "".join(self._picture(part, piece, drawn) for part, piece in self._parts.get(name, ()))
            yield f"<figure>{pictures}<figcaption><ol>{texts}</ol></figcaption></figure>\n"

    def _picture(self, part: Part, piece: Piece, drawn: Sequence[Drawn]) -> str:
        shown = [(number, found) for number, each in enumerate(drawn, 1) if (found := piece.shown(each))]
        if not shown:
            return ""
        width, height = part.frame.width, part.frame.height
        shapes = "".join(self._shape(number, each, part) for number, each in shown)
        return (
            f'<svg viewBox="-1 -1 {width + 2:.5g} {height + 2:.5g}" width="{width:.5g}mm" role="img" '
            f'aria-label="{html(part.kind.replace("_", " "))} with {len(shown)} drawn on it">'
            f'<rect class="frame" x="0" y="0" width="{width:.5g}" height="{height:.5g}"/>'
            f"{''.join(self._content(part))}{shapes}</svg>"
        )

    def _content(self, part: Part) -> Iterator[str]:
        measure, content = self._measure, part.content
        left = measure.padding(part.kind)
        if isinstance(content, Title):
            size = measure.component(part.kind).size
            yield _text("title", left, _BASELINE * measure.line(size), measure.em(size), content.text)
        elif isinstance(content, Code):
            em, line = measure.em("code"), measure.line("code")
            y = left + measure.label_height(part.kind, part.caption) + _BASELINE * line
            for segment in (segment for each in content.lines for segment in each.segments):
                yield _text("line", left + content.gutter * CELL * em, y, em, text_of(segment))
                y += line

    def _shape(self, number: int, drawn: Drawn, part: Part) -> str:
        width, height = part.frame.width, part.frame.height
        points = [(x * width, y * height) for x, y in drawn.points]
        (x, y), (to_x, to_y) = points[0], points[-1]
        pen = f'color="{html(drawn.color)}"' if drawn.color.startswith("#") else f'class="pen-{html(drawn.color)}"'
        place = (
            f'x="{min(x, to_x):.5g}" y="{min(y, to_y):.5g}" width="{abs(to_x - x):.5g}" height="{abs(to_y - y):.5g}"'
        )
        match drawn.kind:
            case "box":
                shape = f'<rect {place} fill="none" stroke="currentColor" stroke-width="{drawn.width:.5g}"/>'
            case "marker":
                shape = f'<rect {place} fill="currentColor" fill-opacity=".22"/>'
            case _:
                line = "L".join(f"{x:.5g} {y:.5g}" for x, y in points)
                shape = f'<path d="M{line}" fill="none" stroke="currentColor" stroke-width="{drawn.width:.5g}"/>'
                if drawn.kind in ("arrow", "callout") and len(points) > 1:
                    shape += f'<circle cx="{to_x:.5g}" cy="{to_y:.5g}" r="{2 * drawn.width:.5g}" fill="currentColor"/>'
        text_x, text_y = drawn.place.x * width, min(height, drawn.place.y * height)
        at = f'x="{text_x:.5g}" y="{text_y:.5g}" font-size="{_NUMBER_MM}"'
        return f'<g {pen}>{shape}<text class="mark" {at} fill="currentColor">{number}</text></g>'


def _text(name: str, x: float, y: float, em: float, text: str) -> str:
    return f'<text class="{name}" x="{x:.5g}" y="{y:.5g}" font-size="{em:.5g}">{html(text)}</text>'
