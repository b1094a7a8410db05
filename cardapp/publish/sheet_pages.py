"""The card's sheets for the browser page. They are composed once for each revision of the card's files, and rendered
page by page.

Composing a card of 2 000 steps takes a second, so a thread does it at the start. After a change, the next request
composes the sheets again. Other requests wait meanwhile.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from cardapp.card.search import Match, search
from cardapp.card_loader import ServedCard
from cardapp.errors import CardAppError, NotFound
from cardapp.layout.compose import compose
from cardapp.layout.diagram import activity, svg
from cardapp.layout.diagram.shapes import Room
from cardapp.layout.html import pages
from cardapp.layout.html.pages import Pages
from cardapp.layout.part_names import part_names
from cardapp.layout.sheets import Document
from cardapp.publish import layouts

_MAP_ROOM = Room(180.0, 100_000.0)
"""The size of a diagram in mm. It is narrow enough to be read beside a sheet, and high enough that the diagram of a
card is not split."""
_MAX_MATCHES = 100


@dataclass(frozen=True)
class _Composed:
    revision: str
    served: ServedCard
    sources: Mapping[str, Sequence[str]]
    document: Document
    pages: Pages
    style: str
    part_names: frozenset[str]


class SheetPages:
    """Serves the pages of the card that ``current`` returns, in the card's layout. Any thread may call the methods at
    any time."""

    def __init__(self, current: Callable[[], ServedCard], revision: Callable[[], str]) -> None:
        self._current = current
        self._revision = revision
        self._lock = threading.Lock()
        self._composed: _Composed | None = None

    def prepare(self) -> None:
        """Compose the current revision before the first request. If this fails, the first request tries again and
        reports the error."""
        with contextlib.suppress(CardAppError):
            self._up_to_date()

    def page(self, index: int) -> tuple[str, str]:
        """Return the key of the page's block, and the page's sheets as HTML. Raises :class:`NotFound` if there is no
        page ``index``."""
        composed = self._up_to_date()
        blocks = composed.served.catalog.at("block")
        if index >= len(blocks):
            raise NotFound(f"this card has no page {index}: its pages are 0 to {len(blocks) - 1}")
        return blocks[index].key, composed.pages.html(index)

    def document(self) -> Document:
        """Return the composed document."""
        return self._up_to_date().document

    def part_names(self) -> frozenset[str]:
        """Return the names of all parts of the sheets."""
        return self._up_to_date().part_names

    def style(self) -> str:
        """Return the style sheet of all pages, for a shadow root."""
        return self._up_to_date().style

    def diagram(self, key: str) -> str:
        """Render the activity diagram of the card ("") or of the block ``key`` as SVG."""
        composed = self._up_to_date()
        card = composed.served.card
        if key == "":
            return "".join(map(svg.render, activity.of_card(card, _MAP_ROOM)))
        for task in card.tasks:
            for block in task.blocks:
                if key == f"{task.id}/{block.id}":
                    return "".join(map(svg.render, activity.of_block(key, block, _MAP_ROOM)))
        raise NotFound(f"there is no diagram of {key!r}: give the key of a block, or no key for the whole card")

    def search(self, text: str) -> list[Match]:
        """Return the positions whose title, text or code contains ``text``, in document order."""
        composed = self._up_to_date()
        return search(composed.served.catalog, composed.served.card, composed.sources, text, _MAX_MATCHES)

    def _up_to_date(self) -> _Composed:
        revision = self._revision()
        with self._lock:
            composed = self._composed
            if composed is None or composed.revision != revision:
                composed = self._composed = self._compose(revision)
            return composed

    def _compose(self, revision: str) -> _Composed:
        served = self._current()
        layout = layouts.find(served.card.layout).arranged("html")
        sources = served.sources()
        document = compose(served.card, served.identity, layout, sources)
        style, names = pages.style(layout), part_names(document)
        return _Composed(revision, served, sources, document, Pages(document), style, names)
