"""The card's activity diagram with the current position marked; each shape links to its position."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from cardapp.card.model import Card
from cardapp.layout.diagram import activity, svg
from cardapp.layout.diagram.shapes import Room
from cardapp.layout.escape import html, position_url
from cardapp.reports.entry import CardContext

_ROOM = Room(165.0, 215.0)
"""In mm. At the page's width, the diagram's text has the size of a caption; each diagram fits a sheet of paper."""


def position_diagram(card: Card, context: CardContext, current: str) -> Iterator[str]:
    """The section, one string per diagram; ``current`` is the key of the current position."""
    caption = '<span lang="en">No position is selected. The beginning of the card is marked.</span>'
    if current:
        caption = f'<span lang="en">Current position:</span> {context.link(current)}'
    yield (
        '<section class="position" aria-labelledby="position">\n<h2 id="position">Current position</h2>\n'
        f'<figure lang="{html(card.language)}">\n<figcaption>{caption}</figcaption>\n'
    )
    mark: str | None = current
    for diagram in activity.of_card(card, _ROOM):
        drawn = svg.render(diagram, mark, partial(position_url, context.base_url))
        if svg.HERE in drawn:
            mark = None  # a task may continue in further diagrams; mark it once
        yield drawn
    yield "</figure>\n</section>\n"
