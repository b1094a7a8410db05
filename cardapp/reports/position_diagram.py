"""The card's activity diagram with the place at which the card is open, each of its shapes a link that opens it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from cardapp.card.model import Card
from cardapp.layout.diagram import activity, svg
from cardapp.layout.diagram.model import Room
from cardapp.layout.escape import html, position_url
from cardapp.reports.entry import Place

_ROOM = Room(165.0, 215.0)
"""In mm. As wide as the page on a screen, its letters are as large as a caption's; each diagram of a long card fits a
sheet of paper."""


def position_diagram(card: Card, place: Place, current: str) -> Iterator[str]:
    """The section in pieces, each diagram one; ``current`` is the key of the session's position."""
    caption = '<span lang="en">Not begun yet: marked is where the card’s activity begins.</span>'
    if current:
        caption = f'<span lang="en">Marked in the card’s activity:</span> {place.link(current)}'
    yield (
        '<section class="position" aria-labelledby="position">\n<h2 id="position">Where the card is open</h2>\n'
        f'<figure lang="{html(card.language)}">\n<figcaption>{caption}</figcaption>\n'
    )
    mark: str | None = current
    for diagram in activity.of_card(card, _ROOM):
        drawn = svg.render(diagram, mark, partial(position_url, place.base_url))
        if svg.HERE in drawn:
            mark = None  # a task may go on in further diagrams; it is open in one place
        yield drawn
    yield "</figure>\n</section>\n"
